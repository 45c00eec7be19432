/* Bytes become changes again; what is not known is refused. See record.h for the contract. */
#include <stddef.h>
#include <stdlib.h>

#include "proto/c10d.h"
#include "proto/record.pb-c.h"
#include "proto/relay.h"
#include "store/disk/record.h"

/* --- Memory: all of a batch's comes in a few blocks and goes with them. --- */

struct block {
    struct block *next;
    max_align_t bytes[];
};

struct arena {
    struct block *blocks;
    uint8_t *at;
    size_t left;
};

#define ALIGNED(size) \
    (((size) + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t))

static bool arena_add(struct arena *a, size_t size)
{
    struct block *block = size > SIZE_MAX / 2 ? NULL : malloc(sizeof *block + size);

    if (block == NULL)
        return false;
    block->next = a->blocks;
    a->blocks = block;
    a->at = (uint8_t *)block->bytes;
    a->left = size;
    return true;
}

#define BLOCK_MIN (16u << 10) /* behind the first one */

static void *arena_alloc(void *arg, size_t size)
{
    struct arena *a = arg;
    void *p;

    size = ALIGNED(size);
    if (size > a->left && !arena_add(a, size < BLOCK_MIN ? BLOCK_MIN : size))
        return NULL;
    p = a->at;
    a->at += size;
    a->left -= size;
    return p;
}

static void arena_free(void *arg, void *p)
{
    (void)arg;
    (void)p;
}

static void free_blocks(struct block *block)
{
    while (block != NULL) {
        struct block *next = block->next;

        free(block);
        block = next;
    }
}

/* --- Messages. --- */

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
        .nodes = m->nodes,
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

static bool unpack_done(const Rdzv__SessionDone *m, struct change *c)
{
    c->done = (struct session_done){
        .id = m->id, .number = m->number, .flags = (uint8_t)m->flags, .popped = m->popped != 0};
    if (m->answer_case == RDZV__SESSION_DONE__ANSWER_INTEGER) {
        bytes_put_u64(c->number, (uint64_t)m->integer);
        c->done.answer = (struct slice){c->number, 8};
    } else if (m->answer_case == RDZV__SESSION_DONE__ANSWER_BYTES) {
        c->done.answer = slice_of(m->bytes);
    }
    if (c->done.answer.len != 0 && !(m->flags & RELAY_ARRIVED))
        c->done.flags |= RELAY_ANSWERED;
    return is_whole(&m->base) && (m->flags & ~(uint32_t)(RELAY_TOOK | RELAY_ARRIVED)) == 0;
}

static bool unpack_bind(const Rdzv__SessionBind *m, struct change *c)
{
    c->kind = CHANGE_SESSION_BIND;
    c->bind = (struct session_bind){m->id, m->is_worker != 0, m->worker_store};
    return is_whole(&m->base);
}

static bool unpack_session_state(const Rdzv__SessionState *m, struct change *c)
{
    c->kind = CHANGE_SNAPSHOT_SESSION;
    c->session_state = (struct session_state){
        .id = m->id,
        .number = m->number,
        .flags = (uint8_t)m->flags,
        .is_worker = m->is_worker != 0,
        .worker_store = m->worker_store,
        .answer = slice_of(m->answer),
        .memo = slice_of(m->memo),
    };
    return is_whole(&m->base) &&
           (m->flags & ~(uint32_t)(RELAY_ANSWERED | RELAY_TOOK | RELAY_ARRIVED)) == 0;
}

static bool unpack_held(const Rdzv__SessionHeld *m, struct change *c)
{
    c->kind = CHANGE_SNAPSHOT_HELD;
    bytes_put_u64(c->number, m->id);
    c->put = (struct key_put){.key = {c->number, SESSION_KEY_SIZE}, .value = slice_of(m->bytes)};
    return is_whole(&m->base);
}

