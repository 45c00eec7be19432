/* Sorts the edits, refuses overlaps, and copies what is between them. */
#include "deploy/yaml/text_edit.h"

#include <stdlib.h>
#include <string.h>

void text_edits_add(struct text_edits *e, struct arena *a, size_t at, size_t len, const char *text,
                    size_t text_len)
{
    struct text_edit edit = {.at = at, .len = len, .text_len = text_len, .order = e->count};

    edit.text = arena_copy(a, text, text_len);
    arena_push(a, e->list, e->count, e->cap) = edit;
}

static int compare_edits(const void *left, const void *right)
{
    const struct text_edit *a = left, *b = right;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    if ((a->len == 0) != (b->len == 0))
        return a->len == 0 ? -1 : 1; /* an insertion comes before a replacement at the same place */
    return a->order < b->order ? -1 : 1;
}

/* Whether the edit is one of the `kept` ones. */
static bool has_edit(const struct text_edits *e, size_t kept, const struct text_edit *edit)
{
    for (; kept > 0 && e->list[kept - 1].at == edit->at; kept--) {
        const struct text_edit *old = &e->list[kept - 1];

        if (old->len == edit->len && old->text_len == edit->text_len &&
            memcmp(old->text, edit->text, edit->text_len) == 0)
            return true;
    }
    return false;
}

/* Sorts the edits and drops repetitions; false if two of them change the same bytes. */
static bool edits_settle(struct text_edits *e, size_t *where)
{
    size_t kept = 0;

    if (e->count > 0)
        qsort(e->list, e->count, sizeof *e->list, compare_edits);
    FOREACH(struct text_edit, next, e->list, e->count) {
        struct text_edit *last = kept > 0 ? &e->list[kept - 1] : NULL;

        if (has_edit(e, kept, next))
            continue;
        if (last != NULL && next->at < last->at + last->len) {
            *where = next->at;
            return false;
        }
        e->list[kept++] = *next;
    }
    e->count = kept;
    return true;
}

bool text_edits_apply(struct text_edits *e, struct arena *a, const char *bytes, size_t len,
                      struct text_result *out, size_t *where)
{
    struct text_result r = {0};
    size_t size = len, from = 0;

    if (!edits_settle(e, where))
        return false;
    for (size_t i = 0; i < e->count; i++)
        size += e->list[i].text_len; /* more than enough: removed bytes are not subtracted */
    r.bytes = arena_alloc(a, size + 1);
    FOREACH(const struct text_edit, edit, e->list, e->count) {
        memcpy(r.bytes + r.len, bytes + from, edit->at - from);
        r.len += edit->at - from;
        memcpy(r.bytes + r.len, edit->text, edit->text_len);
        r.len += edit->text_len;
        from = edit->at + edit->len;
    }
    memcpy(r.bytes + r.len, bytes + from, len - from);
    r.len += len - from;
    *out = r;
    return true;
}
