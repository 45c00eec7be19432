/* Run records. See run_record.h for the contract. */
#include "store/run_record.h"

struct slice run_record_key(const char *prefix, struct slice name, uint8_t out[RUN_RECORD_KEY_MAX])
{
    struct writer w = {.ptr = out, .cap = RUN_RECORD_KEY_MAX};

    writer_str(&w, prefix);
    writer_slice(&w, name);
    return (struct slice){out, w.len <= w.cap ? w.len : 0};
}

void run_records_init(struct run_records *r, struct reserve *reserve, uint64_t seed,
                      struct quota *quota)
{
    *r = (struct run_records){.reserve = reserve, .quota = quota};
    table_init(&r->table, ACCOUNT_RUNS, seed, reserve);
    TAILQ_INIT(&r->list);
}

void run_records_fini(struct run_records *r)
{
    run_records_clear(r, true);
    table_fini(&r->table);
}

struct run_record *run_records_find(const struct run_records *r, struct slice key)
{
    return (struct run_record *)table_find(&r->table, key); /* node is the first member */
}

bool run_records_name(const struct run_records *r, uint64_t worker_store)
{
    return ANY(TAILQ_EACH(const struct run_record, record, &r->list, order),
               record->worker_store == worker_store);
}

static size_t run_record_size(struct slice key, struct slice address)
{
    return sizeof(struct run_record) + key.len + address.len;
}

bool run_records_have_room(const struct run_records *r, const struct run_put *c)
{
    const struct run_record *old = run_records_find(r, c->key);

    return quota_has_room(r->quota, old == NULL ? 0 : run_record_size(old->node.key, old->address),
                          run_record_size(c->key, c->address));
}

size_t run_records_memory(const struct run_put *c)
{
    return reserve_cost(run_record_size(c->key, c->address));
}

static struct run_record *record_new(struct run_records *r, const struct run_put *c)
{
    struct run_record *record =
        reserve_alloc(r->reserve, ACCOUNT_RUNS, run_record_size(c->key, c->address));
    uint8_t *bytes = (uint8_t *)(record + 1);

    *record = (struct run_record){
        .node = {.key = slice_copy(bytes, c->key)},
        .placement = c->placement,
        .address = slice_copy(bytes + c->key.len, c->address),
        .port = c->port,
        .worker_store = c->worker_store,
        .round = c->round,
    };
    return record;
}

static void record_remove(struct run_records *r, struct run_record *record)
{
    quota_keep(r->quota, &r->bytes, 0, run_record_size(record->node.key, record->address));
    TAILQ_REMOVE(&r->list, record, order);
    table_remove(&r->table, &record->node);
    account_free(ACCOUNT_RUNS, record, run_record_size(record->node.key, record->address));
}

void run_records_put(struct run_records *r, const struct run_put *c)
{
    struct run_record *record = record_new(r, c), *old = run_records_find(r, c->key);

    if (old == NULL) {
        TAILQ_INSERT_TAIL(&r->list, record, order);
    } else {
        TAILQ_INSERT_AFTER(&r->list, old, record, order); /* keeps its place */
        record_remove(r, old);
    }
    table_add(&r->table, &record->node);
    quota_keep(r->quota, &r->bytes, run_record_size(c->key, c->address), 0);
}

void run_records_delete(struct run_records *r, struct slice key)
{
    record_remove(r, run_records_find(r, key));
}

void run_records_clear(struct run_records *r, bool all)
{
    TAILQ_EACH_SAFE(struct run_record, record, &r->list, order) {
        bool is_order = slice_starts_with(record->node.key, slice_str(RUN_ORDER_KEY));

        if (all || !(is_order || run_record_is_ended(record)))
            record_remove(r, record);
    }
}
