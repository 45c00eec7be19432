/* What a snapshot of a large store costs: its longest slice, a change beside it, and the way back;
 * and what the replay of a journal costs.
 *
 *   snapshot [KEYS [tree]]    c10d keys, or etcd's, of 100 bytes; 1,000,000 unless told
 */
#include "store/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "store/store.h"
#include "tests/support/record_batch.h"

#define SLICE (64u << 10)
#define VALUE 100

static bool in_tree;

static double cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void open_store(struct store *s, uint64_t seed)
{
    const struct store_options options = {.seed = seed};

    store_init(s, &options);
    store_space(s, slice_str("default"));
}

static void die(const char *what)
{
    fprintf(stderr, "snapshot: %s\n", what);
    exit(1);
}

static void set(struct store *s, size_t i, uint8_t byte, struct batch *batch)
{
    uint8_t value[VALUE];
    char key[64];
    struct command c = {.kind = in_tree ? COMMAND_TREE_SET : COMMAND_KEY_SET,
                        .value = {value, sizeof value}};
    struct store_result out;

    memset(value, byte, sizeof value);
    if (in_tree)
        snprintf(key, sizeof key, "/torch/elastic/%zu/%zu", i / 1000, i);
    else
        snprintf(key, sizeof key, "/default_pg/0//key/%zu", i);
    c.key = slice_str(key);
    if (!store_execute(s, store_space(s, slice_str("default")), &c, batch, &out))
        die("a SET is refused");
}

/* A list of batches. */
struct log {
    uint8_t *bytes;
    size_t *ends;
    size_t count, len, cap, room;
};

static void log_add(struct log *l, struct slice s)
{
    if (l->len + s.len > l->cap)
        l->bytes = realloc(l->bytes, l->cap = (l->len + s.len) * 2);
    if (l->count == l->room)
        l->ends = realloc(l->ends, (l->room = l->room * 2 + 1) * sizeof *l->ends);
    if (l->bytes == NULL || l->ends == NULL)
        die("no memory");
    memcpy(l->bytes + l->len, s.ptr, s.len);
    l->len += s.len;
    l->ends[l->count++] = l->len;
}

static struct slice log_at(const struct log *l, size_t i)
{
    size_t from = i == 0 ? 0 : l->ends[i - 1];

    return (struct slice){l->bytes + from, l->ends[i] - from};
}

static double set_some(struct store *s, size_t keys, uint8_t byte)
{
    double from = cpu();

    for (size_t i = 0; i < 10000; i++)
        set(s, i * (keys / 10000), byte, NULL);
    return (cpu() - from) * 1e9 / 10000;
}

static void write_snapshot(struct store *s, size_t keys, struct log *l)
{
    enum snapshot_state state = SNAPSHOT_GOES_ON;
    double from = cpu(), begun, longest = 0, total = 0;
    struct snapshot *snapshot = snapshot_begin(s);
    struct batch out;

    if (snapshot == NULL)
        die("no snapshot");
    begun = cpu() - from;
    printf("a SET beside it, the first one of a key: %.0f ns,", set_some(s, keys, 2));
    printf(" the second one: %.0f ns\n", set_some(s, keys, 3));
    batch_init(&out);
    while (state == SNAPSHOT_GOES_ON) {
        double took;

        from = cpu();
        state = snapshot_write(snapshot, SLICE, &out);
        took = cpu() - from;
        total += took;
        longest = took > longest ? took : longest;
        log_add(l, batch_bytes(&out));
    }
    from = cpu();
    snapshot_end(snapshot);
    printf("snapshot: begins in %.3f ms, %zu slices of 64 KiB, the longest %.3f ms, %.3f s in all, "
           "%zu bytes, ends in %.3f ms\n",
           begun * 1e3, l->count, longest * 1e3, total, l->len, (cpu() - from) * 1e3);
    if (state != SNAPSHOT_DONE)
        die("the snapshot has failed");
    batch_fini(&out);
}

static void load_snapshot(const struct log *l)
{
    struct store s;
    double from = cpu();

    store_init(&s, &(struct store_options){.seed = 2});
    for (size_t i = 0; i < l->count; i++) {
        if (!snapshot_load(&s, log_at(l, i)))
            die("the snapshot is none");
    }
    if (!snapshot_is_loaded(&s))
        die("the snapshot is not whole");
    printf("loaded in %.3f s\n", cpu() - from);
    store_fini(&s);
}

static void apply(struct store *s, struct space *space, struct slice bytes)
{
    struct record_batch batch;

    if (!record_decode(bytes, &batch))
        die("a batch is none");
    for (size_t i = 0; i < batch.count; i++) {
        struct store_result out = {0};

        if (!store_can_apply(s, space, &batch.records[i].change))
            die("a change is refused");
        store_apply(s, space, &batch.records[i].change, &out);
    }
    record_free(&batch);
}

static void replay(const struct log *l)
{
    struct space *space;
    struct store s;
    double from;

    open_store(&s, 3);
    space = store_space(&s, slice_str("default"));
    from = cpu();
    for (size_t i = 0; i < l->count; i++)
        apply(&s, space, log_at(l, i));
    printf("%zu batches replayed in %.3f s\n", l->count, cpu() - from);
    store_fini(&s);
}

int main(int argc, char **argv)
{
    size_t keys = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    struct log journal = {0}, snapshot = {0};
    struct batch batch;
    struct store s;

    in_tree = argc > 2 && strcmp(argv[2], "tree") == 0;
    batch_init(&batch);
    open_store(&s, 1);
    for (size_t i = 0; i < keys; i++) {
        batch_begin(&batch, i + 1);
        set(&s, i, (uint8_t)i, &batch);
        batch_end(&batch, 1);
        log_add(&journal, batch_bytes(&batch));
    }
    printf("%zu keys of %d bytes; a SET: %.0f ns\n", keys, VALUE, set_some(&s, keys, 1));
    write_snapshot(&s, keys, &snapshot);
    store_fini(&s);
    load_snapshot(&snapshot);
    replay(&journal);
    batch_fini(&batch);
    free(journal.bytes);
    free(journal.ends);
    free(snapshot.bytes);
    free(snapshot.ends);
    return 0;
}
