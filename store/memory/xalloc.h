/* Memory of our own fixed sizes. When the kernel has no room for a hundred bytes, no answer is
 * possible either, so these abort; journalled changes are safe. Memory whose size a peer chose goes
 * through malloc() or blob_alloc(), is checked, and is answered. */
#pragma once

#include <stdlib.h>

static inline void *xcalloc(size_t count, size_t size)
{
    void *p = calloc(count, size);

    if (p == NULL)
        abort();
    return p;
}

static inline void *xrealloc(void *old, size_t size)
{
    void *p = realloc(old, size);

    if (p == NULL)
        abort();
    return p;
}
