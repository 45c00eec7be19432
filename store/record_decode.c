/* Bytes become changes again; what is not known is refused. See record.h for the contract. */
#include <stdlib.h>

#include "proto/c10d.h"
#include "proto/record.pb-c.h"
#include "store/record.h"

static struct slice slice_of(ProtobufCBinaryData b)
{
    return (struct slice){b.data, b.len};
}

/* A MULTI_SET is walked by its lengths, so they have to agree with the bytes. */
static bool are_pairs(struct slice items)
{
    struct slice blob;
    size_t count = 0;

    while (c10d_next_blob(&items, &blob))
        count++;
    return items.len == 0 && count % 2 == 0;
}

static bool is_whole(const ProtobufCMessage *m)
{
    return m->n_unknown_fields == 0;
}

/* The next `count` of `lists`. */
static struct command_list unpack_list(const ProtobufCBinaryData *from, size_t count, bool absent,
                                       struct slice **lists)
{
    struct command_list list = {*lists, count, absent};

    for (size_t i = 0; i < count; i++)
        *(*lists)++ = slice_of(from[i]);
    return list;
}

static bool unpack_tree_put(const Rdzv__TreePut *m, struct change *c)
{
    c->tree_put = (struct tree_put){
        .action = (enum etcd_action)m->action,
        .path = slice_of(m->path),
        .value = slice_of(m->value),
        .keep_value = m->keep_value != 0,
        .dir = m->dir != 0,
        .refresh = m->refresh != 0,
        .expires_ns = m->expires_ns,
        .now_ns = m->now_ns,
    };
    return is_whole(&m->base) && m->action >= RDZV__TREE_ACTION__SET &&
           m->action <= RDZV__TREE_ACTION__COMPARE_AND_SWAP;
}

static bool unpack_tree_remove(const Rdzv__TreeRemove *m, struct change *c)
{
    c->tree_remove = (struct tree_remove){
        .action = (enum etcd_action)m->action,
        .path = slice_of(m->path),
        .now_ns = m->now_ns,
    };
    return is_whole(&m->base) && m->action >= RDZV__TREE_ACTION__DELETE &&
           m->action <= RDZV__TREE_ACTION__EXPIRE;
}

static bool unpack_user(const Rdzv__AuthUserPut *m, struct change *c, struct slice **lists)
{
    c->user_put = (struct auth_user_put){
        .name = slice_of(m->name),
        .hash = slice_of(m->hash),
        .roles = unpack_list(m->roles, m->n_roles, m->no_roles != 0, lists),
    };
    return is_whole(&m->base);
}

static bool unpack_role(const Rdzv__AuthRolePut *m, struct change *c, struct slice **lists)
{
    c->role_put = (struct auth_role_put){
        .name = slice_of(m->name),
        .shown = slice_of(m->shown),
        .reads = unpack_list(m->reads, m->n_reads, m->no_reads != 0, lists),
        .writes = unpack_list(m->writes, m->n_writes, m->no_writes != 0, lists),
    };
    return is_whole(&m->base);
}

static bool unpack_run(const Rdzv__RunPut *m, struct change *c)
{
    c->run_put = (struct run_put){
        .key = slice_of(m->key),
        .placement = (enum worker_store_placement)m->placement,
        .address = slice_of(m->address),
        .port = (uint16_t)m->port,
        .worker_store = m->worker_store,
        .round = m->round,
    };
    return is_whole(&m->base) && m->port <= UINT16_MAX &&
           m->placement >= RDZV__PLACEMENT__UNKNOWN && m->placement <= RDZV__PLACEMENT__WORKER0;
}

/* What the changes of a snapshot point to. */
union record_state {
    struct space_state space;
    struct event_state event;
};

static bool unpack_space(const Rdzv__SpaceState *m, struct change *c, union record_state **states)
{
    struct space_state *s = &(*states)++->space;

    if (!is_whole(&m->base) || m->n_succeeded != SPACE_STATE_COUNTERS ||
        m->n_failed != SPACE_STATE_COUNTERS)
        return false;
    *s = (struct space_state){
        .last_worker_store = m->last_worker_store,
        .tree_index = m->tree_index,
        .oldest_event = m->oldest_event,
        .next_deadline = m->next_deadline,
        .expired = m->expired,
        .auth_enabled = m->auth_enabled != 0,
        .auth_exists = m->auth_exists != 0,
    };
    for (size_t i = 0; i < SPACE_STATE_COUNTERS; i++) {
        s->succeeded[i] = m->succeeded[i];
        s->failed[i] = m->failed[i];
    }
    c->space_state = s;
    return true;
}

