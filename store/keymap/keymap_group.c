/* Keys that begin alike, found together. See keymap.h for the contract.
 *
 * The links of one group form a ring; the table holds the ring's first link, so a group needs no
 * memory of its own and joining one cannot fail. Prefixes may be long: their hashes are computed
 * when the entry is made; a request with many keys makes its entries in many slices, before all
 * keys get their values at one moment. */
#include "store/keymap/keymap_entry.h"

void keymap_name_links(const struct keymap *m, struct entry *e)
{
    size_t lengths[KEY_GROUPS_MAX];

    m->groups_of->name(entry_key(e), lengths);
    for (uint8_t i = 0; i < e->group_count; i++) {
        size_t distance = (e->group_count - i) * sizeof e->groups[i];
        uint64_t hash = table_hash(&m->groups, (struct slice){entry_key(e).ptr, lengths[i]});

        e->groups[i] = (struct key_link){
            .node = {.hash = (uint32_t)hash, .near = TABLE_NEAR(distance, lengths[i])}, .index = i};
    }
}

static void put_first(struct keymap *m, struct key_link *link)
{
    link->is_first = true;
    table_add_hashed(&m->groups, (struct table_node *)&link->node, link->node.hash);
}

static struct key_link *find_first(const struct keymap *m, const struct key_link *link)
{
    return (struct key_link *)table_find_like(&m->groups, (const struct table_node *)&link->node);
}

void keymap_add_links(struct keymap *m, struct entry *e)
{
    for (size_t i = 0; i < e->group_count; i++) {
        struct key_link *link = &e->groups[i];
        struct key_link *first = find_first(m, link);

        link->next = first == NULL ? link : first;
        link->prev = first == NULL ? link : first->prev;
        link->prev->next = link->next->prev = link;
        if (first == NULL)
            put_first(m, link);
    }
}

void keymap_remove_links(struct keymap *m, struct entry *e)
{
    for (size_t i = 0; i < e->group_count; i++) {
        struct key_link *link = &e->groups[i];

        link->prev->next = link->next;
        link->next->prev = link->prev;
        if (!link->is_first)
            continue;
        link->is_first = false;
        table_remove(&m->groups, (struct table_node *)&link->node);
        if (link->next != link)
            put_first(m, link->next);
    }
}

void keymap_walk_group(const struct keymap *m, struct slice prefix, struct key_walk *walk)
{
    walk->next = (struct key_link *)table_find(&m->groups, prefix); /* node is the first member */
    walk->last = walk->next == NULL ? NULL : walk->next->prev;
}

struct entry *keymap_walk_next(struct key_walk *walk)
{
    struct key_link *link = walk->next;

    if (link == NULL)
        return NULL;
    walk->next = link == walk->last ? NULL : link->next;
    return (struct entry *)((uint8_t *)(link - link->index) - offsetof(struct entry, groups));
}

struct entry *keymap_walk_piece(struct key_walk *walk, uint32_t number)
{
    if (walk->next != NULL && walk->next->walked == number)
        walk->next = NULL;
    if (walk->next != NULL)
        walk->next->walked = number;
    return keymap_walk_next(walk);
}

/* The ring begins where the walk goes on; what comes meanwhile gets in behind what was walked. */
void keymap_walk_pause(struct keymap *m, const struct key_walk *walk)
{
    struct key_link *link = walk->next, *first = link == NULL ? NULL : find_first(m, link);

    if (first == link)
        return;
    first->is_first = false;
    table_remove(&m->groups, (struct table_node *)&first->node);
    put_first(m, link);
}
