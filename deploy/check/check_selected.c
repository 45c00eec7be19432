/* Selections by the text of their selector. */
#include "deploy/check/check_selected.h"

#include <string.h>

static void add_pods(struct check *c, struct check_selected *s, size_t *cap,
                     const struct kube_pods *p)
{
    if (s->count == *cap) {
        size_t more = *cap == 0 ? 4 : *cap * 2;

        s->list = arena_grow(&c->bundle.arena, s->list, s->count * sizeof(const struct kube_pods *),
                             more * sizeof(const struct kube_pods *));
        *cap = more;
    }
    s->list[s->count++] = p;
    s->on_host += p->host_network;
}

struct check_selected *check_selected(struct check *c, const struct kube_object *o,
                                      const struct yaml_node *selector)
{
    const char *text = kube_print(&c->bundle.arena, selector);
    struct kube_hits hits = kube_index_find(&c->selectors, o->namespace, text, strlen(text));
    struct check_selected *s;
    const struct kube_pods *p = NULL;
    size_t cap = 0;

    if (hits.count > 0)
        return c->selected[hits.list[0]];
    if (c->selected_count == c->selected_cap) {
        size_t more = c->selected_cap == 0 ? 16 : c->selected_cap * 2;

        c->selected = arena_grow(&c->bundle.arena, c->selected,
                                 c->selected_count * sizeof(struct check_selected *),
                                 more * sizeof(struct check_selected *));
        c->selected_cap = more;
    }
    s = arena_alloc(&c->bundle.arena, sizeof *s);
    s->index = c->selected_count;
    while ((p = kube_next_selected_by(&c->bundle, o, selector, p)) != NULL)
        add_pods(c, s, &cap, p);
    kube_index_add(&c->bundle.arena, &c->selectors, o->namespace, text, s->index);
    c->selected[c->selected_count++] = s;
    return s;
}
