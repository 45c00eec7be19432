/* Rendezvous states. A state that was read from a value must be sorted, and equal after writing and
 * reading it again; and a written or changed state must not be much longer than the input. An input
 * that starts like a pickle is encoded in base64 first; every other input is the value itself.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base64.h"
#include "proto/torch/torch_state.h"
#include "proto/utf8.h"
#include "tests/fuzz/fuzz.h"

static void check_node(const struct torch_state *s, size_t i)
{
    const struct torch_node *n = &s->nodes[i];
    uint32_t point;

    CHECK(i == 0 || torch_node_compare(&s->nodes[i - 1], n) < 0);
    CHECK(n->participant || n->waiting || n->redundant || n->has_heartbeat);
    CHECK(s->has_redundancy || !n->redundant);
    CHECK(n->participant || n->rank == 0);
    CHECK(n->has_heartbeat || n->heartbeat_us == 0);
    CHECK(n->addr.len <= TORCH_ADDR_MAX);
    CHECK(torch_state_find(s, n) == n);
    for (size_t at = 0, len; at < n->addr.len; at += len) {
        len = utf8_decode(slice_from(n->addr, at), &point);
        CHECK(len > 0);
    }
}

static void check_state(const struct torch_state *s)
{
    CHECK(s->protocol == 4 || s->protocol == 5);
    CHECK(s->has_deadline || s->deadline_us == 0);
    CHECK(s->count <= s->cap);
    for (size_t i = 0; i < s->count; i++)
        check_node(s, i);
}

static void check_same(const struct torch_state *a, const struct torch_state *b)
{
    CHECK(a->round == b->round && a->complete == b->complete && a->closed == b->closed);
    CHECK(a->has_deadline == b->has_deadline && a->deadline_us == b->deadline_us);
    CHECK(a->has_redundancy == b->has_redundancy && a->protocol == b->protocol);
    CHECK(a->fqdn == b->fqdn && a->aware == b->aware && a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        const struct torch_node *n = &a->nodes[i], *m = &b->nodes[i];

        CHECK(torch_node_compare(n, m) == 0);
        CHECK(n->participant == m->participant && n->rank == m->rank);
        CHECK(n->waiting == m->waiting && n->redundant == m->redundant);
        CHECK(n->has_heartbeat == m->has_heartbeat && n->heartbeat_us == m->heartbeat_us);
    }
}

/* Writes the state and reads it again; *len is how long it was. The version of a state that has
 * neither nodes nor times is a guess. */
static uint8_t *write_and_read(const struct torch_state *s, size_t *len)
{
    struct torch_state again;
    uint8_t *text;

    CHECK(torch_state_write(s, &text, len));
    CHECK(torch_state_read_view((struct slice){text, *len}, &again) == TORCH_STATE_OK);
    CHECK(again.unnamed == s->unnamed);
    check_state(&again);
    check_same(s, &again);
    torch_state_free(&again);
    return text;
}

/* A node more, and every time moved by what the input's length says, except for the deadline: of a
 * text of `read` bytes. */
static void change(struct torch_state *s, size_t read, size_t size)
{
    struct torch_node who = {.addr = slice_str("node"), .pid = (int64_t)size, .waiting = true}, *at;
    int64_t us = (int64_t)size * 1000003 - 50000000;
    size_t count = s->count, len;
    bool found = torch_state_find(s, &who) != NULL;

    for (size_t i = 0; i < count; i++) {
        int64_t *beat = &s->nodes[i].heartbeat_us;

        /* Far from the ends of what a time can be, where it would stay. */
        if (s->nodes[i].has_heartbeat && *beat > -(INT64_C(1) << 55) && *beat < INT64_C(1) << 57)
            *beat += us;
    }
    if (count == 0) /* a guess until now */
        s->fqdn = size % 2 == 0;
    CHECK(torch_state_insert(s, &who, &at));
    CHECK(s->count == count + !found && torch_state_find(s, &who) == at);
    free(write_and_read(s, &len));
    CHECK(len <= TORCH_STATE_GROWTH(read) + 256);
}

static void try_value(struct slice value, size_t size)
{
    struct torch_state s, plain;
    uint8_t *text, *same;
    size_t len, same_len;

    if (torch_state_read_view(value, &s) != TORCH_STATE_OK)
        return;
    CHECK((torch_state_read(value, &plain) == TORCH_STATE_OK) == (s.unnamed == 0));
    if (s.unnamed == 0)
        torch_state_free(&plain);
    check_state(&s);
    text = write_and_read(&s, &len);
    CHECK(len <= TORCH_STATE_GROWTH(value.len));
    same = write_and_read(&s, &same_len);
    CHECK(slice_equal((struct slice){text, len}, (struct slice){same, same_len}));
    free(text);
    free(same);
    change(&s, value.len, size);
    torch_state_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = {data, size};
    uint8_t *text;

    if (size == 0 || data[0] != 0x80) {
        try_value(in, size);
        return 0;
    }
    text = malloc(base64_size(size));
    CHECK(text != NULL);
    base64_encode(in, text);
    try_value((struct slice){text, base64_size(size)}, size);
    free(text);
    return 0;
}