static bool unpack_node(const Rdzv__TreeNode *m, struct change *c)
{
    c->node_state = (struct node_state){
        .path = slice_of(m->path),
        .value = slice_of(m->value),
        .dir = m->dir != 0,
        .created = m->created,
        .modified = m->modified,
        .expires_ns = m->expires_ns,
        .deadline = m->deadline,
    };
    return is_whole(&m->base) && !(m->dir && m->value.len != 0);
}

static bool unpack_event_node(const Rdzv__EventNode *m, struct slice path, struct etcd_node *n)
{
    *n = (struct etcd_node){
        .key = path,
        .value = slice_of(m->value),
        .has_value = m->has_value != 0,
        .dir = m->dir != 0,
        .has_expiration = m->has_expiration != 0,
        .expires_ns = m->expires_ns,
        .ttl_s = m->ttl_s,
        .modified = m->modified,
        .created = m->created,
    };
    return is_whole(&m->base) && (m->has_value || m->value.len == 0);
}

static bool unpack_event(const Rdzv__TreeEvent *m, struct change *c, union record_state **states)
{
    struct event_state *s = &(*states)++->event;
    struct slice path = slice_of(m->path);

    *s = (struct event_state){
        .action = (enum etcd_action)m->action,
        .refresh = m->refresh != 0,
        .has_prev = m->prev != NULL,
    };
    c->event_state = s;
    return is_whole(&m->base) && m->action >= RDZV__TREE_ACTION__SET &&
           m->action <= RDZV__TREE_ACTION__EXPIRE && m->node != NULL &&
           unpack_event_node(m->node, path, &s->node) &&
           (m->prev == NULL || unpack_event_node(m->prev, path, &s->prev));
}

/* False: what a newer version has written, or no version; half of a record is not taken for a whole
 * one. */
static bool unpack(const Rdzv__Record *m, struct change *c, struct slice **lists,
                   union record_state **states)
{
    *c = (struct change){.kind = (enum change_kind)m->change_case, .worker_store = m->worker_store};
    if (!is_whole(&m->base) || (m->worker_store != 0 && change_part(c->kind) != PART_KEYS))
        return false;
    switch (c->kind) {
    case CHANGE_NONE:
        return false;
    case CHANGE_KEY_PUT:
        c->put.key = slice_of(m->key_put->key);
        c->put.value = slice_of(m->key_put->value);
        return is_whole(&m->key_put->base);
    case CHANGE_KEY_PATCH:
        c->patch.key = slice_of(m->key_patch->key);
        c->patch.offset = m->key_patch->offset;
        c->patch.removed = m->key_patch->removed;
        c->patch.bytes = slice_of(m->key_patch->bytes);
        return is_whole(&m->key_patch->base);
    case CHANGE_KEY_APPEND:
        c->append.key = slice_of(m->key_append->key);
        c->append.bytes = slice_of(m->key_append->bytes);
        return is_whole(&m->key_append->base);
    case CHANGE_KEY_PUT_ALL:
        c->put_all = (struct key_put_all){.pairs = slice_of(m->key_put_all)};
        return are_pairs(c->put_all.pairs);
    case CHANGE_QUEUE_PUSH:
        c->push.queue = slice_of(m->queue_push->queue);
        c->push.value = slice_of(m->queue_push->value);
        return is_whole(&m->queue_push->base);
    case CHANGE_TREE_PUT:
        return unpack_tree_put(m->tree_put, c);
    case CHANGE_TREE_REMOVE:
        return unpack_tree_remove(m->tree_remove, c);
    case CHANGE_AUTH_USER_PUT:
    case CHANGE_SNAPSHOT_USER:
        return unpack_user(m->auth_user_put, c, lists);
    case CHANGE_AUTH_ROLE_PUT:
    case CHANGE_SNAPSHOT_ROLE:
        return unpack_role(m->auth_role_put, c, lists);
    case CHANGE_AUTH_SWITCH:
        c->auth_enabled = m->auth_switch != 0;
        return true;
    case CHANGE_AUTH_TOUCH:
        return m->auth_touch != 0;
    case CHANGE_SPACE_RESET:
        c->now_ns = m->space_reset;
        return true;
    case CHANGE_TREE_POSTPONE:
        c->by_ns = m->tree_postpone;
        return c->by_ns > 0;
    case CHANGE_SPACE_FORGET:
        return m->space_forget != 0;
    case CHANGE_WORKER_STORE_OPEN:
    case CHANGE_WORKER_STORE_DROP:
        c->store_id = m->worker_store_open;
        return true;
    case CHANGE_RUN_PUT:
        return unpack_run(m->run_put, c);
    case CHANGE_KEY_DELETE:
        c->delete.key = slice_of(m->key_delete);
        return true;
    case CHANGE_QUEUE_POP:
        c->pop.queue = slice_of(m->queue_pop);
        return true;
    case CHANGE_AUTH_USER_DELETE:
    case CHANGE_AUTH_ROLE_DELETE:
    case CHANGE_RUN_DELETE:
        c->name = slice_of(m->run_delete);
        return true;
    case CHANGE_SNAPSHOT_SPACE:
        return unpack_space(m->snapshot_space, c, states);
    case CHANGE_SNAPSHOT_NODE:
        return unpack_node(m->snapshot_node, c);
    case CHANGE_SNAPSHOT_EVENT:
        return unpack_event(m->snapshot_event, c, states);
    case CHANGE_SNAPSHOT_END:
        c->records = m->snapshot_end;
        return true;
    }
    return false;
}

