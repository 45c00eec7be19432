/* Relays: rdzvd with --upstream, and the store that it leads to. */
#include "deploy/kube/job_view.h"

#include <stdlib.h>
#include <string.h>

/* "HOST:PORT" into its parts; false: it is none. */
static bool split_address(struct arena *a, const char *text, size_t len, struct job_upstream *out)
{
    const char *copy = arena_copy(a, text, len), *colon = strrchr(copy, ':');
    char *end;

    out->text = copy;
    out->host = colon == NULL ? "" : arena_copy(a, copy, (size_t)(colon - copy));
    out->port = colon == NULL ? -1 : strtol(colon + 1, &end, 10);
    return colon != NULL && colon > copy && end > colon + 1 && *end == '\0' && out->port > 0 &&
           out->port < 65536 && strpbrk(out->host, "/ ") == NULL;
}

static void find_target(struct job_view *v, const struct kube_object *from,
                        struct job_upstream *out)
{
    out->found = kube_find_host(v->bundle, from, out->host, &out->target);
    if (!out->found)
        return;
    out->store = out->target.pods != NULL ? job_server_in(v, out->target.pods)
                                          : job_server_behind(v, out->target.service);
}

bool job_relay_upstream(struct job_view *v, const struct job_store *relay, size_t index,
                        struct job_upstream *out)
{
    struct arena *a = &v->bundle->arena;
    const char *text;
    size_t len;

    *out = (struct job_upstream){.port = -1};
    if (relay->kind != JOB_STORE_RELAY ||
        !job_store_option(v, relay->container, "upstream", NULL, &out->setting))
        return false;
    for (text = out->setting.value.text; index > 0; index--) {
        text += strcspn(text, ",");
        if (*text++ == '\0')
            return false;
    }
    len = strcspn(text, ",");
    out->known = out->setting.value.known;
    out->well_formed = split_address(a, text, len, out);
    if (out->known && out->well_formed)
        find_target(v, relay->container->pods->object, out);
    return true;
}

/* What is known of a relay, once somebody has asked. */
struct job_store_behind {
    bool known;
    const struct job_store *store;
};

const struct job_store *job_store_behind(struct job_view *v, const struct job_store *s)
{
    struct job_store_behind *found;
    struct job_upstream u;

    if (s == NULL || s->kind != JOB_STORE_RELAY)
        return s;
    if (v->behind == NULL)
        v->behind = arena_alloc(&v->bundle->arena, v->store_count * sizeof *v->behind);
    found = &v->behind[s - v->stores];
    for (size_t i = 0; !found->known && found->store == NULL && job_relay_upstream(v, s, i, &u);
         i++)
        found->store = u.store;
    found->known = true;
    return found->store;
}

bool job_relay_space(struct job_view *v, const struct job_store *relay, struct job_setting *out)
{
    if (job_store_option(v, relay->container, "space", NULL, out))
        return true;
    *out = (struct job_setting){.value = {.text = "default", .known = true}};
    return false;
}
