/* What a snapshot keeps before it writes it. See cow_buffer.h for the contract. */
#include "store/disk/cow_buffer.h"

/* A chunk has whole pages, its struct cow_item included, so that each chunk returns to the system
 * by itself. */
#define CHUNK_SIZE (32u << 10)
#define CHUNK_ROOM (CHUNK_SIZE - sizeof(struct cow_item))

/* A value up to this is encoded at once. */
#define SMALL_VALUE 4096u

/* A chunk of encoded changes, or one large change with its value. */
struct cow_item {
    STAILQ_ENTRY(cow_item) entry;
    struct batch batch; /* of a chunk */
    struct blob *value; /* NULL: it is a chunk */
    const char *name;
    enum change_kind kind;
    uint64_t worker_store;
    size_t key_len;
    uint8_t bytes[];
};

void cow_init(struct cow_buffer *a)
{
    *a = (struct cow_buffer){0};
    STAILQ_INIT(&a->items);
}

static bool add_chunk(struct cow_buffer *a)
{
    struct cow_item *item = account_request_pages(ACCOUNT_SNAPSHOT, CHUNK_SIZE);

    if (item == NULL)
        return false;
    *item = (struct cow_item){0};
    batch_init_fixed(&item->batch, item->bytes, CHUNK_ROOM);
    STAILQ_INSERT_TAIL(&a->items, item, entry);
    a->last = item;
    a->bytes += CHUNK_SIZE;
    return true;
}

static bool cow_put_large(struct cow_buffer *a, const char *name, const struct change *change,
                          struct blob *value, bool overwritten)
{
    struct slice key = change->put.key;
    size_t size = sizeof(struct cow_item) + key.len;
    struct cow_item *item = account_request(ACCOUNT_SNAPSHOT, ACCOUNT_ORDINARY, size);
    struct blob *kept = item == NULL  ? NULL
                        : overwritten ? blob_new(ACCOUNT_SNAPSHOT, blob_slice(value))
                                      : blob_ref(value);

    if (kept == NULL) {
        account_free(ACCOUNT_SNAPSHOT, item, size);
        return false;
    }
    *item = (struct cow_item){.value = kept,
                              .name = name,
                              .kind = change->kind,
                              .worker_store = change->worker_store,
                              .key_len = key.len};
    slice_copy(item->bytes, key);
    STAILQ_INSERT_TAIL(&a->items, item, entry);
    a->last = NULL; /* what comes later goes behind it */
    a->bytes += size + kept->len;
    return true;
}

void cow_put(struct cow_buffer *a, const char *name, const struct change *change,
             struct blob *value, bool overwritten)
{
    bool large = value != NULL && value->len + change->put.key.len > SMALL_VALUE;

    if (a->failed)
        return;
    if (large)
        a->failed = !cow_put_large(a, name, change, value, overwritten);
    else if (a->last == NULL || !batch_add(&a->last->batch, name, change))
        a->failed = !add_chunk(a) || !batch_add(&a->last->batch, name, change);
}

static bool write_item(const struct cow_item *item, struct batch *out)
{
    struct change change = {.kind = item->kind, .worker_store = item->worker_store};

    if (item->value == NULL)
        return batch_append(out, &item->batch);
    change.put =
        (struct key_put){.key = {item->bytes, item->key_len}, .value = blob_slice(item->value)};
    return batch_add(out, item->name, &change);
}

bool cow_write(struct cow_buffer *a, struct batch *out, size_t bytes)
{
    const struct cow_item *item;

    while (out->len < bytes && (item = STAILQ_FIRST(&a->items)) != NULL) {
        if (!write_item(item, out))
            return false;
        cow_free_one(a);
    }
    return true;
}

bool cow_free_one(struct cow_buffer *a)
{
    struct cow_item *item = STAILQ_FIRST(&a->items);
    size_t size;

    if (item == NULL)
        return false;
    STAILQ_REMOVE_HEAD(&a->items, entry);
    if (item == a->last)
        a->last = NULL;
    if (item->value == NULL) {
        a->bytes -= CHUNK_SIZE;
        account_free_pages(ACCOUNT_SNAPSHOT, item, CHUNK_SIZE);
        return true;
    }
    size = sizeof *item + item->key_len;
    a->bytes -= size + item->value->len;
    blob_unref(item->value);
    account_free(ACCOUNT_SNAPSHOT, item, size);
    return true;
}