static size_t count_states(const Rdzv__Batch *m)
{
    size_t count = 0;

    for (size_t i = 0; i < m->n_records; i++)
        count += m->records[i]->change_case == RDZV__RECORD__CHANGE_SNAPSHOT_SPACE ||
                 m->records[i]->change_case == RDZV__RECORD__CHANGE_SNAPSHOT_EVENT;
    return count;
}

static size_t count_names(const Rdzv__Batch *m)
{
    size_t count = 0;

    for (size_t i = 0; i < m->n_records; i++) {
        const Rdzv__Record *r = m->records[i];

        if (r->change_case == RDZV__RECORD__CHANGE_AUTH_USER_PUT ||
            r->change_case == RDZV__RECORD__CHANGE_SNAPSHOT_USER)
            count += r->auth_user_put->n_roles;
        else if (r->change_case == RDZV__RECORD__CHANGE_AUTH_ROLE_PUT ||
                 r->change_case == RDZV__RECORD__CHANGE_SNAPSHOT_ROLE)
            count += r->auth_role_put->n_reads + r->auth_role_put->n_writes;
    }
    return count;
}

static bool unpack_all(const Rdzv__Batch *m, struct record_batch *b)
{
    struct slice *lists = b->lists;
    union record_state *states = b->states;

    for (size_t i = 0; i < m->n_records; i++) {
        b->records[i].space = slice_of(m->records[i]->space);
        if (!unpack(m->records[i], &b->records[i].change, &lists, &states))
            return false;
    }
    return is_whole(&m->base);
}

bool record_decode(struct slice in, struct record_batch *out)
{
    Rdzv__Batch *m = rdzv__batch__unpack(NULL, in.len, in.ptr);
    struct record_batch b;

    if (m == NULL)
        return false;
    b = (struct record_batch){
        .number = m->number, .time_ns = m->time_ns, .count = m->n_records, .memory = m};
    b.records = calloc(b.count + 1, sizeof *b.records);
    b.lists = calloc(count_names(m) + 1, sizeof *b.lists);
    b.states = calloc(count_states(m) + 1, sizeof *b.states);
    if (b.records == NULL || b.lists == NULL || b.states == NULL || !unpack_all(m, &b)) {
        record_free(&b);
        return false;
    }
    *out = b;
    return true;
}

void record_free(struct record_batch *b)
{
    if (b->memory != NULL)
        rdzv__batch__free_unpacked(b->memory, NULL);
    free(b->records);
    free(b->lists);
    free(b->states);
    *b = (struct record_batch){0};
}
