/* Spaces, commit and time of the store. See engine.h for the contract. */
#include "rdzv/engine/engine.h"

#include "store/memory/xalloc.h"

/* While nodes with a TTL exist, an idle store writes the time into the journal this often.
 * Otherwise the next start would count all the time since the last change as downtime, and would
 * extend all TTLs by it. */
#define ALIVE_MS 5000u

#define RANK_KEYS 256 /* are looked at in one call of engine_forget_ranks() */

void engine_init(struct engine *e, const struct engine_options *options)
{
    *e = (struct engine){.options = *options};
    batch_init(&e->batch);
    batch_begin(&e->batch, 1);
    TAILQ_INIT(&e->spaces);
    store_init(&e->store, &(struct store_options){.seed = options->seed,
                                                  .key_groups = options->key_groups,
                                                  .space_bytes_max = options->space_bytes_max});
    e->started_ns = engine_wall_ns(e);
}

void engine_fini(struct engine *e)
{
    struct engine_space *space;

    while ((space = TAILQ_FIRST(&e->spaces)) != NULL) {
        TAILQ_REMOVE(&e->spaces, space, entry);
        free(space);
    }
    store_fini(&e->store);
    batch_fini(&e->batch);
}

struct engine_space *engine_find_space(const struct engine *e, struct slice name)
{
    TAILQ_EACH(struct engine_space, space, &e->spaces, entry) {
        if (slice_is(name, space->store->name))
            return space;
    }
    return NULL;
}

struct engine_space *engine_space(struct engine *e, struct slice name)
{
    struct engine_space *space = engine_find_space(e, name);

    if (space != NULL)
        return space;
    space = xcalloc(1, sizeof *space);
    space->store = store_space(&e->store, name);
    TAILQ_INSERT_TAIL(&e->spaces, space, entry);
    return space;
}

void engine_apply(struct engine *e, struct engine_space *space, const struct command *command,
                  struct store_result *out)
{
    struct batch *batch = e->options.journal.commit != NULL ? &e->batch : NULL;

    if (!store_execute(&e->store, space->store, command, batch, out))
        return;
    e->batch_changes++;
    if (e->observer.applied != NULL)
        e->observer.applied(e->observer.arg, space, command);
    if (command_part(command->kind) == PART_KEYS)
        return;
    e->expiry_moved = true;
    if (e->tree_observer.applied != NULL)
        e->tree_observer.applied(e->tree_observer.arg, space, command);
}

/* --- The commit. --- */

void engine_commit(struct engine *e)
{
    uint64_t durable = e->batch.number;

    engine_vouch(e);
    if (e->batch_changes == 0)
        return;
    if (e->options.journal.commit != NULL) {
        batch_end(&e->batch, engine_wall_ns(e));
        durable = e->options.journal.commit(e->options.journal.arg, &e->batch);
        e->committed_ms = engine_now_ms(e);
    }
    batch_begin(&e->batch, e->batch.number + 1);
    e->changes += e->batch_changes;
    e->batch_changes = 0;
    engine_committed(e, durable);
}

void engine_commit_time(struct engine *e)
{
    if (e->options.journal.commit == NULL || e->batch.refuses)
        return;
    e->batch_changes++;
    engine_commit(e);
}

void engine_committed(struct engine *e, uint64_t number)
{
    if (number > e->committed)
        e->committed = number;
}

/* --- The journal. --- */

bool engine_stands_by(const struct engine *e)
{
    const struct engine_journal *j = &e->options.journal;

    return j->stands_by != NULL && j->stands_by(j->arg);
}

bool engine_is_cut_off(const struct engine *e)
{
    const struct engine_journal *j = &e->options.journal;

    return j->is_cut_off != NULL && j->is_cut_off(j->arg);
}

void engine_poll_journal(struct engine *e)
{
    if (e->options.journal.poll != NULL)
        e->options.journal.poll(e->options.journal.arg);
}

void engine_tick_journal(struct engine *e)
{
    int64_t at_ns;

    if (e->options.journal.tick != NULL)
        e->options.journal.tick(e->options.journal.arg);
    if (clock_elapsed_ms(e->committed_ms, engine_now_ms(e)) >= ALIVE_MS &&
        engine_next_expiry(e, &at_ns))
        engine_commit_time(e);
}

void engine_log_refusal(struct engine *e, struct log_field of)
{
    if (e->has_logged_refusal == (e->refusal != NULL))
        return;
    e->has_logged_refusal = e->refusal != NULL;
    if (e->refusal != NULL)
        log_event(LOG_ERROR, "journal_failed", of, log_str("reason", e->refusal),
                  log_str("action", "changes are refused; rdzvd tries again each second"));
    else
        log_event(LOG_INFO, "journal_resumed", of);
}

void engine_close_journal(struct engine *e)
{
    if (e->options.journal.close != NULL)
        e->options.journal.close(e->options.journal.arg);
    e->refusal = NULL;
}

/* --- Connections. --- */

void engine_use_began(struct engine *e)
{
    e->uses++;
    e->used = true;
}

void engine_use_ended(struct engine *e)
{
    e->uses--;
    e->used_ms = engine_now_ms(e);
}

uint64_t engine_unused_ms(const struct engine *e)
{
    return !e->used || e->uses > 0 ? 0 : clock_elapsed_ms(e->used_ms, engine_now_ms(e));
}

void engine_session_began(struct engine *e, struct engine_space *space)
{
    if (space->c10d_sessions++ == 0) {
        space->old_keys = space->idle_since_ms == 0 ? 0 : space_usage(space->store).keys;
        space->first_end = 0;
    }
    space->idle_since_ms = 0;
    engine_use_began(e);
}

