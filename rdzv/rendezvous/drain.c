/* Drains: an operator takes nodes out of their rounds, after their workers have saved the work.
 *
 * The order is a record beside the cordons, so its nodes get no further place. While it is open,
 * workers of each run in which such a node takes part find a key, and confirm by another key that a
 * checkpoint is saved. If the newest drain is confirmed, or the time of one is over, all open
 * drains of the space become evictions at once, so that the nodes of a run meet once. A node whose
 * own drain is not confirmed loses no step by that: all workers begin again in that meeting. */
#include "proto/json.h"
#include "rdzv/engine/log.h"
#include "rdzv/rendezvous/rendezvous.h"

#define VALUE_MAX 8192 /* bytes; patterns that have no room in it are left out */
#define CONFIRMED "rdzvd/checkpointed"

/* As a client of torch's TCPStore asks for it, and as torch's default group does. */
static const char *const drain_keys[] = {"/rdzvd/drain", "/default_pg/0//rdzvd/drain"};

/* --- The key. --- */

static bool is_in_run(const struct cordons *drains, const struct run_view *v)
{
    return drains->count != 0 && ANY(NODES_FOREACH(node, &v->state),
                                     node->participant && cordons_have(drains, node->addr));
}

/* {"id":…,"by":…,"nodes":[…],"reason":"…"}, with the reason of the newest. */
static struct slice write_value(const struct rendezvous_space *home, uint8_t text[VALUE_MAX])
{
    struct writer w = {.ptr = text, .cap = VALUE_MAX - OPERATOR_ORDER_MAX};
    size_t newest = home->drains.count - 1, before = 0;

    json_open(&w, '{');
    json_member_i64(&w, "id", home->drain_id);
    json_member_i64(&w, "by", home->drain_due_us / 1000000);
    json_list(&w, "nodes");
    for (size_t i = 0; i <= newest && w.len <= w.cap; i++) {
        before = w.len;
        json_item(&w, slice_str(home->drains.patterns[newest - i]));
    }
    w.len = w.len > w.cap ? before : w.len;
    w.cap = VALUE_MAX;
    writer_str(&w, "],\"reason\":");
    writer_slice(&w, operator_reason(driver_find_record(home, OPERATOR_NODE_KEY,
                                                        slice_str(home->drains.patterns[newest]))));
    return (struct slice){text, w.len};
}

static void put_keys(struct rendezvous_space *home, const struct worker_store *w,
                     struct slice value)
{
    const struct keymap *keys = w == NULL ? &home->space->store->keys : &w->keys;
    struct store_result result;

    for (size_t i = 0; i < sizeof drain_keys / sizeof *drain_keys; i++) {
        struct command command = {.kind = value.len == 0 ? COMMAND_KEY_DELETE : COMMAND_KEY_SET,
                                  .worker_store = w == NULL ? 0 : w->id,
                                  .key = slice_str(drain_keys[i]),
                                  .value = value};

        if (value.len == 0 && keymap_get(keys, command.key) == NULL)
            continue;
        engine_apply(home->rdzv->engine, home->space, &command, &result);
    }
}

/* Workers look in the store of their run; if worker 0 hosts that, a client of the space does. */
void drain_update_keys(struct rendezvous_space *home)
{
    uint8_t text[VALUE_MAX];
    struct slice value = {0}, none = {0};
    bool is_any = false;

    if (home->drains.count != 0)
        value = write_value(home, text);
    TAILQ_EACH(const struct run_view, v, &home->runs.list, order) {
        const struct worker_store *w =
            live_run_worker_store((const struct live_run *)(const void *)v);
        bool is_drained = is_in_run(&home->drains, v);

        is_any = is_any || is_drained;
        if (w != NULL)
            put_keys(home, w, is_drained ? value : none);
    }
    put_keys(home, NULL, is_any ? value : none);
}

/* --- Its end. --- */

void drain_note_set(struct rendezvous_space *home, struct slice key, struct slice value)
{
    uint64_t id;

    if (!slice_ends_with(key, CONFIRMED) || !slice_to_u64(value, INT64_MAX, &id) ||
        (int64_t)id != home->drain_id)
        return;
    home->drain_due_us = 0;
    driver_tick_soon(home->rdzv);
}

void drain_tick(struct rendezvous_space *home)
{
    if (home->drains.count == 0 || home->drain_due_us > engine_wall_ns(home->rdzv->engine) / 1000 ||
        !engine_takes_changes(home->rdzv->engine))
        return;
    log_event(LOG_WARN, "drain_over", log_str("space", home->space->store->name),
              log_u64("orders", home->drains.count),
              log_str("reason", home->drain_due_us == 0 ? "workers have confirmed the checkpoint"
                                                        : "the time of the order is over"));
    operator_evict_drained(home);
}
