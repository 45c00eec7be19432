/* Reads settings of elastic jobs, and notes which of these settings contradict each other. */
#include "rdzv/config/config_internal.h"

#include <stdlib.h>
#include <string.h>

#include "proto/torch/torch_state.h"
#include "proto/units.h"

const char *const rank_order_names[] = {"torch", "natural", "keep", "table", NULL};

const char *config_check_worker_ports(struct config *c, const char *text)
{
    const char *dash = strchr(text, '-');
    size_t len = dash == NULL ? strlen(text) : (size_t)(dash - text);
    uint16_t low, high;

    if (!config_read_port(text, len, 1, &low) ||
        !config_read_port(dash == NULL ? text : dash + 1, dash == NULL ? len : strlen(dash + 1), 1,
                          &high))
        return "write LOW-HIGH, two ports from 1 to 65535, such as 29500-29599";
    if (high < low)
        return "the second port is below the first; write LOW-HIGH";
    c->elastic.worker_port_low = low;
    c->elastic.worker_port_high = high;
    return NULL;
}

/* "3/1h"; history.h has 100 rounds. */
static bool read_limit(const char *value, struct rule_limit *out)
{
    size_t len = strcspn(value, "/");

    return value[len] == '/' &&
           slice_to_u64((struct slice){(const uint8_t *)value, len}, 99, &out->count) &&
           units_parse_duration(value + len + 1, &out->ms) == UNITS_OK && out->ms != 0;
}

/* "3/10m", or "3/10m/2h". */
static bool read_cordon(const char *value, struct run_rules *out)
{
    const char *last = strrchr(value, '/');
    bool ends = last != NULL && last != strchr(value, '/');
    char *limit = config_copy_text(value, ends ? (size_t)(last - value) : strlen(value));
    bool ok = read_limit(limit, &out->cordon_after) && out->cordon_after.count != 0;

    free(limit);
    out->cordon_ms = 0;
    return ok && (!ends || (units_parse_duration(last + 1, &out->cordon_ms) == UNITS_OK &&
                            out->cordon_ms != 0));
}

static bool read_rule(const char *rule, struct run_rules *out, char **rank_zero)
{
    struct slice name = {(const uint8_t *)rule, strcspn(rule, "=")};
    const char *value = rule + name.len + (rule[name.len] == '=');

    if (slice_is(name, "nodes-multiple"))
        return slice_to_u64(slice_str(value), UINT16_MAX, &out->nodes_multiple);
    if (slice_is(name, "grow-interval"))
        return units_parse_duration(value, &out->grow_interval_ms) == UNITS_OK;
    if (slice_is(name, "group"))
        return slice_to_u64(slice_str(value), UINT8_MAX, &out->group);
    if (slice_is(name, "restart-budget"))
        return read_limit(value, &out->restart_budget);
    if (slice_is(name, "cordon-after"))
        return read_cordon(value, out);
    if (slice_is(name, "no-progress"))
        return read_limit(value, &out->no_progress) && out->no_progress.count != 0;
    if (rank_zero == NULL || !slice_is(name, "rank-zero") || value[0] == '\0')
        return false;
    free(*rank_zero);
    *rank_zero = config_copy_text(value, strlen(value));
    return true;
}

/* How to write the rule, or which rules there are. */
static const char *hint_of_rule(const char *rule)
{
    static const char *const hints[] = {
        "write nodes-multiple=COUNT, such as 4",
        "write grow-interval=DURATION, such as 30m",
        "write group=COLUMN, such as 2",
        "write restart-budget=COUNT/DURATION, such as 3/1h; COUNT is at most 99",
        "write cordon-after=COUNT/DURATION[/DURATION], such as 3/10m; COUNT is at most 99",
        "write no-progress=COUNT/DURATION, such as 3/10m; COUNT is at most 99",
    };
    size_t len = strcspn(rule, "=");

    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        const char *form = hints[i] + strlen("write ");

        if (strncmp(form, rule, len) == 0 && form[len] == '=')
            return hints[i];
    }
    return "write RULE[,RULE...]: nodes-multiple, grow-interval, group, restart-budget, "
           "cordon-after or no-progress; rdzvd --rules also takes rank-zero=NODE";
}

const char *run_rules_read(const char *text, struct run_rules *out, char **rank_zero)
{
    struct run_rules rules = *out;
    struct string_list items = {0};
    const char *fault = NULL;

    string_list_split(&items, text);
    for (size_t i = 0; i < items.count && fault == NULL; i++)
        fault = read_rule(items.items[i], &rules, rank_zero) ? NULL : hint_of_rule(items.items[i]);
    string_list_free(&items);
    if (fault == NULL)
        *out = rules;
    return fault;
}

