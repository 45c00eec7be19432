/* Changes become bytes. See record.h for the contract; record_decode.c has the way back. */
#include "store/disk/record.h"

#include <stdlib.h>

#include "proto/record.pb-c.h"
#include "proto/relay.h"

static ProtobufCBinaryData bytes_of(struct slice s)
{
    return (ProtobufCBinaryData){.len = s.len, .data = (uint8_t *)(uintptr_t)s.ptr};
}

/* A record and the message of its kind. */
struct packed {
    Rdzv__Record record;
    union {
        Rdzv__KeyPut key_put;
        Rdzv__KeyPatch key_patch;
        Rdzv__KeyAppend key_append;
        Rdzv__QueuePush queue_push;
        Rdzv__TreePut tree_put;
        Rdzv__TreeRemove tree_remove;
        Rdzv__RunPut run_put;
        Rdzv__SpaceState space_state;
        Rdzv__TreeNode tree_node;
        Rdzv__SessionDone session_done;
        struct {
            Rdzv__Session session;
            union {
                Rdzv__SessionBind session_bind;
                Rdzv__SessionState session_state;
                Rdzv__SessionHeld session_held;
                Rdzv__SessionMemo session_memo;
            };
        };
        struct {
            Rdzv__TreeEvent event;
            Rdzv__EventNode node, prev;
        } tree_event;
    };
};

static void pack_put(const struct key_put *c, struct packed *p)
{
    rdzv__key_put__init(&p->key_put);
    p->key_put.key = bytes_of(c->key);
    p->key_put.value = bytes_of(c->value);
    p->record.key_put = &p->key_put;
}

static void pack_append(const struct key_append *c, struct packed *p)
{
    rdzv__key_append__init(&p->key_append);
    p->key_append.key = bytes_of(c->key);
    p->key_append.bytes = bytes_of(c->bytes);
    p->record.key_append = &p->key_append;
}

static void pack_push(const struct queue_push *c, struct packed *p)
{
    rdzv__queue_push__init(&p->queue_push);
    p->queue_push.queue = bytes_of(c->queue);
    p->queue_push.value = bytes_of(c->value);
    p->record.queue_push = &p->queue_push;
}

static void pack_patch(const struct key_patch *c, struct packed *p)
{
    rdzv__key_patch__init(&p->key_patch);
    p->key_patch.key = bytes_of(c->key);
    p->key_patch.offset = c->offset;
    p->key_patch.removed = c->removed;
    p->key_patch.bytes = bytes_of(c->bytes);
    p->record.key_patch = &p->key_patch;
}

static void pack_tree_put(const struct tree_put *c, struct packed *p)
{
    rdzv__tree_put__init(&p->tree_put);
    p->tree_put.action = (Rdzv__TreeAction)c->action;
    p->tree_put.path = bytes_of(c->path);
    p->tree_put.value = bytes_of(c->value);
    p->tree_put.keep_value = c->keep_value;
    p->tree_put.dir = c->dir;
    p->tree_put.refresh = c->refresh;
    p->tree_put.expires_ns = c->expires_ns;
    p->tree_put.now_ns = c->now_ns;
    p->record.tree_put = &p->tree_put;
}

static void pack_tree_remove(const struct tree_remove *c, struct packed *p)
{
    rdzv__tree_remove__init(&p->tree_remove);
    p->tree_remove.action = (Rdzv__TreeAction)c->action;
    p->tree_remove.path = bytes_of(c->path);
    p->tree_remove.now_ns = c->now_ns;
    p->record.tree_remove = &p->tree_remove;
}

static void pack_run(const struct run_put *c, struct packed *p)
{
    rdzv__run_put__init(&p->run_put);
    p->run_put.key = bytes_of(c->key);
    p->run_put.placement = (Rdzv__Placement)c->placement;
    p->run_put.address = bytes_of(c->address);
    p->run_put.port = c->port;
    p->run_put.worker_store = c->worker_store;
    p->run_put.round = c->round;
    p->record.run_put = &p->run_put;
}

static void pack_space(const struct space_state *c, struct packed *p)
{
    rdzv__space_state__init(&p->space_state);
    p->space_state.last_worker_store = c->last_worker_store;
    p->space_state.tree_index = c->tree_index;
    p->space_state.oldest_event = c->oldest_event;
    p->space_state.next_deadline = c->next_deadline;
    p->space_state.expired = c->expired;
    p->space_state.succeeded = (uint64_t *)(uintptr_t)c->succeeded;
    p->space_state.n_succeeded = SPACE_STATE_COUNTERS;
    p->space_state.failed = (uint64_t *)(uintptr_t)c->failed;
    p->space_state.n_failed = SPACE_STATE_COUNTERS;
    p->space_state.nodes = c->nodes;
    p->record.snapshot_space = &p->space_state;
}

