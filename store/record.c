/* Commands as bytes. See record.h for the contract. */
#include "store/record.h"

#include <stdlib.h>

#include "proto/c10d.h"
#include "proto/command.pb-c.h"

static ProtobufCBinaryData bytes_of(struct slice s)
{
    return (ProtobufCBinaryData){.len = s.len, .data = (uint8_t *)(uintptr_t)s.ptr};
}

static struct slice slice_of(ProtobufCBinaryData b)
{
    return (struct slice){b.data, b.len};
}

static ProtobufCBinaryData *list_of(const struct command_list *from, ProtobufCBinaryData *to)
{
    for (size_t i = 0; i < from->count; i++)
        to[i] = bytes_of(from->items[i]);
    return to;
}

bool record_encode(const char *space, const struct command *c, uint8_t **out, size_t *len)
{
    ProtobufCBinaryData *lists = calloc(c->names.count + c->writes.count + 1, sizeof *lists);
    Rdzv__Command m = RDZV__COMMAND__INIT;

    if (lists == NULL)
        return false;
    m.kind = (Rdzv__Command__Kind)c->kind;
    m.space = (char *)(uintptr_t)space;
    m.key = bytes_of(c->key);
    m.value = bytes_of(c->value);
    m.expected = bytes_of(c->expected);
    m.items = bytes_of(c->items);
    m.number = c->number;
    m.prev_index = c->prev_index;
    m.expires_ns = c->expires_ns;
    m.now_ns = c->now_ns;
    m.dir = c->dir;
    m.recursive = c->recursive;
    m.refresh = c->refresh;
    m.world = c->world;
    m.no_names = c->names.absent;
    m.no_writes = c->writes.absent;
    m.n_names = c->names.count;
    m.names = list_of(&c->names, lists);
    m.n_writes = c->writes.count;
    m.writes = list_of(&c->writes, lists + c->names.count);

    *len = rdzv__command__get_packed_size(&m);
    *out = malloc(*len + 1); /* never of 0 bytes */
    if (*out != NULL)
        rdzv__command__pack(&m, *out);
    free(lists);
    return *out != NULL;
}

/* A MULTI_SET is walked by its lengths, so they have to agree with the bytes. */
static bool items_are_pairs(struct slice items)
{
    struct slice blob;
    size_t count = 0;

    while (c10d_next_blob(&items, &blob))
        count++;
    return items.len == 0 && count % 2 == 0;
}

/* What a tree takes for granted of paths: '/' before each component, and no component empty. */
static bool is_path(struct slice path)
{
    if (path.len == 0 || path.ptr[0] != '/')
        return false;
    for (size_t i = 1; i < path.len; i++) {
        if (path.ptr[i] == '/' && path.ptr[i - 1] == '/')
            return false;
    }
    return path.len == 1 || path.ptr[path.len - 1] != '/';
}

/* A record of a newer version must not be taken for something else, nor half of one for a whole. */
static bool is_command(const Rdzv__Command *m)
{
    enum command_kind kind = (enum command_kind)m->kind;

    if (command_is_tree(kind) && kind != COMMAND_TREE_EXPIRE)
        return is_path(slice_of(m->key));
    if (kind == COMMAND_KEY_MULTI_SET)
        return items_are_pairs(slice_of(m->items));
    return command_is_key(kind) || command_is_tree(kind) || command_is_auth(kind) ||
           command_is_space(kind) || command_is_run(kind);
}

bool record_decode(struct slice in, struct record *out)
{
    Rdzv__Command *m = rdzv__command__unpack(NULL, in.len, in.ptr);
    struct slice *lists =
        m == NULL ? NULL : calloc(m->n_names + m->n_writes + 1, sizeof(struct slice));

    if (lists == NULL || !is_command(m)) {
        free(lists);
        if (m != NULL)
            rdzv__command__free_unpacked(m, NULL);
        return false;
    }
    for (size_t i = 0; i < m->n_names; i++)
        lists[i] = slice_of(m->names[i]);
    for (size_t i = 0; i < m->n_writes; i++)
        lists[m->n_names + i] = slice_of(m->writes[i]);
    *out = (struct record){
        .space = slice_str(m->space),
        .memory = m,
        .lists = lists,
        .command =
            {
                .kind = (enum command_kind)m->kind,
                .key = slice_of(m->key),
                .value = slice_of(m->value),
                .expected = slice_of(m->expected),
                .items = slice_of(m->items),
                .number = m->number,
                .prev_index = m->prev_index,
                .expires_ns = m->expires_ns,
                .now_ns = m->now_ns,
                .dir = m->dir != 0,
                .recursive = m->recursive != 0,
                .refresh = m->refresh != 0,
                .world = m->world,
                .names = {lists, m->n_names, m->no_names != 0},
                .writes = {lists + m->n_names, m->n_writes, m->no_writes != 0},
            },
    };
    return true;
}

void record_free(struct record *r)
{
    rdzv__command__free_unpacked(r->memory, NULL);
    free(r->lists);
    *r = (struct record){0};
}
