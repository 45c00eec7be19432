/* A store as text. See dump.h. */
#include "tests/sim/dump.h"

#include "store/tree/tree_snapshot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX 4096

/* Of a long value a hash must do. */
static void dump_bytes(FILE *out, const char *name, struct slice s)
{
    uint64_t hash = 14695981039346656037u;

    fprintf(out, " %s=%zu:", name, s.len);
    if (s.len > SHOWN_MAX) {
        for (size_t i = 0; i < s.len; i += sizeof hash) {
            uint64_t word = 0;

            memcpy(&word, s.ptr + i, s.len - i < sizeof word ? s.len - i : sizeof word);
            hash = (hash ^ word) * 1099511628211u;
            hash ^= hash >> 32;
        }
        fprintf(out, "%016" PRIx64, hash);
        return;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] > ' ' && s.ptr[i] < 0x7f)
            putc(s.ptr[i], out);
        else
            fprintf(out, "\\%02x", s.ptr[i]);
    }
}

static void dump_key(FILE *out, const struct entry *e)
{
    fprintf(out, "key");
    dump_bytes(out, "name", entry_key(e));
    dump_bytes(out, "value", blob_slice(e->value));
    putc('\n', out);
}

static void dump_queue(FILE *out, const struct queue *q)
{
    const struct element *element;

    fprintf(out, "queue len=%" PRIu64, q->len);
    dump_bytes(out, "name", q->node.key);
    STAILQ_FOREACH(element, &q->elements, entry)
        dump_bytes(out, "element", blob_slice(element->value));
    putc('\n', out);
}

static int by_key(const void *a, const void *b)
{
    const struct entry *const *x = a, *const *y = b;

    return slice_compare(entry_key(*x), entry_key(*y));
}

static int by_name(const void *a, const void *b)
{
    const struct queue *const *x = a, *const *y = b;

    return slice_compare((*x)->node.key, (*y)->node.key);
}

static const void **alloc_pointers(size_t count)
{
    const void **pointers = calloc(count + 1, sizeof *pointers);

    if (pointers == NULL)
        abort();
    return pointers;
}

/* In the order of their names. */
static void dump_sorted_keys(FILE *out, const struct keymap *m)
{
    const void **sorted = alloc_pointers(m->present + m->queues.count);
    const struct entry *e;
    const struct queue *q;
    size_t count = 0;

    TAILQ_FOREACH(e, &m->entries, order)
        sorted[count++] = e;
    qsort(sorted, count, sizeof *sorted, by_key);
    for (size_t i = 0; i < count; i++)
        dump_key(out, sorted[i]);
    count = 0;
    TAILQ_FOREACH(q, &m->queue_order, order)
        sorted[count++] = q;
    qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 0; i < count; i++)
        dump_queue(out, sorted[i]);
    free(sorted);
}

static void dump_keys(FILE *out, const struct keymap *m, bool sorted)
{
    const struct entry *e;
    const struct queue *q;

    if (sorted) {
        dump_sorted_keys(out, m);
    } else {
        TAILQ_FOREACH(e, &m->entries, order)
            dump_key(out, e);
        TAILQ_FOREACH(q, &m->queue_order, order)
            dump_queue(out, q);
    }
    fprintf(out, "present=%zu key_bytes=%zu\n", m->present, m->bytes);
}

static void dump_stores(FILE *out, const struct space *space, bool sorted)
{
    const struct run_record *run;

    TAILQ_FOREACH(run, &space->runs.list, order) {
        fprintf(out, "run placement=%d port=%u worker_store=%" PRIu64 " round=%" PRId64,
                (int)run->placement, run->port, run->worker_store, run->round);
        dump_bytes(out, "key", run->node.key);
        dump_bytes(out, "address", run->address);
        putc('\n', out);
    }
    fprintf(out, "run_bytes=%zu last_store=%" PRIu64 "\n", space->runs.bytes,
            space->worker_stores.last_id);
    for (size_t i = 0; i < space->worker_stores.count; i++) {
        fprintf(out, "worker_store id=%" PRIu64 " sessions=%" PRIu64 "\n",
                space->worker_stores.items[i]->id, space->worker_stores.items[i]->sessions);
        dump_keys(out, &space->worker_stores.items[i]->keys, sorted);
    }
}