void engine_session_ended(struct engine *e, struct engine_space *space)
{
    engine_use_ended(e);
    if (--space->c10d_sessions == 0)
        space->idle_since_ms = e->used_ms;
}

/* --- Time. --- */

/* The pause that ends now and is not noted yet. */
static uint64_t fresh_pause(const struct engine *e, uint64_t now_ms)
{
    uint64_t gap = e->alive_ms == 0 ? 0 : clock_elapsed_ms(e->alive_ms, now_ms);

    return gap >= ENGINE_PAUSE_MS ? gap : 0;
}

void engine_note_alive(struct engine *e)
{
    uint64_t now = engine_now_ms(e), paused = fresh_pause(e, now);

    e->alive_ms = now;
    if (paused == 0)
        return;
    e->paused_ms += paused;
    log_event(LOG_INFO, "resumed", log_u64("paused_ms", paused));
}

uint64_t engine_lived_ms(const struct engine *e)
{
    uint64_t now = engine_now_ms(e);

    return now - e->paused_ms - fresh_pause(e, now);
}

bool engine_next_expiry(struct engine *e, int64_t *at_ns)
{
    bool any = false;

    TAILQ_EACH(struct engine_space, space, &e->spaces, entry) {
        int64_t at;

        if (!tree_next_expiry(&space->store->tree, &at) || (any && at >= *at_ns))
            continue;
        *at_ns = at;
        any = true;
    }
    return any;
}

/* True: one expired node of the space has been removed. */
static bool expire_one(struct engine *e, struct engine_space *space, const struct command *command)
{
    struct store_result result;
    int64_t at;

    if (!tree_next_expiry(&space->store->tree, &at) || at > command->now_ns)
        return false;
    engine_apply(e, space, command, &result);
    return result.count != 0;
}

bool engine_expire(struct engine *e, size_t max)
{
    const struct command command = {.kind = COMMAND_TREE_EXPIRE, .now_ns = engine_wall_ns(e)};
    int64_t at;

    TAILQ_EACH(struct engine_space, space, &e->spaces, entry) {
        while (max > 0 && expire_one(e, space, &command))
            max--;
    }
    return max == 0 && engine_next_expiry(e, &at) && at <= command.now_ns;
}

void engine_postpone_expiry(struct engine *e, uint64_t by_ms)
{
    const struct command command = {
        .kind = COMMAND_TREE_POSTPONE,
        .number = by_ms > INT64_MAX / 1000000 ? INT64_MAX : (int64_t)by_ms * 1000000};
    struct store_result result;

    TAILQ_EACH(struct engine_space, space, &e->spaces, entry)
        engine_apply(e, space, &command, &result);
}

static void log_forgotten(const struct engine_space *space, uint64_t keys, const char *reason)
{
    log_event(keys > 0 ? LOG_INFO : LOG_DEBUG, "space_forgotten",
              log_str("space", space->store->name), log_u64("keys", keys),
              log_str("reason", reason));
}

void engine_forget_keys(struct engine *e, struct engine_space *space, const char *reason)
{
    const struct command command = {.kind = COMMAND_SPACE_FORGET};
    struct store_result result;

    space->idle_since_ms = 0;
    space->old_keys = 0;
    space->has_ranks = false;
    engine_apply(e, space, &command, &result);
    log_forgotten(space, result.count, reason);
}

/* False: it is still there. */
static bool forget_key(struct engine *e, struct engine_space *space, struct slice key)
{
    struct blob *copy = blob_new(ACCOUNT_INPUT, key); /* for the observer: the entry is gone then */
    const struct command command = {.kind = COMMAND_KEY_DELETE, .key = blob_slice(copy)};
    struct store_result result = {.status = STORE_NO_MEMORY};

    if (copy != NULL)
        engine_apply(e, space, &command, &result);
    blob_unref(copy);
    return result.status == STORE_OK;
}

bool engine_forget_ranks(struct engine *e, struct engine_space *space, struct slice prefix)
{
    struct keymap *keys = &space->store->keys;
    const struct entry *at;

    if (space->has_ranks) {
        space->has_ranks = false;
        space->first_end = 0;
        space->keys_forgotten = 0;
        keymap_sweep(keys);
    }
    for (int i = 0; i < RANK_KEYS && (at = keymap_sweep_next(keys)) != NULL; i++) {
        if (slice_starts_with(entry_key(at), prefix))
            space->keys_forgotten += forget_key(e, space, entry_key(at));
    }
    if (keys->sweep.next != NULL)
        return false;
    log_forgotten(space, space->keys_forgotten, "all ranks of a job have gone");
    return true;
}

void engine_tick(struct engine *e)
{
    uint64_t timeout = e->options.space_idle_timeout_ms, now = engine_now_ms(e);

    TAILQ_EACH(struct engine_space, space, &e->spaces, entry) {
        const struct worker_stores *stores = &space->store->worker_stores;

        keymap_trim(&space->store->keys);
        for (size_t i = 0; i < stores->count; i++)
            keymap_trim(&stores->items[i]->keys);
    }
    if (timeout == 0)
        return;
    TAILQ_EACH(struct engine_space, space, &e->spaces, entry) {
        if (space->idle_since_ms != 0 && clock_elapsed_ms(space->idle_since_ms, now) >= timeout &&
            engine_session_next(space, NULL) == NULL) /* a client's session, about to return */
            engine_forget_keys(e, space, "no c10d connection for --space-idle-timeout");
    }
}
