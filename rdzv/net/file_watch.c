/* Files that change. See file_watch.h for the contract. */
#include "rdzv/net/file_watch.h"

#include <string.h>
#include <sys/stat.h>

/* Zero: it is not there. */
static struct file_state state_of(const char *path)
{
    struct stat st;

    if (path == NULL || stat(path, &st) < 0)
        return (struct file_state){0};
    return (struct file_state){.device = (uint64_t)st.st_dev,
                               .inode = (uint64_t)st.st_ino,
                               .size = (uint64_t)st.st_size,
                               .changed_ns = (uint64_t)st.st_ctim.tv_sec * 1000000000u +
                                             (uint64_t)st.st_ctim.tv_nsec};
}

static void look(const struct file_watch *w, struct file_state out[FILE_WATCH_MAX])
{
    for (size_t i = 0; i < FILE_WATCH_MAX; i++)
        out[i] = state_of(w->paths[i]);
}

void file_watch_begin(struct file_watch *w, const char *const paths[FILE_WATCH_MAX])
{
    memcpy(w->paths, paths, sizeof w->paths);
    look(w, w->known);
    memcpy(w->seen, w->known, sizeof w->seen);
}

bool file_watch_poll(struct file_watch *w)
{
    struct file_state now[FILE_WATCH_MAX];
    bool settled, changed;

    look(w, now);
    settled = memcmp(now, w->seen, sizeof now) == 0;
    changed = memcmp(now, w->known, sizeof now) != 0;
    memcpy(w->seen, now, sizeof now);
    if (!settled || !changed)
        return false;
    memcpy(w->known, now, sizeof now);
    return true;
}