static void dump_node(FILE *out, const struct node *n)
{
    const struct node *child;

    fprintf(out, "node dir=%d created=%" PRIu64 " modified=%" PRIu64, n->value == NULL, n->created,
            n->modified);
    if (n->expiry.slot != 0)
        fprintf(out, " expires=%" PRId64 " order=%" PRIu64, n->expiry.at_ns, n->expiry.order);
    dump_bytes(out, "path", n->by_path.key);
    dump_bytes(out, "value", blob_slice(n->value));
    putc('\n', out);
    TAILQ_FOREACH(child, &n->children, sibling) {
        if (!tree_is_removed(child)) /* removed nodes stay only for readers of an older version */
            dump_node(out, child);
    }
}

static void dump_tree(FILE *out, struct tree *t)
{
    dump_node(out, t->root);
    fprintf(out, "index=%" PRIu64 " last=%" PRIu64 " tree_bytes=%zu expired=%" PRIu64 "\n",
            t->index, t->hub.last, t->bytes, t->expired);
    for (uint64_t i = t->hub.oldest; i <= t->hub.last; i++) {
        struct tree_event *e = t->hub.history[i % HISTORY_EVENTS];
        struct writer w = {0};
        char *text;

        if (e == NULL)
            continue;
        etcd_write_event(&w, e->action, &e->node, e->has_prev ? &e->prev : NULL);
        text = malloc(w.len);
        if (text == NULL)
            abort();
        w = (struct writer){.ptr = (uint8_t *)text, .cap = w.len};
        etcd_write_event(&w, e->action, &e->node, e->has_prev ? &e->prev : NULL);
        fprintf(out, "event index=%" PRIu64 " refresh=%d %.*s", i, e->refresh, (int)w.len, text);
        free(text);
    }
}

static int by_id(const void *a, const void *b)
{
    const struct session *const *x = a, *const *y = b;

    return (*x)->id < (*y)->id ? -1 : (*x)->id > (*y)->id;
}

static void dump_session(FILE *out, const struct session *s)
{
    fprintf(out,
            "session id=%" PRIu64 " number=%" PRIu64 " flags=%d worker=%d worker_store=%" PRIu64,
            s->id, s->number, s->flags, s->is_worker, s->worker_store);
    dump_bytes(out, "answer", (struct slice){s->answer, s->answer_len});
    if (s->popped != NULL)
        dump_bytes(out, "popped", blob_slice(s->popped));
    if (s->hint != NULL)
        dump_bytes(out, "hint", blob_slice(s->hint));
    if (!session_passed(s))
        dump_bytes(out, "barrier", session_barrier(s));
    putc('\n', out);
}

/* In the order of their ids: their list has none. */
static void dump_sessions(FILE *out, const struct sessions *s)
{
    const struct session *session, **sorted = calloc(s->table.count + 1, sizeof *sorted);
    size_t count = 0;

    if (sorted == NULL)
        abort();
    TAILQ_FOREACH(session, &s->list, order)
        sorted[count++] = session;
    qsort(sorted, count, sizeof *sorted, by_id);
    for (size_t i = 0; i < count; i++)
        dump_session(out, sorted[i]);
    free(sorted);
    fprintf(out, "sessions=%zu session_bytes=%zu\n", count, s->bytes);
}

static void dump_space(FILE *out, struct space *space, bool sorted)
{
    fprintf(out, "space %s\n", space->name);
    dump_keys(out, &space->keys, sorted);
    dump_stores(out, space, sorted);
    dump_tree(out, &space->tree);
    dump_sessions(out, &space->sessions);
}

void dump_store(FILE *out, struct store *s)
{
    struct space *space;

    TAILQ_FOREACH(space, &s->spaces, entry)
        dump_space(out, space, false);
}

/* What no replay makes, and a snapshot has. */
static void dump_counts(FILE *out, const struct space *space)
{
    const struct tree *t = &space->tree;

    fprintf(out, "kept=%zu oldest=%" PRIu64 " history=%zu next_deadline=%" PRIu64 "\n",
            space->quota.kept, t->hub.oldest, t->hub.bytes, t->expiry.next_order);
    for (int i = 0; i < TREE_COUNTERS; i++)
        fprintf(out, "succeeded=%" PRIu64 " failed=%" PRIu64 "\n", t->succeeded[i], t->failed[i]);
}

static FILE *open_text(char **text, size_t *len)
{
    FILE *out = open_memstream(text, len);

    if (out == NULL)
        abort();
    return out;
}

char *dump_text(struct store *s)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_text(&text, &len);

    dump_store(out, s);
    fclose(out);
    return text;
}

char *dump_snapshot_text(struct store *s)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_text(&text, &len);
    struct space *space;

    TAILQ_FOREACH(space, &s->spaces, entry) {
        dump_space(out, space, true);
        dump_counts(out, space);
    }
    fclose(out);
    return text;
}
