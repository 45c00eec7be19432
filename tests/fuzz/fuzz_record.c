/* Batches of changes. If a batch can be decoded, encoding it again gives an equal batch. If a store
 * accepts a batch, a replica of this store accepts it, too. Batches that are loaded as a snapshot
 * give a valid store. */
#include <stdio.h>
#include <stdlib.h>

#include "store/snapshot.h"
#include "store/store.h"
#include "tests/fuzz/fuzz.h"
#include "tests/sim/dump.h"
#include "tests/support/record_batch.h"

static struct space *open_one(struct store *s, uint64_t seed)
{
    const struct store_options options = {.seed = seed};

    store_init(s, &options);
    return store_space(s, slice_str("s"));
}

static bool apply(struct store *s, struct space *space, const struct change *c)
{
    struct store_result result = {0};

    if (!store_can_apply(s, space, c))
        return false;
    store_apply(s, space, c, &result);
    blob_unref(result.value);
    return true;
}

static void check_same(struct store *a, struct store *b)
{
    char *x = dump_text(a), *y = dump_text(b);

    CHECK(strcmp(x, y) == 0);
    free(x);
    free(y);
}

/* A snapshot of one batch, or a part of one: it is taken or not. What is taken goes into a snapshot
 * again, if that has memory. */
static void load(struct slice bytes)
{
    enum snapshot_state state = SNAPSHOT_GOES_ON;
    struct snapshot *snapshot;
    struct batch out;
    struct store s;

    store_init(&s, &(struct store_options){.seed = 3});
    if (snapshot_load(&s, bytes)) {
        batch_init(&out);
        snapshot = snapshot_begin(&s);
        CHECK(snapshot != NULL);
        while (state == SNAPSHOT_GOES_ON) {
            state = snapshot_write(snapshot, 1000, &out);
            CHECK(state != SNAPSHOT_FAILED);
        }
        snapshot_end(snapshot);
        batch_fini(&out);
    }
    store_fini(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record_batch records, again;
    struct store a, b;
    struct space *in_a, *in_b;
    struct batch batch;

    if (!record_decode((struct slice){data, size}, &records))
        return 0;
    load((struct slice){data, size});
    batch_init(&batch);
    batch_begin(&batch, records.number);
    for (size_t i = 0; i < records.count; i++)
        CHECK(batch_add(&batch, "s", &records.records[i].change));
    CHECK(record_decode(batch_bytes(&batch), &again) && again.count == records.count);
    in_a = open_one(&a, 1);
    in_b = open_one(&b, 2);
    for (size_t i = 0; i < records.count; i++)
        CHECK(apply(&a, in_a, &records.records[i].change) ==
              apply(&b, in_b, &again.records[i].change));
    check_same(&a, &b);
    store_fini(&a);
    store_fini(&b);
    record_free(&again);
    record_free(&records);
    batch_fini(&batch);
    return 0;
}
