/* Reads quantities, and makes requests and limits agree. */
#include "deploy/template/template.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

long double quantity_value(const char *text)
{
    static const struct {
        const char *unit;
        long double factor, divisor; /* whole numbers, so that 1000m is 1 to the last bit */
    } units[] = {{"", 1, 1},         {"n", 1, 1e9L},     {"u", 1, 1e6L},     {"m", 1, 1e3L},
                 {"k", 1e3L, 1},     {"M", 1e6L, 1},     {"G", 1e9L, 1},     {"T", 1e12L, 1},
                 {"P", 1e15L, 1},    {"E", 1e18L, 1},    {"Ki", 0x1p10L, 1}, {"Mi", 0x1p20L, 1},
                 {"Gi", 0x1p30L, 1}, {"Ti", 0x1p40L, 1}, {"Pi", 0x1p50L, 1}, {"Ei", 0x1p60L, 1}};
    size_t digits = strspn(text, "0123456789.");
    char *end, number[64];
    long double value;

    if (digits == 0 || digits >= sizeof number)
        return -1;
    memcpy(number, text, digits);
    number[digits] = '\0';
    value = strtold(number, &end);
    if (*end != '\0')
        return -1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(text + digits, units[i].unit) == 0)
            return value * units[i].factor / units[i].divisor;
    }
    value = strtold(text, &end); /* 1e3, 2E-1; not 0x1 */
    return (text[digits] == 'e' || text[digits] == 'E') && *end == '\0' ? value : -1;
}

static const char *amount_of(const struct yaml_node *resources, const char *part, const char *name)
{
    return yaml_text(yaml_get(yaml_get(resources, part), name));
}

static bool is_device(const char *name)
{
    return strchr(name, '/') != NULL;
}

/* Whether a container's request of this resource must equal its limit. */
static bool is_indivisible(const char *name)
{
    return is_device(name) || strncmp(name, "hugepages-", 10) == 0;
}

/* --- One follows the other. --- */

static bool follows(const struct yaml_node *base, const char *name, const char *from,
                    const char *given)
{
    bool is_request = strcmp(from, "requests") == 0;
    const char *request = amount_of(base, "requests", name),
               *limit = amount_of(base, "limits", name);
    const char *other = is_request ? limit : request;

    if (is_indivisible(name))
        return true;
    if (other == NULL)
        return false;
    if (request != NULL && limit != NULL && quantity_value(request) == quantity_value(limit))
        return true;
    return is_request ? quantity_value(given) > quantity_value(other)
                      : quantity_value(given) < quantity_value(other);
}

/* If `over` sets a quantity in one part only (requests or limits), and the other part must follow,
 * sets it in part `to` of `out`, too. */
static void pull_along(struct arena *a, struct yaml_node *out, const struct yaml_node *base,
                       const struct yaml_node *over, const char *from, const char *to)
{
    YAML_FOREACH_PAIR(given_pair, yaml_get(over, from)) {
        const char *name = given_pair->key->text;
        const struct yaml_node *value = given_pair->value, *part = yaml_get(out, to);
        struct yaml_node *filled;

        if (yaml_text(value) == NULL || amount_of(over, to, name) != NULL ||
            !follows(base, name, from, value->text))
            continue;
        filled = merge_nodes(MERGE_VALUES, a, part, yaml_new(a, YAML_MAPPING));
        yaml_put(a, filled, name, value);
        yaml_put(a, out, to, filled);
    }
}

struct yaml_node *quantity_fit(struct arena *a, const struct yaml_node *base,
                               const struct yaml_node *over)
{
    struct yaml_node *out = yaml_new(a, YAML_MAPPING);

    out = merge_nodes(MERGE_VALUES, a, merge_nodes(MERGE_VALUES, a, out, base), over);
    pull_along(a, out, base, over, "requests", "limits");
    pull_along(a, out, base, over, "limits", "requests");
    return out;
}

/* --- What cannot be. --- */

static bool is_conflict(const char *name, const char *request, const char *limit)
{
    long double wanted = quantity_value(request), most;

    if (is_device(name) && (limit == NULL || floorl(wanted) != wanted))
        return true;
    if (limit == NULL)
        return false;
    most = quantity_value(limit);
    return wanted > most || (is_indivisible(name) && wanted != most);
}

struct yaml_node *quantity_conflicts(struct arena *a, const struct yaml_node *resources)
{
    struct yaml_node *list = yaml_new(a, YAML_SEQUENCE);

    YAML_FOREACH_PAIR(pair, yaml_get(resources, "requests")) {
        const struct yaml_node *limit = yaml_get(yaml_get(resources, "limits"), pair->key->text);
        struct yaml_node *item;

        if (yaml_text(pair->value) == NULL ||
            !is_conflict(pair->key->text, pair->value->text, yaml_text(limit)))
            continue;
        item = yaml_put_new(a, list, NULL, YAML_MAPPING);
        yaml_put(a, item, "name", pair->key);
        yaml_put(a, item, "request", pair->value);
        yaml_put(a, item, "limit", limit);
    }
    return list;
}
