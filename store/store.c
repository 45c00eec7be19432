/* The store: spaces and the way in which they change. See store.h for the contract. */
#include "store/store.h"

#include "store/xalloc.h"

void store_init(struct store *s, const struct store_options *options)
{
    *s = (struct store){.options = *options};
    TAILQ_INIT(&s->spaces);
    TAILQ_INIT(&s->ready);
    reserve_init(&s->reserve);
}

void store_fini(struct store *s)
{
    struct space *space;

    while ((space = TAILQ_FIRST(&s->spaces)) != NULL) {
        TAILQ_REMOVE(&s->spaces, space, entry);
        auth_fini(&space->auth);
        tree_fini(&space->tree);
        run_records_fini(&space->runs);
        worker_stores_fini(&space->worker_stores);
        keymap_fini(&space->keys);
        free(space->name);
        free(space);
    }
    reserve_fini(&s->reserve);
}

struct space *store_find_space(const struct store *s, struct slice name)
{
    struct space *space;

    TAILQ_FOREACH(space, &s->spaces, entry) {
        if (slice_is(name, space->name))
            return space;
    }
    return NULL;
}

struct space *store_space(struct store *s, const char *name)
{
    struct space *space = store_find_space(s, slice_str(name));
    size_t bytes_max = s->options.space_bytes_max;
    uint64_t seed = s->options.seed;

    if (space != NULL)
        return space;
    space = xcalloc(1, sizeof *space);
    space->name = xcalloc(1, strlen(name) + 1);
    memcpy(space->name, name, strlen(name));
    keymap_init(&space->keys, ACCOUNT_KEYS, &s->ready, &s->reserve, seed, bytes_max);
    worker_stores_init(&space->worker_stores);
    run_records_init(&space->runs, &s->reserve, seed, bytes_max);
    tree_init(&space->tree, &s->ready, &s->reserve, seed, bytes_max);
    auth_init(&space->auth, bytes_max);
    TAILQ_INSERT_TAIL(&s->spaces, space, entry);
    return space;
}

struct keymap *space_keys(struct space *space, uint64_t worker_store)
{
    struct worker_store *store;

    if (worker_store == 0)
        return &space->keys;
    store = worker_stores_find(&space->worker_stores, worker_store);
    return store == NULL ? NULL : &store->keys;
}

/* --- Checks. --- */

static bool check_key(struct space *space, const struct command *c, struct change *change,
                      struct store_result *out)
{
    const struct keymap *keys = space_keys(space, c->worker_store);

    change->worker_store = c->worker_store;
    out->status = keys == NULL ? STORE_ABSENT : keymap_check(keys, c, change, out);
    return out->status == STORE_OK;
}

static enum store_status check_drop(const struct space *space, uint64_t id)
{
    const struct worker_store *store = worker_stores_find(&space->worker_stores, id);

    if (store == NULL)
        return STORE_ABSENT;
    return store->keys.waiters != 0 || run_records_name(&space->runs, id) ? STORE_IN_USE : STORE_OK;
}

static bool worker_store_exists(const struct space *space, uint64_t id)
{
    return id == 0 || worker_stores_find(&space->worker_stores, id) != NULL;
}

static enum store_status check_run_put(const struct space *space, const struct command *c,
                                       struct change *change)
{
    change->run_put = (struct run_put){
        .key = c->key,
        .placement = c->placement,
        .address = c->value,
        .port = c->port,
        .worker_store = c->worker_store,
        .round = c->number,
    };
    if (!worker_store_exists(space, c->worker_store))
        return STORE_ABSENT;
    return run_records_have_room(&space->runs, &change->run_put) ? STORE_OK : STORE_FULL;
}

static bool is_empty(const struct space *space)
{
    const struct worker_stores *stores = &space->worker_stores;

    for (size_t i = 0; i < stores->count; i++) {
        const struct keymap *keys = &stores->items[i]->keys;

        if (keys->present + keys->queues.count != 0)
            return false;
    }
    return space->keys.present + space->keys.queues.count == 0 && TAILQ_EMPTY(&space->runs.list);
}