static bool unpack_memo(const Rdzv__SessionMemo *m, struct change *c)
{
    c->kind = CHANGE_SESSION_MEMO;
    c->memo = (struct session_memo){m->id, slice_of(m->bytes)};
    return is_whole(&m->base);
}

static bool unpack_session(const Rdzv__Session *m, struct change *c)
{
    if (!is_whole(&m->base))
        return false;
    switch (m->what_case) {
    case RDZV__SESSION__WHAT_BIND:
        return unpack_bind(m->bind, c);
    case RDZV__SESSION__WHAT_END:
        c->kind = CHANGE_SESSION_END;
        c->session = m->end;
        return true;
    case RDZV__SESSION__WHAT_STATE:
        return unpack_session_state(m->state, c);
    case RDZV__SESSION__WHAT_HELD:
        return unpack_held(m->held, c);
    case RDZV__SESSION__WHAT_MEMO:
        return unpack_memo(m->memo, c);
    default:
        return false;
    }
}

/* False: what a newer version has written, or no version; half of a record is not taken for a whole
 * one. */
static bool unpack(const Rdzv__Record *m, struct change *c, union record_state **states)
{
    *c = (struct change){.kind = (enum change_kind)m->change_case, .worker_store = m->worker_store};
    if (!is_whole(&m->base) || (m->worker_store != 0 && change_part(c->kind) != PART_KEYS &&
                                c->kind != CHANGE_SNAPSHOT_KEYS))
        return false;
    if (m->change_case == RDZV__RECORD__CHANGE_SESSION)
        return unpack_session(m->session, c);
    switch (c->kind) {
    case CHANGE_NONE:
    case CHANGE_SESSION_BIND: /* they are in a Session */
    case CHANGE_SESSION_END:
    case CHANGE_SNAPSHOT_SESSION:
    case CHANGE_SNAPSHOT_HELD:
    case CHANGE_SESSION_MEMO:
        return false;
    case CHANGE_KEY_PUT:
    case CHANGE_BARRIER_OPEN:
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
    case CHANGE_SNAPSHOT_KEYS:
        c->records = m->snapshot_end;
        return true;
    case CHANGE_SESSION_DONE:
        return unpack_done(m->session_done, c);
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

static bool unpack_all(const Rdzv__Batch *m, struct record_batch *b)
{
    union record_state *states = b->states;

    for (size_t i = 0; i < m->n_records; i++) {
        b->records[i].space = slice_of(m->records[i]->space);
        b->records[i].hash = 0;
        if (!unpack(m->records[i], &b->records[i].change, &states))
            return false;
    }
    return is_whole(&m->base);
}

/* What a batch of small changes takes for each byte of it, and besides. */
#define MEMORY_FACTOR 4
#define MEMORY_BASE   400

/* False: it is no batch, or memory is short. */
static bool decode(struct slice in, struct arena *a, struct record_batch *b)
{
    ProtobufCAllocator allocator = {arena_alloc, arena_free, a};
    Rdzv__Batch *m;

    if (!arena_add(a, MEMORY_BASE + in.len * MEMORY_FACTOR))
        return false;
    m = rdzv__batch__unpack(&allocator, in.len, in.ptr);
    if (m == NULL)
        return false;
    *b = (struct record_batch){.number = m->number, .time_ns = m->time_ns, .count = m->n_records};
    b->records = arena_alloc(a, b->count * sizeof *b->records);
    b->states = arena_alloc(a, count_states(m) * sizeof *b->states);
    return b->records != NULL && b->states != NULL && unpack_all(m, b);
}

bool record_decode(struct slice in, struct record_batch *out)
{
    struct arena arena = {0};
    struct record_batch b;

    if (!decode(in, &arena, &b)) {
        free_blocks(arena.blocks);
        return false;
    }
    b.memory = arena.blocks;
    *out = b;
    return true;
}

void record_free(struct record_batch *b)
{
    free_blocks(b->memory);
    *b = (struct record_batch){0};
}
