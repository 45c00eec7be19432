/* Splits a conf as torch does, except what a shell replaces first. */
#include "deploy/kube/rdzv_conf.h"

#include "deploy/yaml/arena.h"
#include "proto/nearest.h"

#include <string.h>
#include <strings.h>

static bool is_white(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* A comma outside of quotes and substitutions, or the end. */
static size_t find_comma(const char *conf, size_t at)
{
    int depth = 0;
    char quote = '\0';

    for (; conf[at] != '\0'; at++) {
        char c = conf[at];

        if (quote != '\0')
            quote = c == quote ? '\0' : quote;
        else if (c == '"' || c == '\'' || c == '`')
            quote = c;
        else if (c == '(' || c == '{')
            depth++;
        else if (c == ')' || c == '}')
            depth--;
        else if (c == ',' && depth <= 0)
            break;
    }
    return at;
}

static size_t trim_end(const char *conf, size_t start, size_t end)
{
    while (end > start && is_white(conf[end - 1]))
        end--;
    return end;
}

bool rdzv_conf_next(const char *conf, size_t *at, struct rdzv_conf_entry *out)
{
    const char *equals;

    while (conf[*at] == ',' || is_white(conf[*at]))
        ++*at;
    if (conf[*at] == '\0')
        return false;
    out->start = *at;
    *at = find_comma(conf, *at);
    out->end = trim_end(conf, out->start, *at);
    equals = memchr(conf + out->start, '=', out->end - out->start);
    out->key_end = equals == NULL ? out->end : (size_t)(equals - conf);
    out->value_start = equals == NULL ? out->end : out->key_end + 1;
    while (out->value_start < out->end && is_white(conf[out->value_start]))
        out->value_start++;
    out->key_end = trim_end(conf, out->start, out->key_end);
    return true;
}

bool rdzv_conf_find(const char *conf, const char *key, struct rdzv_conf_entry *out)
{
    size_t at = 0, len = strlen(key);

    while (rdzv_conf_next(conf, &at, out)) {
        if (out->key_end - out->start == len && strncmp(conf + out->start, key, len) == 0 &&
            conf[out->key_end + strspn(conf + out->key_end, " \t\n")] == '=')
            return true;
    }
    return false;
}

bool rdzv_conf_is_false(const char *conf, const struct rdzv_conf_entry *e)
{
    size_t len = e->end - e->value_start;

    return ANY(FOREACH_WORD(word, "0", "false", "f", "no", "n"),
               strlen(word) == len && strncasecmp(conf + e->value_start, word, len) == 0);
}

/* --- Keys. --- */

int rdzv_conf_backend(const char *name)
{
    return strcmp(name, "c10d") == 0      ? RDZV_CONF_C10D
           : strcmp(name, "etcd-v2") == 0 ? RDZV_CONF_ETCD_V2
           : strcmp(name, "etcd") == 0    ? RDZV_CONF_ETCD
           : strcmp(name, "static") == 0  ? RDZV_CONF_STATIC
                                          : 0;
}

const char *rdzv_conf_near(const char *key, int backends)
{
    struct nearest n = nearest_to(key);

    for (size_t i = 0; i < rdzv_conf_key_count; i++) {
        if (backends == 0 || (rdzv_conf_keys[i].backends & backends) != 0)
            nearest_try(&n, rdzv_conf_keys[i].key);
    }
    return strcmp(key, "heartbeat") == 0 ? "heartbeat_timeout" : n.found;
}

int rdzv_conf_readers(const char *key)
{
    const struct rdzv_conf_key *found =
        FIND(k, FOREACH(const struct rdzv_conf_key, k, rdzv_conf_keys, rdzv_conf_key_count),
             strcmp(k->key, key) == 0);

    return found == NULL ? 0 : found->backends;
}
