/* Runs the rules on the files of a bundle, and sorts the findings by file and position. */
#include "deploy/check/check.h"
#include "deploy/kube/kube_view.h"

#include <stdlib.h>

static int by_place(const void *a, const void *b)
{
    const struct check_finding *x = a, *y = b;

    if (x->file_index != y->file_index)
        return x->file_index < y->file_index ? -1 : 1;
    if (x->mark.offset != y->mark.offset)
        return x->mark.offset < y->mark.offset ? -1 : 1;
    return (x->rule > y->rule) - (x->rule < y->rule);
}

bool check_bundle(struct check *c, const bool *wanted)
{
    for (size_t i = 0; i < c->file_count; i++)
        kube_add_file(&c->bundle, &c->files[i]);
    if (c->bundle.overflow)
        return false;
    c->made_count = kube_drop_made(&c->bundle);
    kube_find_pods(&c->bundle);
    job_find(&c->jobs, &c->bundle);
    for (size_t i = 0; i < check_rule_count; i++) {
        c->rule = &check_rules[i];
        if (wanted == NULL || wanted[i])
            check_rules[i].run(c);
    }
    if (c->count > 0)
        qsort(c->findings, c->count, sizeof *c->findings, by_place);
    return true;
}
