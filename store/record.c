/* Changes as bytes. See record.h for the contract. */
#include "store/record.h"

#include <stdlib.h>

#include "proto/c10d.h"
#include "proto/record.pb-c.h"

static ProtobufCBinaryData bytes_of(struct slice s)
{
    return (ProtobufCBinaryData){.len = s.len, .data = (uint8_t *)(uintptr_t)s.ptr};
}

static struct slice slice_of(ProtobufCBinaryData b)
{
    return (struct slice){b.data, b.len};
}

/* --- Encoding. --- */

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
        Rdzv__AuthUserPut user_put;
        Rdzv__AuthRolePut role_put;
        Rdzv__RunPut run_put;
    };
    ProtobufCBinaryData *lists; /* room for the names and patterns of a change */
};

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

/* Takes its place from the front of what is left of the lists. */
static ProtobufCBinaryData *pack_list(const struct command_list *from, struct packed *p)
{
    ProtobufCBinaryData *list = p->lists;

    for (size_t i = 0; i < from->count; i++)
        *p->lists++ = bytes_of(from->items[i]);
    return list;
}

static void pack_user(const struct auth_user_put *c, struct packed *p)
{
    rdzv__auth_user_put__init(&p->user_put);
    p->user_put.name = bytes_of(c->name);
    p->user_put.hash = bytes_of(c->hash);
    p->user_put.n_roles = c->roles.count;
    p->user_put.roles = pack_list(&c->roles, p);
    p->user_put.no_roles = c->roles.absent;
    p->record.auth_user_put = &p->user_put;
}

static void pack_role(const struct auth_role_put *c, struct packed *p)
{
    rdzv__auth_role_put__init(&p->role_put);
    p->role_put.name = bytes_of(c->name);
    p->role_put.shown = bytes_of(c->shown);
    p->role_put.n_reads = c->reads.count;
    p->role_put.reads = pack_list(&c->reads, p);
    p->role_put.no_reads = c->reads.absent;
    p->role_put.n_writes = c->writes.count;
    p->role_put.writes = pack_list(&c->writes, p);
    p->role_put.no_writes = c->writes.absent;
    p->record.auth_role_put = &p->role_put;
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
        rdzv__key_put__init(&p->key_put);
        p->key_put.key = bytes_of(c->put.key);
        p->key_put.value = bytes_of(c->put.value);
        p->record.key_put = &p->key_put;
        break;
    case CHANGE_KEY_PATCH:
        pack_patch(&c->patch, p);
        break;
    case CHANGE_KEY_APPEND:
        rdzv__key_append__init(&p->key_append);
        p->key_append.key = bytes_of(c->append.key);
        p->key_append.bytes = bytes_of(c->append.bytes);
        p->record.key_append = &p->key_append;
        break;
    case CHANGE_KEY_PUT_ALL:
        p->record.key_put_all = bytes_of(c->put_all.pairs);
        break;
    case CHANGE_QUEUE_PUSH:
        rdzv__queue_push__init(&p->queue_push);
        p->queue_push.queue = bytes_of(c->push.queue);
        p->queue_push.value = bytes_of(c->push.value);
        p->record.queue_push = &p->queue_push;
        break;
    case CHANGE_TREE_PUT:
        pack_tree_put(&c->tree_put, p);
        break;
    case CHANGE_TREE_REMOVE:
        pack_tree_remove(&c->tree_remove, p);
        break;
    case CHANGE_AUTH_USER_PUT:
        pack_user(&c->user_put, p);
        break;
    case CHANGE_AUTH_ROLE_PUT:
        pack_role(&c->role_put, p);
        break;
    case CHANGE_AUTH_SWITCH:
        p->record.auth_switch = c->auth_enabled;
        break;
    case CHANGE_AUTH_TOUCH:
        p->record.auth_touch = true;
        break;
    case CHANGE_SPACE_RESET:
        p->record.space_reset = c->now_ns;
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
    case CHANGE_AUTH_USER_DELETE:
    case CHANGE_AUTH_ROLE_DELETE:
    case CHANGE_RUN_DELETE:
        p->record.run_delete = bytes_of(c->name); /* here too */
        break;
    }
}

void batch_init(struct batch *b)
{
    *b = (struct batch){0};
}

void batch_fini(struct batch *b)
{
    free(b->bytes);
    *b = (struct batch){0};
}

