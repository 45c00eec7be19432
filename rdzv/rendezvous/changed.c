/* Changes that are not the policy's: keys of runs that clients set or deleted. See shell.h. */
#include "rdzv/rendezvous/shell.h"

/* The state of a run, or what may become one, is there, has changed or is gone. */
static void run_changed(struct rendezvous_space *home, struct run_view *v, struct slice key)
{
    struct live_run *run = v == NULL ? shell_need_run(home, key) : live_run_of(v);

    if (run != NULL && run->steps == 0) /* else the run's own step has done it */
        shell_step(run, (struct policy_event){.kind = RUN_CHANGED});
}

/* The key is one of agents. */
static void key_changed(struct rendezvous_space *home, struct slice key)
{
    struct run_view *v = run_views_find(&home->runs, key);

    if (v == NULL && (run_views_owner(&home->runs, key) != NULL ||
                      keymap_get(&home->space->store->keys, key) == NULL))
        return; /* of a round, or gone */
    run_changed(home, v, key);
}

static void entry_changed(struct rendezvous_space *home, const struct entry *e)
{
    struct run_view *v = run_views_find_entry(&home->runs, e);

    if (v != NULL || (run_views_entry_owner(&home->runs, e) == NULL && e->value != NULL))
        run_changed(home, v, e->node.key);
}

/* Of several values for one key the last is there: it is read once, not once for each. */
static void keys_set(struct rendezvous_space *home, struct slice pairs)
{
    const struct keymap *keys = &home->space->store->keys;
    struct slice key, value;

    while (c10d_next_blob(&pairs, &key) && c10d_next_blob(&pairs, &value)) {
        if (is_agents_key(key) && slice_equal(blob_slice(keymap_get(keys, key)), value))
            key_changed(home, key);
    }
}

/* The same of many keys, and long ones: they were found before. */
static void picks_set(struct rendezvous_space *home, const struct key_picks *picks)
{
    for (size_t i = 0; i < picks->grouped_count; i++) {
        const struct key_pick *pick = &picks->grouped[i];

        if (is_agents_key(pick->entry->node.key) && pick->entry->value == pick->value)
            entry_changed(home, pick->entry);
    }
}

static void keys_changed(struct rendezvous_space *home, const struct command *command)
{
    if (command->kind != COMMAND_KEY_MULTI_SET) {
        if (is_agents_key(command->key))
            key_changed(home, command->key);
    } else if (command->picks == NULL) {
        keys_set(home, command->items);
    } else {
        picks_set(home, command->picks);
    }
}

void shell_applied(void *arg, struct engine_space *space, const struct command *command)
{
    struct rendezvous_space *home = shell_space_of(arg, space);

    if (command_part(command->kind) == PART_KEYS && command->worker_store == 0 && !home->forgets)
        keys_changed(home, command);
    else if (command_part(command->kind) == PART_TREE && etcd_runs_concerns(command->key))
        etcd_runs_changed(&home->etcd_runs, command->key);
    else if (command->kind == COMMAND_SPACE_RESET || command->kind == COMMAND_SPACE_FORGET)
        shell_step_space(home, (struct policy_event){.kind = RUN_CHANGED});
    if (command->kind == COMMAND_SPACE_RESET)
        etcd_runs_reset(&home->etcd_runs);
}