const char *config_check_run_rules(struct config *c, const char *text)
{
    return run_rules_read(text, &c->elastic.rules, &c->elastic.rank_zero);
}

bool node_label_read(const char *text, struct topology_label *out)
{
    struct string_list items = {0};
    bool ok = true;

    string_list_split(&items, text);
    for (size_t i = 0; i < items.count; i++) {
        const char *item = items.items[i], *value = strchr(item, '=');

        if (value != NULL && (*++value == '\0' || strstr(value, "$(") != NULL))
            continue;
        if (value != NULL && strncmp(item, "index=", 6) == 0)
            ok = ok && slice_to_u64(slice_str(value), INT64_MAX, &out->index) && ++out->index != 0;
        else
            ok = ok && value != NULL && strncmp(item, "domain=", 7) == 0 &&
                 topology_is_domain(value) &&
                 snprintf(out->domain, sizeof out->domain, "%s", value) < TOPOLOGY_LABEL_MAX;
    }
    string_list_free(&items);
    return ok;
}

const char *config_check_node_label(struct config *c, const char *text)
{
    return node_label_read(text, &c->node_label)
               ? NULL
               : "write index=NUMBER, domain=NAME[/NAME...], or both with a comma";
}

const char *config_check_disable(struct config *, const char *name)
{
    static const char *const names[] = {CONFIG_C10D_LEGACY, CONFIG_CLOSE_FROM_MEMBERS,
                                        CONFIG_DROP_DISCONNECTED, CONFIG_END_LAST_CALL};

    if (ANY(FOREACH_POINTER(const char, known, names, sizeof names / sizeof names[0]),
            strcmp(name, known) == 0))
        return NULL;
    return "is none of " CONFIG_C10D_LEGACY ", " CONFIG_CLOSE_FROM_MEMBERS
           ", " CONFIG_DROP_DISCONNECTED ", " CONFIG_END_LAST_CALL;
}

bool config_disables(const struct config *config, const char *name)
{
    return ANY(FOREACH_POINTER(char, item, config->disabled.items, config->disabled.count),
               strcmp(item, name) == 0);
}

void config_finish_elastic(struct config *c)
{
    struct policy_settings *e = &c->elastic;

    c->legacy = !config_disables(c, CONFIG_C10D_LEGACY);
    e->close_from_members = !config_disables(c, CONFIG_CLOSE_FROM_MEMBERS);
    e->drop_disconnected = !config_disables(c, CONFIG_DROP_DISCONNECTED);
    e->end_last_call = !config_disables(c, CONFIG_END_LAST_CALL);
    e->late_text = 1 << 15; /* a round of about 400 nodes */
    e->crowd = 1000;

    if (!e->fixes && e->advertise != NULL)
        config_note(c, CONFIG_NOTE_IGNORED, "--advertise", "--elastic-fixes is off");
    if (!e->fixes && e->worker_ports != NULL)
        config_note(c, CONFIG_NOTE_IGNORED, "--worker-ports", "--elastic-fixes is off");
    if (e->rank_zero != NULL && (!e->fixes || e->rank_order == RANKS_TORCH))
        config_note(c, CONFIG_NOTE_IGNORED, "--rules=rank-zero",
                    "--elastic-fixes is off, or --rank-order is torch");
    if (e->rules.group != 0 && e->topology_file == NULL)
        config_note(c, CONFIG_NOTE_IGNORED, "--rules=group", "there is no --topology-file");
    if (e->topology_file != NULL &&
        (!e->fixes || (e->rank_order < RANKS_KEEP && e->rules.group == 0)))
        config_note(c, CONFIG_NOTE_IGNORED, "--topology-file",
                    "--elastic-fixes is off, or --rank-order is torch or natural");
    if (!e->fixes || e->closed_run_wait_ms == 0)
        return;
    if (e->closed_run_wait_ms >= TORCH_READ_TIMEOUT_MS)
        config_note(c, CONFIG_NOTE_WARNING, "--closed-run-wait",
                    "torch's agents give up after 60s (read_timeout in their --rdzv-conf)");
    if (e->closed_run_wait_ms <= e->closed_run_ttl_ms)
        config_note(
            c, CONFIG_NOTE_WARNING, "--closed-run-wait",
            "is not above --closed-run-ttl: an agent that comes right after its run has ended "
            "always gets the answer that the run is closed");
}
