/* Queues of the c10d world (torch 2.8 on). See keymap.h for the contract. */
#include "store/keymap_entry.h"
#include "store/xalloc.h"

struct queue *keymap_find_queue(const struct keymap *m, struct slice name)
{
    return (struct queue *)table_find(&m->queues, name);
}

uint64_t keymap_queue_len(const struct keymap *m, struct slice name)
{
    const struct queue *q = keymap_find_queue(m, name);

    return q == NULL ? 0 : q->len;
}

static struct queue *queue_need(struct keymap *m, struct slice name)
{
    struct queue *q = keymap_find_queue(m, name);
    uint8_t *copy;

    if (q != NULL)
        return q;
    q = malloc(sizeof *q + name.len);
    if (q == NULL)
        return NULL;
    copy = (uint8_t *)(q + 1);
    *q = (struct queue){.node = {.key = {copy, name.len}}};
    if (name.len != 0)
        memcpy(copy, name.ptr, name.len);
    STAILQ_INIT(&q->elements);
    table_add(&m->queues, &q->node);
    TAILQ_INSERT_TAIL(&m->queue_order, q, order);
    m->bytes += ENTRY_COST + name.len;
    return q;
}

enum store_status keymap_queue_push(struct keymap *m, struct slice name, struct slice value)
{
    struct element *element;
    struct queue *q;

    if (keymap_too_much(m, ENTRY_COST + name.len + ELEMENT_COST + value.len))
        return STORE_FULL;
    element = xcalloc(1, sizeof *element);
    element->value = blob_new(value);
    q = element->value == NULL ? NULL : queue_need(m, name);
    if (q == NULL) {
        blob_unref(element->value);
        free(element);
        return STORE_NO_MEMORY;
    }
    STAILQ_INSERT_TAIL(&q->elements, element, entry);
    q->len++;
    m->bytes += ELEMENT_COST + value.len;
    keymap_wake_one(m, name);
    return STORE_OK;
}

struct blob *keymap_take(struct keymap *m, struct queue *q)
{
    struct element *element = STAILQ_FIRST(&q->elements);
    struct blob *value = element->value;

    STAILQ_REMOVE_HEAD(&q->elements, entry);
    free(element);
    m->bytes -= ELEMENT_COST + value->len;
    if (--q->len == 0) {
        m->bytes -= ENTRY_COST + q->node.key.len;
        TAILQ_REMOVE(&m->queue_order, q, order);
        table_remove(&m->queues, &q->node);
        free(q);
    }
    return value;
}

enum store_status keymap_queue_pop(struct keymap *m, struct slice name, struct blob **out,
                                   uint64_t *len)
{
    struct queue *q = keymap_find_queue(m, name);

    if (q == NULL)
        return STORE_ABSENT;
    *len = q->len;
    *out = keymap_take(m, q);
    return STORE_OK;
}
