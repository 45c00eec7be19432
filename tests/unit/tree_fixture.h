/* Commands on a tree of a test's own, from the check to the end. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/tree/tree.h"

static inline void tree_execute(struct tree *t, const struct command *c, struct tree_result *out)
{
    struct change change;

    *out = (struct tree_result){0};
    if (!tree_check(t, c, &change, out))
        return;
    assert_true(tree_can_apply(t, &change));
    assert_true(reserve_hold(t->reserve, tree_memory(t, &change)));
    tree_apply(t, &change, out);
    reserve_settle(t->reserve);
}

/* All that is due. Returns how many nodes went. */
static inline uint64_t tree_expire(struct tree *t, int64_t now_ns)
{
    const struct command c = {.kind = COMMAND_TREE_EXPIRE, .now_ns = now_ns};
    uint64_t count = 0;
    struct tree_result r;

    for (;; count++) {
        uint64_t before = t->index;

        tree_execute(t, &c, &r);
        if (t->index == before)
            return count;
    }
}