static void pack_node(const struct node_state *c, struct packed *p)
{
    rdzv__tree_node__init(&p->tree_node);
    p->tree_node.path = bytes_of(c->path);
    p->tree_node.value = bytes_of(c->value);
    p->tree_node.dir = c->dir;
    p->tree_node.created = c->created;
    p->tree_node.modified = c->modified;
    p->tree_node.expires_ns = c->expires_ns;
    p->tree_node.deadline = c->deadline;
    p->record.snapshot_node = &p->tree_node;
}

static void pack_event_node(const struct etcd_node *c, Rdzv__EventNode *m)
{
    rdzv__event_node__init(m);
    m->value = bytes_of(c->value);
    m->has_value = c->has_value;
    m->dir = c->dir;
    m->has_expiration = c->has_expiration;
    m->expires_ns = c->expires_ns;
    m->ttl_s = c->ttl_s;
    m->modified = c->modified;
    m->created = c->created;
}

static void pack_event(const struct event_state *c, struct packed *p)
{
    Rdzv__TreeEvent *m = &p->tree_event.event;

    rdzv__tree_event__init(m);
    m->action = (Rdzv__TreeAction)c->action;
    m->path = bytes_of(c->node.key);
    m->refresh = c->refresh;
    pack_event_node(&c->node, &p->tree_event.node);
    m->node = &p->tree_event.node;
    if (c->has_prev) {
        pack_event_node(&c->prev, &p->tree_event.prev);
        m->prev = &p->tree_event.prev;
    }
    p->record.snapshot_event = m;
}

static void pack_done(const struct session_done *c, struct packed *p)
{
    Rdzv__SessionDone *m = &p->session_done;

    rdzv__session_done__init(m);
    m->id = c->id;
    m->number = c->number;
    m->flags = c->flags & ~(uint32_t)RELAY_ANSWERED;
    m->popped = c->popped;
    if (c->answer.len == 8) {
        m->answer_case = RDZV__SESSION_DONE__ANSWER_INTEGER;
        m->integer = (int64_t)bytes_get_u64(c->answer.ptr);
    } else if (c->answer.len != 0) {
        m->answer_case = RDZV__SESSION_DONE__ANSWER_BYTES;
        m->bytes = bytes_of(c->answer);
    }
    p->record.session_done = m;
}

static void pack_bind(const struct session_bind *c, struct packed *p)
{
    rdzv__session_bind__init(&p->session_bind);
    p->session_bind.id = c->id;
    p->session_bind.is_worker = c->is_worker;
    p->session_bind.worker_store = c->worker_store;
    p->session.bind = &p->session_bind;
}

static void pack_session_state(const struct session_state *c, struct packed *p)
{
    rdzv__session_state__init(&p->session_state);
    p->session_state.id = c->id;
    p->session_state.number = c->number;
    p->session_state.flags = c->flags;
    p->session_state.is_worker = c->is_worker;
    p->session_state.worker_store = c->worker_store;
    p->session_state.answer = bytes_of(c->answer);
    p->session_state.memo = bytes_of(c->memo);
    p->session.state = &p->session_state;
}

static void pack_held(const struct key_put *c, struct packed *p)
{
    rdzv__session_held__init(&p->session_held);
    p->session_held.id = bytes_get_u64(c->key.ptr);
    p->session_held.bytes = bytes_of(c->value);
    p->session.held = &p->session_held;
}

static void pack_memo(const struct session_memo *c, struct packed *p)
{
    rdzv__session_memo__init(&p->session_memo);
    p->session_memo.id = c->id;
    p->session_memo.bytes = bytes_of(c->bytes);
    p->session.memo = &p->session_memo;
}

static void pack_session(const struct change *c, struct packed *p)
{
    rdzv__session__init(&p->session);
    p->record.change_case = RDZV__RECORD__CHANGE_SESSION;
    p->record.session = &p->session;
    p->session.what_case =
        (Rdzv__Session__WhatCase)(c->kind - CHANGE_SESSION_BIND + RDZV__SESSION__WHAT_BIND);
    if (c->kind == CHANGE_SESSION_BIND)
        pack_bind(&c->bind, p);
    else if (c->kind == CHANGE_SESSION_END)
        p->session.end = c->session;
    else if (c->kind == CHANGE_SNAPSHOT_SESSION)
        pack_session_state(&c->session_state, p);
    else if (c->kind == CHANGE_SESSION_MEMO)
        pack_memo(&c->memo, p);
    else
        pack_held(&c->put, p);
}