static bool check_space(const struct space *space, const struct command *c, struct change *change,
                        struct store_result *out)
{
    switch (c->kind) {
    case COMMAND_SPACE_FORGET:
        change->kind = CHANGE_SPACE_FORGET;
        return !is_empty(space);
    case COMMAND_SPACE_RESET:
        change->kind = CHANGE_SPACE_RESET;
        change->now_ns = c->now_ns;
        return !is_empty(space) || !TAILQ_EMPTY(&space->tree.root->children);
    case COMMAND_WORKER_STORE_OPEN:
        change->kind = CHANGE_WORKER_STORE_OPEN;
        change->store_id = out->count = space->worker_stores.last_id + 1;
        return true;
    case COMMAND_WORKER_STORE_DROP:
        change->kind = CHANGE_WORKER_STORE_DROP;
        change->store_id = c->worker_store;
        out->status = check_drop(space, c->worker_store);
        break;
    case COMMAND_RUN_PUT:
        change->kind = CHANGE_RUN_PUT;
        out->status = check_run_put(space, c, change);
        break;
    case COMMAND_RUN_DELETE:
        change->kind = CHANGE_RUN_DELETE;
        change->name = c->key;
        out->status = run_records_find(&space->runs, c->key) == NULL ? STORE_ABSENT : STORE_OK;
        break;
    default:
        return false;
    }
    return out->status == STORE_OK;
}

static bool decide(struct space *space, const struct command *c, struct change *change,
                   struct store_result *out)
{
    if (command_is_key(c->kind))
        return check_key(space, c, change, out);
    change->worker_store = 0;
    if (command_is_tree(c->kind)) {
        bool changes = tree_check(&space->tree, c, change, &out->tree);

        out->count = changes && c->kind == COMMAND_TREE_EXPIRE;
        return changes;
    }
    if (command_is_auth(c->kind))
        return auth_check(&space->auth, c, change, &out->auth);
    return check_space(space, c, change, out);
}

/* --- Memory. --- */

static size_t memory(struct space *space, const struct change *change)
{
    if (change_is_key(change->kind))
        return keymap_memory(space_keys(space, change->worker_store), change);
    if (change_is_tree(change->kind))
        return tree_memory(&space->tree, change);
    if (change_is_auth(change->kind))
        return auth_memory(&space->auth, change);
    if (change->kind == CHANGE_SPACE_RESET)
        return tree_clear_memory(&space->tree);
    if (change->kind == CHANGE_WORKER_STORE_OPEN)
        return worker_stores_memory(&space->worker_stores);
    return change->kind == CHANGE_RUN_PUT ? run_records_memory(&change->run_put) : 0;
}

static void refuse(struct space *space, const struct change *change, struct store_result *out)
{
    *out = (struct store_result){.status = STORE_NO_MEMORY};
    if (change_is_tree(change->kind))
        tree_refuse(&space->tree, change, &out->tree);
    else if (change_is_auth(change->kind))
        out->auth = AUTH_NO_ROOM;
}

/* Old events of etcd's trees go when there is nothing else to be had: clients know that they do. */
static bool forget_event(struct store *s)
{
    struct space *space;
    bool any = false;

    TAILQ_FOREACH(space, &s->spaces, entry)
        any = watch_forget_oldest(&space->tree.hub) || any;
    return any;
}

bool store_spare_history(struct store *s)
{
    while (account_is_short() && forget_event(s))
        continue;
    return !account_is_short();
}

bool store_make_room(struct store *s, enum account_class class, size_t len)
{
    while (!account_has_room(class, len)) {
        if (len > account_room(class) + account.bytes[ACCOUNT_HISTORY] || !forget_event(s))
            return false;
    }
    return true;
}

/* Such a change makes room, or takes little: deletions, and the heartbeats of torch's agents. */
static bool makes_room(const struct change *change)
{
    return change->kind == CHANGE_TREE_REMOVE || change->kind == CHANGE_SPACE_RESET ||
           (change->kind == CHANGE_KEY_PATCH &&
            account_class_of(change->patch.bytes.len) == ACCOUNT_SMALL);
}

/* What a client that puts a large value into the tree is going to be answered: once the change is
 * made, it would be too late to find that there is no memory for that. */
static size_t answer_size(const struct change *change)
{
    const struct node *old = change->kind == CHANGE_TREE_PUT ? change->tree_put.node : NULL;

    if (change->kind != CHANGE_TREE_PUT)
        return 0;
    return change->tree_put.value.len + (old == NULL ? 0 : blob_slice(old->value).len);
}

/* There is not enough at once: history goes, or the change is one that makes room. */
static bool find_room(struct store *s, const struct change *change, size_t need)
{
    if (store_make_room(s, makes_room(change) ? ACCOUNT_SMALL : ACCOUNT_ORDINARY, need))
        return true;
    account.refused++;
    return false;
}

/* True when the account and the machine have what the change takes. */
static bool has_memory(struct store *s, struct space *space, const struct change *change)
{
    size_t need = memory(space, change);

    if (need == 0)
        return true;
    if (!account_has_room(ACCOUNT_ORDINARY, need + answer_size(change)) &&
        !find_room(s, change, need + answer_size(change)))
        return false;
    return reserve_hold(&s->reserve, need);
}

