/* The c10d queues of a space (torch 2.8 on). See keymap.h for the contract. */
#include "store/keymap/keymap_entry.h"
#include "store/keymap/keymap_moment.h"

struct queue *keymap_find_queue(const struct keymap *m, struct slice name)
{
    return (struct queue *)table_find(&m->queues, name);
}

uint64_t keymap_queue_len(const struct keymap *m, struct slice name)
{
    const struct queue *q = keymap_find_queue(m, name);

    return q == NULL ? 0 : q->len;
}

static struct queue *queue_get_or_create(struct keymap *m, struct slice name)
{
    struct queue *q = keymap_find_queue(m, name);

    if (q != NULL)
        return q;
    q = reserve_alloc(m->reserve, m->kind, sizeof *q + name.len);
    *q = (struct queue){.node = {.key = slice_copy(q + 1, name)}, .number = m->pushes};
    STAILQ_INIT(&q->elements);
    table_add(&m->queues, &q->node);
    TAILQ_INSERT_TAIL(&m->queue_order, q, order);
    keymap_keep_bytes(m, ENTRY_COST + name.len, 0);
    return q;
}

size_t keymap_push_memory(const struct key_put *c)
{
    return reserve_cost(sizeof(struct queue) + c->key.len) + reserve_cost(sizeof(struct element)) +
           reserve_blob_cost(c->value.len);
}

void keymap_push(struct keymap *m, const struct key_put *c)
{
    struct element *element = reserve_alloc(m->reserve, m->kind, sizeof *element);
    struct queue *q;

    element->number = ++m->pushes;
    q = queue_get_or_create(m, c->key);
    element->value = reserve_blob(m->reserve, m->kind, c->value);
    STAILQ_INSERT_TAIL(&q->elements, element, entry);
    q->len++;
    keymap_keep_bytes(m, ELEMENT_COST + c->value.len, 0);
    keymap_wake_one(m, c->key);
}

struct blob *keymap_pop(struct keymap *m, struct queue *q)
{
    struct element *element = STAILQ_FIRST(&q->elements);
    struct blob *value = element->value;

    if (m->moment != NULL)
        keymap_moment_pops(m->moment, q);
    STAILQ_REMOVE_HEAD(&q->elements, entry);
    account_free(m->kind, element, sizeof *element);
    keymap_keep_bytes(m, 0, ELEMENT_COST + value->len);
    if (--q->len == 0) {
        m->wait_epoch++;
        keymap_keep_bytes(m, 0, ENTRY_COST + q->node.key.len);
        TAILQ_REMOVE(&m->queue_order, q, order);
        table_remove(&m->queues, &q->node);
        account_free(m->kind, q, sizeof *q + q->node.key.len);
    }
    return value;
}