/* What only snapshots have. */
static void pack_state(const struct change *c, struct packed *p)
{
    if (c->kind == CHANGE_SNAPSHOT_SPACE)
        pack_space(c->space_state, p);
    else if (c->kind == CHANGE_SNAPSHOT_NODE)
        pack_node(&c->node_state, p);
    else if (c->kind == CHANGE_SNAPSHOT_EVENT)
        pack_event(c->event_state, p);
    else
        p->record.snapshot_end = c->records; /* and snapshot_keys, the same member of the union */
}

static void pack(const char *space, const struct change *c, struct packed *p)
{
    rdzv__record__init(&p->record);
    p->record.space = bytes_of(slice_str(space));
    p->record.worker_store = c->worker_store;
    p->record.change_case = (Rdzv__Record__ChangeCase)c->kind;
    switch (c->kind) {
    case CHANGE_NONE:
        break;
    case CHANGE_KEY_PUT:
    case CHANGE_BARRIER_OPEN:
        pack_put(&c->put, p);
        break;
    case CHANGE_KEY_PATCH:
        pack_patch(&c->patch, p);
        break;
    case CHANGE_KEY_APPEND:
        pack_append(&c->append, p);
        break;
    case CHANGE_KEY_PUT_ALL:
        p->record.key_put_all = bytes_of(c->put_all.pairs);
        break;
    case CHANGE_QUEUE_PUSH:
        pack_push(&c->push, p);
        break;
    case CHANGE_TREE_PUT:
        pack_tree_put(&c->tree_put, p);
        break;
    case CHANGE_TREE_REMOVE:
        pack_tree_remove(&c->tree_remove, p);
        break;
    case CHANGE_SPACE_RESET:
        p->record.space_reset = c->now_ns;
        break;
    case CHANGE_TREE_POSTPONE:
        p->record.tree_postpone = c->by_ns;
        break;
    case CHANGE_SPACE_FORGET:
        p->record.space_forget = true;
        break;
    case CHANGE_WORKER_STORE_OPEN:
    case CHANGE_WORKER_STORE_DROP:
        p->record.worker_store_open = c->store_id; /* the same member of the union */
        break;
    case CHANGE_RUN_PUT:
        pack_run(&c->run_put, p);
        break;
    case CHANGE_KEY_DELETE:
        p->record.key_delete = bytes_of(c->delete.key);
        break;
    case CHANGE_QUEUE_POP:
        p->record.queue_pop = bytes_of(c->pop.queue);
        break;
    case CHANGE_RUN_DELETE:
        p->record.run_delete = bytes_of(c->name);
        break;
    case CHANGE_SNAPSHOT_SPACE:
    case CHANGE_SNAPSHOT_NODE:
    case CHANGE_SNAPSHOT_EVENT:
    case CHANGE_SNAPSHOT_END:
    case CHANGE_SNAPSHOT_KEYS:
        pack_state(c, p);
        break;
    case CHANGE_SESSION_DONE:
        pack_done(&c->done, p);
        break;
    case CHANGE_SESSION_BIND:
    case CHANGE_SESSION_END:
    case CHANGE_SNAPSHOT_SESSION:
    case CHANGE_SNAPSHOT_HELD:
    case CHANGE_SESSION_MEMO:
        pack_session(c, p);
        break;
    }
}

void batch_init(struct batch *b)
{
    *b = (struct batch){0};
}

void batch_init_fixed(struct batch *b, uint8_t *bytes, size_t cap)
{
    *b = (struct batch){.bytes = bytes, .cap = cap, .fixed = true};
}

void batch_fini(struct batch *b)
{
    if (!b->fixed)
        free(b->bytes);
    *b = (struct batch){0};
}

void batch_begin(struct batch *b, uint64_t number)
{
    b->number = number;
    b->count = b->len = 0;
}

uint8_t *batch_take(struct batch *b, size_t *cap)
{
    uint8_t *bytes = b->bytes;

    *cap = b->cap + b->kept;
    b->bytes = NULL;
    b->count = b->len = b->cap = 0;
    return bytes;
}

#define VARINT_MAX 10
#define TAG_NUMBER 0x08 /* field 1, a varint */
#define TAG_RECORD 0x12 /* field 2, bytes of some length */
#define TAG_TIME   0x19 /* field 3, eight bytes, little-endian */
#define TIME_SIZE  9

static bool make_room(struct batch *b, size_t more)
{
    size_t cap = b->cap == 0 ? 4096 : b->cap;
    uint8_t *wider;

    if (more <= b->cap - b->len)
        return true;
    if (b->fixed)
        return false;
    while (cap - b->len < more)
        cap *= 2;
    wider = realloc(b->bytes, cap + b->kept);
    if (wider == NULL)
        return false;
    b->bytes = wider;
    b->cap = cap;
    return true;
}

bool batch_keep(struct batch *b, size_t size)
{
    if (b->refuses)
        return false;
    size += 2 * (1 + VARINT_MAX) + TIME_SIZE;
    if (b->bytes != NULL && size <= b->kept)
        return true;
    batch_let_go(b);
    if (!make_room(b, size))
        return false;
    b->cap -= size;
    b->kept = size;
    return true;
}