bool store_check(struct store *s, struct space *space, const struct command *command,
                 struct change *change, struct store_result *out)
{
    *out = (struct store_result){0};
    if (!decide(space, command, change, out))
        return false;
    if (has_memory(s, space, change))
        return true;
    refuse(space, change, out);
    return false;
}

static bool has_what_it_takes(struct space *space, const struct change *change)
{
    const struct keymap *keys = space_keys(space, change->worker_store);

    if (change_is_key(change->kind))
        return keys != NULL && keymap_can_apply(keys, change);
    if (change_is_tree(change->kind))
        return tree_can_apply(&space->tree, change);
    if (change_is_auth(change->kind))
        return auth_can_apply(&space->auth, change);
    if (change->kind == CHANGE_WORKER_STORE_OPEN)
        return change->store_id > space->worker_stores.last_id && change->store_id < UINT64_MAX;
    if (change->kind == CHANGE_WORKER_STORE_DROP)
        return check_drop(space, change->store_id) == STORE_OK;
    if (change->kind == CHANGE_RUN_PUT)
        return worker_store_exists(space, change->run_put.worker_store);
    if (change->kind == CHANGE_RUN_DELETE)
        return run_records_find(&space->runs, change->name) != NULL;
    return change->kind == CHANGE_SPACE_RESET || change->kind == CHANGE_SPACE_FORGET;
}

bool store_can_apply(struct store *s, struct space *space, const struct change *change)
{
    return has_what_it_takes(space, change) && reserve_hold(&s->reserve, memory(space, change));
}

/* --- Changes. --- */

static uint64_t forget_keys(struct space *space)
{
    uint64_t gone = space->keys.present + space->keys.queues.count;

    run_records_clear(&space->runs);
    keymap_clear(&space->keys);
    return gone + worker_stores_clear(&space->worker_stores);
}

static void apply_space(struct store *s, struct space *space, const struct change *change,
                        struct store_result *out)
{
    switch (change->kind) {
    case CHANGE_SPACE_RESET:
        out->count = forget_keys(space) + tree_clear(&space->tree, change->now_ns);
        break;
    case CHANGE_SPACE_FORGET:
        out->count = forget_keys(space);
        break;
    case CHANGE_WORKER_STORE_OPEN:
        worker_stores_open(&space->worker_stores, change->store_id, &s->ready, &s->reserve,
                           s->options.seed, s->options.space_bytes_max);
        break;
    case CHANGE_WORKER_STORE_DROP:
        worker_stores_drop(&space->worker_stores, change->store_id);
        break;
    case CHANGE_RUN_PUT:
        run_records_put(&space->runs, &change->run_put);
        break;
    default: /* CHANGE_RUN_DELETE */
        run_records_delete(&space->runs, change->name);
    }
}

void store_apply(struct store *s, struct space *space, const struct change *change,
                 struct store_result *out)
{
    if (change_is_key(change->kind))
        keymap_apply(space_keys(space, change->worker_store), change, out);
    else if (change_is_tree(change->kind))
        tree_apply(&space->tree, change, &out->tree);
    else if (change_is_auth(change->kind))
        auth_apply(&space->auth, &space->tree, change);
    else
        apply_space(s, space, change, out);
    reserve_settle(&s->reserve);
}

bool store_execute(struct store *s, struct space *space, const struct command *command,
                   struct batch *batch, struct store_result *out)
{
    struct change change;

    if (!store_check(s, space, command, &change, out))
        return false;
    if (batch != NULL && !batch_add(batch, space->name, &change)) {
        refuse(space, &change, out);
        reserve_settle(&s->reserve);
        return false;
    }
    store_apply(s, space, &change, out);
    if (account_is_short() && change_is_tree(change.kind))
        store_spare_history(s);
    return true;
}

/* --- What there is. --- */

static void count(struct space_usage *use, const struct keymap *m)
{
    use->keys += m->present;
    use->queues += m->queues.count;
    use->bytes += m->bytes + m->waiting_bytes;
    use->waiters += m->waiters;
}

struct space_usage store_usage(const struct space *space)
{
    struct space_usage use = {.bytes = space->tree.bytes + space->auth.bytes};

    count(&use, &space->keys);
    for (size_t i = 0; i < space->worker_stores.count; i++)
        count(&use, &space->worker_stores.items[i]->keys);
    return use;
}

struct wake *store_next_ready(struct store *s)
{
    struct wake *w = TAILQ_FIRST(&s->ready);

    if (w != NULL)
        wake_remove(&s->ready, w);
    return w;
}