void batch_begin(struct batch *b, uint64_t number)
{
    b->number = number;
    b->count = b->len = 0;
}

#define VARINT_MAX 10
#define TAG_NUMBER 0x08 /* field 1, a varint */
#define TAG_RECORD 0x12 /* field 2, bytes of some length */

static bool make_room(struct batch *b, size_t more)
{
    size_t cap = b->cap == 0 ? 4096 : b->cap;
    uint8_t *wider;

    if (more <= b->cap - b->len)
        return true;
    while (cap - b->len < more)
        cap *= 2;
    wider = realloc(b->bytes, cap);
    if (wider == NULL)
        return false;
    b->bytes = wider;
    b->cap = cap;
    return true;
}

static void put_field(struct batch *b, uint8_t tag, uint64_t v)
{
    b->bytes[b->len++] = tag;
    for (; v > 0x7f; v >>= 7)
        b->bytes[b->len++] = (uint8_t)(v | 0x80);
    b->bytes[b->len++] = (uint8_t)v;
}

/* How many names and patterns a change has. */
static size_t count_lists(const struct change *c)
{
    if (c->kind == CHANGE_AUTH_USER_PUT)
        return c->user_put.roles.count;
    return c->kind == CHANGE_AUTH_ROLE_PUT ? c->role_put.reads.count + c->role_put.writes.count : 0;
}

bool batch_add(struct batch *b, const char *space, const struct change *change)
{
    size_t size, count = count_lists(change);
    ProtobufCBinaryData *lists = count == 0 ? NULL : calloc(count, sizeof *lists);
    struct packed p = {.lists = lists};
    bool ok;

    if (count != 0 && lists == NULL)
        return false;
    pack(space, change, &p);
    size = rdzv__record__get_packed_size(&p.record);
    ok = make_room(b, size + 2 * (1 + VARINT_MAX));
    if (ok) {
        if (b->len == 0)
            put_field(b, TAG_NUMBER, b->number);
        put_field(b, TAG_RECORD, size);
        b->len += rdzv__record__pack(&p.record, b->bytes + b->len);
        b->count++;
    }
    free(lists);
    return ok;
}

/* --- Decoding. --- */

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

/* False: what a newer version has written, or no version; half of a record is not taken for a whole
 * one. */
static bool unpack(const Rdzv__Record *m, struct change *c, struct slice **lists)
{
    *c = (struct change){.kind = (enum change_kind)m->change_case, .worker_store = m->worker_store};
    if (!is_whole(&m->base) || (m->worker_store != 0 && !change_is_key(c->kind)))
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
        c->put_all.pairs = slice_of(m->key_put_all);
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
        return unpack_user(m->auth_user_put, c, lists);
    case CHANGE_AUTH_ROLE_PUT:
        return unpack_role(m->auth_role_put, c, lists);
    case CHANGE_AUTH_SWITCH:
        c->auth_enabled = m->auth_switch != 0;
        return true;
    case CHANGE_AUTH_TOUCH:
        return m->auth_touch != 0;
    case CHANGE_SPACE_RESET:
        c->now_ns = m->space_reset;
        return true;
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
    }
    return false;
}

static size_t count_names(const Rdzv__Batch *m)
{
    size_t count = 0;

    for (size_t i = 0; i < m->n_records; i++) {
        const Rdzv__Record *r = m->records[i];

        if (r->change_case == RDZV__RECORD__CHANGE_AUTH_USER_PUT)
            count += r->auth_user_put->n_roles;
        else if (r->change_case == RDZV__RECORD__CHANGE_AUTH_ROLE_PUT)
            count += r->auth_role_put->n_reads + r->auth_role_put->n_writes;
    }
    return count;
}

static bool unpack_all(const Rdzv__Batch *m, struct record_batch *b)
{
    struct slice *lists = b->lists;

    for (size_t i = 0; i < m->n_records; i++) {
        b->records[i].space = slice_of(m->records[i]->space);
        if (!unpack(m->records[i], &b->records[i].change, &lists))
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
    b = (struct record_batch){.number = m->number, .count = m->n_records, .memory = m};
    b.records = calloc(b.count + 1, sizeof *b.records);
    b.lists = calloc(count_names(m) + 1, sizeof *b.lists);
    if (b.records == NULL || b.lists == NULL || !unpack_all(m, &b)) {
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
    *b = (struct record_batch){0};
}