void batch_let_go(struct batch *b)
{
    if (b->bytes != NULL) /* else they were taken, with what was kept in them */
        b->cap += b->kept;
    b->kept = 0;
}

static void put_varint(struct batch *b, uint64_t v)
{
    for (; v > 0x7f; v >>= 7)
        b->bytes[b->len++] = (uint8_t)(v | 0x80);
    b->bytes[b->len++] = (uint8_t)v;
}

static void put_field(struct batch *b, uint8_t tag, uint64_t v)
{
    b->bytes[b->len++] = tag;
    put_varint(b, v);
}

static void put_number(struct batch *b)
{
    if (b->len == 0)
        put_field(b, TAG_NUMBER, b->number);
}

bool batch_end(struct batch *b, int64_t time_ns)
{
    if (!make_room(b, (b->len == 0 ? 1 + VARINT_MAX : 0) + TIME_SIZE))
        return false;
    put_number(b);
    b->bytes[b->len++] = TAG_TIME;
    bytes_put_u64(b->bytes + b->len, (uint64_t)time_ns);
    b->len += 8;
    return true;
}

/* Messages that stand behind each other are one, with the records of both. */
bool batch_append(struct batch *b, const struct batch *other)
{
    if (!make_room(b, other->len + TIME_SIZE))
        return false;
    if (other->len != 0)
        memcpy(b->bytes + b->len, other->bytes, other->len);
    b->len += other->len;
    b->count += other->count;
    return true;
}

/* --- Records. protobuf-c looks twice at each field that a record may have, which takes longer than
 * all else that is done about a small change. So most records are written here, but for the message
 * in them. --- */

#define TAG_SPACE        0x0a /* of a record: field 1, bytes */
#define TAG_WORKER_STORE 0x10 /* field 2, a varint */
#define WIRE_BYTES       2u

/* The message of the record; NULL: protobuf-c has to write the record. */
static const ProtobufCMessage *message_of(const Rdzv__Record *r)
{
    switch (r->change_case) {
    case RDZV__RECORD__CHANGE_KEY_PUT:
    case RDZV__RECORD__CHANGE_KEY_PATCH:
    case RDZV__RECORD__CHANGE_KEY_APPEND:
    case RDZV__RECORD__CHANGE_QUEUE_PUSH:
    case RDZV__RECORD__CHANGE_BARRIER_OPEN:
    case RDZV__RECORD__CHANGE_TREE_PUT:
    case RDZV__RECORD__CHANGE_TREE_REMOVE:
    case RDZV__RECORD__CHANGE_SESSION_DONE:
        return &r->key_put->base; /* each of them begins with it */
    default:
        return NULL;
    }
}

static size_t varint_size(uint64_t v)
{
    size_t size = 1;

    for (; v > 0x7f; v >>= 7)
        size++;
    return size;
}

static size_t record_size(const Rdzv__Record *r, size_t message)
{
    size_t size = varint_size((uint64_t)r->change_case << 3) + varint_size(message) + message;

    if (r->space.len != 0)
        size += 1 + varint_size(r->space.len) + r->space.len;
    if (r->worker_store != 0)
        size += 1 + varint_size(r->worker_store);
    return size;
}

static void put_record(struct batch *b, const Rdzv__Record *r, const ProtobufCMessage *m,
                       size_t message)
{
    if (r->space.len != 0) {
        put_field(b, TAG_SPACE, r->space.len);
        memcpy(b->bytes + b->len, r->space.data, r->space.len);
        b->len += r->space.len;
    }
    if (r->worker_store != 0)
        put_field(b, TAG_WORKER_STORE, r->worker_store);
    put_varint(b, (uint64_t)r->change_case << 3 | WIRE_BYTES);
    put_varint(b, message);
    b->len += protobuf_c_message_pack(m, b->bytes + b->len);
}

bool batch_add(struct batch *b, const char *space, const struct change *change)
{
    const ProtobufCMessage *message;
    struct packed p;
    size_t size, inner;

    if (b->refuses)
        return false;
    pack(space, change, &p);
    message = message_of(&p.record);
    inner = message == NULL ? 0 : protobuf_c_message_get_packed_size(message);
    size =
        message == NULL ? rdzv__record__get_packed_size(&p.record) : record_size(&p.record, inner);
    if (!make_room(b, size + 2 * (1 + VARINT_MAX) + TIME_SIZE))
        return false;
    put_number(b);
    put_field(b, TAG_RECORD, size);
    if (message != NULL)
        put_record(b, &p.record, message, inner);
    else
        b->len += rdzv__record__pack(&p.record, b->bytes + b->len);
    b->count++;
    return true;
}
