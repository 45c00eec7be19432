/* Endpoints that may change. See endpoints.h for the contract. */
#include "rdzv/etcd3/endpoints.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rdzv/engine/log.h"

/* Parses into the unused set. False: `why` names the position of the fault. */
static bool parse_endpoints(struct endpoints *e, char why[sizeof e->wrong])
{
    static uint8_t bytes[ENDPOINTS_FILE_MAX + 1]; /* one thread, and no call from within */
    struct config_file_error error;
    ssize_t len = plain_file_read(e->file, bytes, sizeof bytes);

    if (len < 0)
        snprintf(why, sizeof e->wrong, "%.250s: %s", e->file, strerror(errno));
    else if (!endpoints_file_parse((struct slice){bytes, (size_t)len}, &e->sets[!e->used], &error))
        snprintf(why, sizeof e->wrong, "%.250s:%u:%u: %s", e->file, error.at.line, error.at.column,
                 error.text);
    else
        return true;
    return false;
}

static void use_other_set(struct endpoints *e)
{
    e->used = !e->used;
    e->list = e->sets[e->used].list;
    e->count = e->sets[e->used].count;
}

static bool is_same_set(const struct endpoint_set *a, const struct endpoint_set *b)
{
    bool same = a->count == b->count;

    for (size_t i = 0; same && i < a->count; i++)
        same = a->list[i].port == b->list[i].port && strcmp(a->hosts[i], b->hosts[i]) == 0;
    return same;
}

/* Once for each fault. */
static void log_wrong_file(struct endpoints *e, const char why[sizeof e->wrong])
{
    if (strcmp(why, e->wrong) == 0)
        return;
    memcpy(e->wrong, why, sizeof e->wrong);
    log_event(LOG_ERROR, "endpoints_refused", log_str("reason", why),
              log_u64("endpoints", e->count),
              log_str("hint", "rdzvd reads the file again before each try"));
}

bool endpoints_refresh(struct endpoints *e)
{
    char why[sizeof e->wrong] = "";

    if (e->file == NULL)
        return false;
    if (!parse_endpoints(e, why)) {
        log_wrong_file(e, why);
        return false;
    }
    e->wrong[0] = '\0';
    if (is_same_set(&e->sets[0], &e->sets[1]))
        return false;
    use_other_set(e);
    log_event(LOG_INFO, "endpoints_loaded", log_str("file", e->file),
              log_u64("endpoints", e->count));
    return true;
}

void endpoints_begin(struct endpoints *e, const struct config_journal *config)
{
    *e = (struct endpoints){
        .list = config->endpoints, .count = config->endpoint_count, .file = config->endpoints_file};
    endpoints_refresh(e);
}
