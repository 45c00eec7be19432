/* Finds numbers by a pair of texts, in the order in which they were added. */
#pragma once

#include "deploy/yaml/arena.h"

#include <stddef.h>

struct kube_index_entry;

struct kube_index {
    struct kube_index_entry **buckets;
    size_t bucket_count, count;
};

/* What was added to one pair, in that order; it moves when more is added to the pair. */
struct kube_hits {
    const size_t *list;
    size_t count;
};

/* The texts are copied. */
void kube_index_add(struct arena *a, struct kube_index *i, const char *scope, const char *name,
                    size_t value);
struct kube_hits kube_index_find(const struct kube_index *i, const char *scope, const char *name,
                                 size_t name_len);
