/* A directory on a simulated disk. See sim_disk.h for what it may do. */
#include "tests/support/sim_disk.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/disk/crc32c.h"
#include "store/memory/xalloc.h"

#define SECTOR    512u
#define NAMES_MAX 256
#define FILES_MAX 64
#define OPS_MAX   1024
#define NAME_SIZE 64

struct content {
    uint8_t *bytes;
    size_t len, cap;
};

struct inode {
    struct content now, stable;
    uint8_t *dirty; /* per sector of `now`: written since the last successful sync */
    size_t dirty_cap;
    bool used;
};

struct entry {
    char name[NAME_SIZE];
    int inode; /* -1: removed */
};

struct names {
    struct entry items[NAMES_MAX];
    size_t count;
};

/* name := inode, and `from` goes if it is not empty: one step. */
struct op {
    char name[NAME_SIZE], from[NAME_SIZE];
    int inode;
};

struct sim_disk {
    struct fs fs;
    uint64_t random;
    struct inode inodes[NAMES_MAX];
    struct names now, stable;
    struct op ops[OPS_MAX];
    size_t op_count;
    int files[FILES_MAX]; /* inodes; -1: closed */
    int lock;             /* its file; -1: free */

    uint64_t calls, fail_at, fail_calls, limit;
    bool has_quota;
    enum sim_fault fault;
    bool dead, sync_failed;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool held;
    unsigned waiting;
};

static struct sim_disk *disk_of(struct fs *fs)
{
    return (struct sim_disk *)(void *)fs;
}

static uint64_t draw(struct sim_disk *d, uint64_t below)
{
    d->random ^= d->random << 13;
    d->random ^= d->random >> 7;
    d->random ^= d->random << 17;
    return below == 0 ? 0 : (d->random * UINT64_C(0x2545f4914f6cdd1d) >> 16) % below;
}

/* --- Contents. --- */

static void resize(struct content *c, size_t len)
{
    if (len > c->cap) {
        c->cap = len * 2;
        c->bytes = xrealloc(c->bytes, c->cap);
    }
    if (len > c->len)
        memset(c->bytes + c->len, 0, len - c->len);
    c->len = len;
}

static void make_dirty(struct inode *i, size_t from, size_t to)
{
    size_t sectors = to / SECTOR + 1;

    if (sectors > i->dirty_cap) {
        i->dirty = xrealloc(i->dirty, sectors * 2);
        memset(i->dirty + i->dirty_cap, 0, sectors * 2 - i->dirty_cap);
        i->dirty_cap = sectors * 2;
    }
    for (size_t s = from / SECTOR; from < to && s <= (to - 1) / SECTOR; s++)
        i->dirty[s] = 1;
}

static void store_sector(struct inode *i, size_t s)
{
    size_t from = s * SECTOR, to = from + SECTOR < i->now.len ? from + SECTOR : i->now.len;

    if (to > i->stable.len)
        resize(&i->stable, to);
    memcpy(i->stable.bytes + from, i->now.bytes + from, to - from);
    i->dirty[s] = 0;
}

static void sync_inode(struct inode *i)
{
    for (size_t s = 0; s * SECTOR < i->now.len && s < i->dirty_cap; s++) {
        if (i->dirty[s])
            store_sector(i, s);
    }
    resize(&i->stable, i->now.len);
}

/* Some sectors are written, all count as written; the size stays for a later one. */
static void fail_sync(struct sim_disk *d, struct inode *i)
{
    for (size_t s = 0; s * SECTOR < i->now.len && s < i->dirty_cap; s++) {
        if (i->dirty[s] && draw(d, 2) == 0)
            store_sector(i, s);
        i->dirty[s] = 0;
    }
    d->sync_failed = true;
}

/* --- Names. --- */

static struct entry *find(struct names *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++) {
        if (strcmp(n->items[i].name, name) == 0)
            return &n->items[i];
    }
    return NULL;
}

static int inode_of(struct sim_disk *d, const char *name)
{
    const struct entry *e = find(&d->now, name);

    return e == NULL ? -1 : e->inode;
}

static void set_name(struct names *n, const char *name, int inode)
{
    struct entry *e = find(n, name);

    if (e == NULL) {
        assert(n->count < NAMES_MAX);
        e = &n->items[n->count++];
        assert(strlen(name) < NAME_SIZE);
        strcpy(e->name, name);
    }
    e->inode = inode;
    if (inode < 0)
        *e = n->items[--n->count];
}

static void apply(struct names *n, const struct op *op)
{
    set_name(n, op->name, op->inode);
    if (op->from[0] != '\0' && find(n, op->from) != NULL)
        set_name(n, op->from, -1);
}

static void change_names(struct sim_disk *d, const char *name, const char *from, int inode)
{
    struct op *op = &d->ops[d->op_count++];

    assert(d->op_count < OPS_MAX);
    *op = (struct op){.inode = inode};
    strcpy(op->name, name);
    strcpy(op->from, from);
    apply(&d->now, op);
}

/* Forgets inodes that have no name any more. Nothing is open. */
static void collect(struct sim_disk *d)
{
    for (int i = 0; i < NAMES_MAX; i++) {
        struct inode *node = &d->inodes[i];
        bool named = false;

        for (size_t k = 0; k < d->now.count; k++)
            named = named || d->now.items[k].inode == i;
        for (size_t k = 0; k < d->stable.count; k++)
            named = named || d->stable.items[k].inode == i;
        for (size_t k = 0; k < d->op_count; k++)
            named = named || d->ops[k].inode == i;
        if (named || !node->used)
            continue;
        free(node->now.bytes);
        free(node->stable.bytes);
        free(node->dirty);
        *node = (struct inode){0};
    }
}

static int new_inode(struct sim_disk *d)
{
    for (int i = 0; i < NAMES_MAX; i++) {
        if (!d->inodes[i].used) {
            d->inodes[i].used = true;
            return i;
        }
    }
    fprintf(stderr, "sim_disk: more than %d files\n", NAMES_MAX);
    abort();
}

/* --- Faults. --- */

/* Counts the call. What is to become of it; SIM_DIE is for the caller to do a part of. */
static enum sim_fault begin_call(struct sim_disk *d)
{
    d->calls++;
    if (d->fault == SIM_NONE || d->calls < d->fail_at || d->calls - d->fail_at >= d->fail_calls)
        return SIM_NONE;
    if (d->fault == SIM_DIE)
        d->dead = true;
    return d->fault;
}

/* Begins an atomic call. 0: the caller must carry it out. The process may die before or after the
 * call. */
static int begin_step(struct sim_disk *d)
{
    enum sim_fault fault;

    if (d->dead)
        return -EIO;
    fault = begin_call(d);
    if (fault == SIM_DIE)
        return draw(d, 2) == 0 ? 0 : -EIO;
    return fault == SIM_EIO ? -EIO : 0;
}

#define LOCKED(d, type, expression)    \
    type result;                       \
                                       \
    pthread_mutex_lock(&(d)->mutex);   \
    result = (expression);             \
    pthread_mutex_unlock(&(d)->mutex); \
    return result

/* --- The functions. --- */

static int new_file(struct sim_disk *d, int inode)
{
    for (int i = 0; i < FILES_MAX; i++) {
        if (d->files[i] < 0) {
            d->files[i] = inode;
            return i;
        }
    }
    return -EMFILE;
}

static int open_locked(struct sim_disk *d, const char *name, enum fs_mode mode)
{
    int error = begin_step(d), inode = inode_of(d, name);

    if (error != 0)
        return error;
    if (inode < 0 && mode == FS_READ)
        return -ENOENT;
    if (inode < 0) {
        inode = new_inode(d);
        change_names(d, name, "", inode);
    } else if (mode == FS_CREATE) {
        d->inodes[inode].now.len = 0;
    }
    return new_file(d, inode);
}

static int sim_open(struct fs *fs, const char *name, enum fs_mode mode)
{
    LOCKED(disk_of(fs), int, open_locked(disk_of(fs), name, mode));
}

static ssize_t read_locked(struct sim_disk *d, int file, uint64_t at, void *to, size_t len)
{
    const struct content *c = &d->inodes[d->files[file]].now;
    int error = begin_step(d);

    if (error != 0)
        return error;
    if (at >= c->len)
        return 0;
    if (len > c->len - at)
        len = (size_t)(c->len - at);
    memcpy(to, c->bytes + at, len);
    return (ssize_t)len;
}

static ssize_t sim_read(struct fs *fs, int file, uint64_t at, void *to, size_t len)
{
    LOCKED(disk_of(fs), ssize_t, read_locked(disk_of(fs), file, at, to, len));
}

static uint64_t bytes_in_use(const struct sim_disk *d)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < d->now.count; i++)
        sum += d->inodes[d->now.items[i].inode].now.len;
    return sum;
}

/* How much of a write of `len` bytes is done. */
static size_t part_of(struct sim_disk *d, const struct inode *i, enum sim_fault fault, uint64_t at,
                      size_t len)
{
    uint64_t used = bytes_in_use(d), room = used < d->limit ? d->limit - used : 0;
    uint64_t grows = at + len > i->now.len ? at + len - i->now.len : 0;

    if (fault != SIM_NONE)
        return (size_t)draw(d, len);
    return grows > room ? (size_t)(len - (grows - room < len ? grows - room : len)) : len;
}

static ssize_t write_locked(struct sim_disk *d, int file, uint64_t at, const struct slice *parts,
                            size_t count)
{
    struct inode *i = &d->inodes[d->files[file]];
    bool dead = d->dead;
    enum sim_fault fault = dead ? SIM_NONE : begin_call(d);
    size_t len = 0, done, left;

    if (dead)
        return -EIO;
    for (size_t k = 0; k < count; k++)
        len += parts[k].len;
    left = done = part_of(d, i, fault, at, len);
    if (at + done > i->now.len)
        resize(&i->now, (size_t)(at + done));
    make_dirty(i, (size_t)at, (size_t)(at + done));
    for (size_t k = 0; k < count && left > 0; k++) {
        size_t n = parts[k].len < left ? parts[k].len : left;

        memcpy(i->now.bytes + at, parts[k].ptr, n);
        at += n;
        left -= n;
    }
    if (fault == SIM_DIE || fault == SIM_EIO)
        return -EIO;
    return done > 0 || len == 0 ? (ssize_t)done : d->has_quota ? -EDQUOT : -ENOSPC;
}

static ssize_t sim_write(struct fs *fs, int file, uint64_t at, const struct slice *parts,
                         size_t count)
{
    LOCKED(disk_of(fs), ssize_t, write_locked(disk_of(fs), file, at, parts, count));
}

static int64_t size_locked(struct sim_disk *d, int file)
{
    int error = begin_step(d);

    return error != 0 ? error : (int64_t)d->inodes[d->files[file]].now.len;
}

static int64_t sim_size(struct fs *fs, int file)
{
    LOCKED(disk_of(fs), int64_t, size_locked(disk_of(fs), file));
}

static int sync_locked(struct sim_disk *d, int file)
{
    struct inode *i = &d->inodes[d->files[file]];
    int error;

    d->waiting++;
    pthread_cond_broadcast(&d->changed);
    while (d->held)
        pthread_cond_wait(&d->changed, &d->mutex);
    d->waiting--;
    error = begin_step(d);
    if (error == 0)
        sync_inode(i);
    else if (!d->dead)
        fail_sync(d, i);
    return error;
}

static int sim_sync(struct fs *fs, int file)
{
    LOCKED(disk_of(fs), int, sync_locked(disk_of(fs), file));
}

static int truncate_locked(struct sim_disk *d, int file, uint64_t size)
{
    struct inode *i = &d->inodes[d->files[file]];
    int error = begin_step(d);

    if (error != 0)
        return error;
    make_dirty(i, (size_t)size, size > i->now.len ? (size_t)size : i->now.len);
    resize(&i->now, (size_t)size);
    return 0;
}

static int sim_truncate(struct fs *fs, int file, uint64_t size)
{
    LOCKED(disk_of(fs), int, truncate_locked(disk_of(fs), file, size));
}

static int close_locked(struct sim_disk *d, int file)
{
    int error = begin_step(d);

    assert(d->dead || d->files[file] >= 0); /* closed twice */
    d->files[file] = -1;
    if (d->lock == file)
        d->lock = -1;
    return error;
}

static int sim_close(struct fs *fs, int file)
{
    LOCKED(disk_of(fs), int, close_locked(disk_of(fs), file));
}

static int rename_locked(struct sim_disk *d, const char *from, const char *to)
{
    int error = begin_step(d), inode = inode_of(d, from);

    if (error == 0 && inode < 0)
        return -ENOENT;
    if (error == 0)
        change_names(d, to, from, inode);
    return error;
}

static int sim_rename(struct fs *fs, const char *from, const char *to)
{
    LOCKED(disk_of(fs), int, rename_locked(disk_of(fs), from, to));
}

static int remove_locked(struct sim_disk *d, const char *name)
{
    int error = begin_step(d);

    if (error == 0 && inode_of(d, name) < 0)
        return -ENOENT;
    if (error == 0)
        change_names(d, name, "", -1);
    return error;
}

static int sim_remove(struct fs *fs, const char *name)
{
    LOCKED(disk_of(fs), int, remove_locked(disk_of(fs), name));
}

static int sync_dir_locked(struct sim_disk *d)
{
    int error = begin_step(d);

    if (error != 0)
        return error;
    d->stable = d->now;
    d->op_count = 0;
    return 0;
}

static int sim_sync_dir(struct fs *fs)
{
    LOCKED(disk_of(fs), int, sync_dir_locked(disk_of(fs)));
}

static int list_locked(struct sim_disk *d, void (*each)(void *arg, const char *name), void *arg)
{
    int error = begin_step(d);

    for (size_t i = 0; error == 0 && i < d->now.count; i++)
        each(arg, d->now.items[i].name);
    return error;
}

static int sim_list(struct fs *fs, void (*each)(void *arg, const char *name), void *arg)
{
    LOCKED(disk_of(fs), int, list_locked(disk_of(fs), each, arg));
}

static int lock_locked(struct sim_disk *d, const char *name)
{
    int file;

    if (d->lock >= 0)
        return -EWOULDBLOCK;
    file = open_locked(d, name, inode_of(d, name) < 0 ? FS_CREATE : FS_READ);
    if (file >= 0)
        d->lock = file;
    return file;
}

static int sim_lock(struct fs *fs, const char *name)
{
    LOCKED(disk_of(fs), int, lock_locked(disk_of(fs), name));
}

static void sim_free(struct fs *fs)
{
    (void)fs;
}

/* --- The disk. --- */

struct sim_disk *sim_disk_new(uint64_t seed)
{
    struct sim_disk *d = xcalloc(1, sizeof *d);

    d->fs = (struct fs){sim_open,     sim_read,  sim_write,  sim_size,   sim_sync,
                        sim_truncate, sim_close, sim_rename, sim_remove, sim_sync_dir,
                        sim_list,     sim_lock,  sim_free};
    d->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    d->limit = UINT64_MAX;
    d->lock = -1;
    for (int i = 0; i < FILES_MAX; i++)
        d->files[i] = -1;
    pthread_mutex_init(&d->mutex, NULL);
    pthread_cond_init(&d->changed, NULL);
    return d;
}

void sim_disk_free(struct sim_disk *d)
{
    d->now.count = d->stable.count = d->op_count = 0;
    collect(d);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->mutex);
    free(d);
}

struct fs *sim_disk_fs(struct sim_disk *d)
{
    return &d->fs;
}

void sim_disk_fail(struct sim_disk *d, enum sim_fault fault, uint64_t at, uint64_t calls)
{
    pthread_mutex_lock(&d->mutex);
    d->fault = fault;
    d->fail_at = at;
    d->fail_calls = calls;
    d->calls = 0;
    pthread_mutex_unlock(&d->mutex);
}

uint64_t sim_disk_calls(const struct sim_disk *d)
{
    return d->calls;
}

bool sim_disk_is_dead(struct sim_disk *d)
{
    LOCKED(d, bool, d->dead);
}

bool sim_disk_sync_failed(struct sim_disk *d)
{
    LOCKED(d, bool, d->sync_failed);
}

uint64_t sim_disk_used(struct sim_disk *d)
{
    LOCKED(d, uint64_t, bytes_in_use(d));
}

void sim_disk_limit(struct sim_disk *d, uint64_t bytes)
{
    pthread_mutex_lock(&d->mutex);
    d->limit = bytes;
    pthread_mutex_unlock(&d->mutex);
}

void sim_disk_has_quota(struct sim_disk *d)
{
    pthread_mutex_lock(&d->mutex);
    d->has_quota = true;
    pthread_mutex_unlock(&d->mutex);
}

void sim_disk_hold_syncs(struct sim_disk *d, bool held)
{
    pthread_mutex_lock(&d->mutex);
    d->held = held;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
}

void sim_disk_await_sync(struct sim_disk *d)
{
    pthread_mutex_lock(&d->mutex);
    while (d->waiting == 0)
        pthread_cond_wait(&d->changed, &d->mutex);
    pthread_mutex_unlock(&d->mutex);
}

/* --- The end of a process, and of power. --- */

static void end_process(struct sim_disk *d)
{
    for (int i = 0; i < FILES_MAX; i++)
        d->files[i] = -1;
    d->lock = -1;
    d->dead = d->sync_failed = false;
    d->fault = SIM_NONE;
}

/* After a failed sync, the system may drop pages that it takes for written. */
static void drop_clean_pages(struct sim_disk *d, struct inode *i)
{
    for (size_t s = 0; s * SECTOR < i->now.len; s++) {
        size_t from = s * SECTOR, len = i->now.len - from < SECTOR ? i->now.len - from : SECTOR;
        size_t there = i->stable.len > from ? i->stable.len - from : 0;

        if ((s < i->dirty_cap && i->dirty[s]) || draw(d, 2) == 0)
            continue;
        if (there > len)
            there = len;
        if (there > 0)
            memcpy(i->now.bytes + from, i->stable.bytes + from, there);
        memset(i->now.bytes + from + there, 0, len - there);
    }
}

void sim_disk_kill(struct sim_disk *d)
{
    bool drop = d->sync_failed;

    end_process(d);
    for (int i = 0; drop && i < NAMES_MAX; i++) {
        if (d->inodes[i].used)
            drop_clean_pages(d, &d->inodes[i]);
    }
    collect(d);
}

/* Decides the disk's content of an unsynced sector: new, old or torn. */
static void tear(struct sim_disk *d, struct inode *i, size_t s, uint64_t kept_of_8)
{
    size_t from = s * SECTOR, end = i->now.len < i->stable.len ? i->now.len : i->stable.len;
    size_t to = from + SECTOR < end ? from + SECTOR : end, n;

    if (from >= end)
        return;
    n = to - from;
    if (draw(d, 8) < kept_of_8)
        memcpy(i->stable.bytes + from, i->now.bytes + from, n);
    else if (draw(d, 4) == 0)
        memcpy(i->stable.bytes + from, i->now.bytes + from, (size_t)draw(d, n));
}

static void cut_inode(struct sim_disk *d, struct inode *i, uint64_t kept_of_8)
{
    size_t a = i->stable.len, b = i->now.len;

    switch (draw(d, 4)) {
    case 0:
        break;
    case 1:
        resize(&i->stable, (size_t)(a < b ? a + draw(d, b - a + 1) : b + draw(d, a - b + 1)));
        break;
    default:
        resize(&i->stable, b);
        break;
    }
    for (size_t s = 0; s < i->dirty_cap && s * SECTOR < b; s++) {
        if (i->dirty[s])
            tear(d, i, s, kept_of_8);
        i->dirty[s] = 0;
    }
    resize(&i->now, i->stable.len);
    if (i->stable.len > 0)
        memcpy(i->now.bytes, i->stable.bytes, i->stable.len);
}

void sim_disk_cut_power(struct sim_disk *d)
{
    static const uint64_t rates[] = {0, 2, 4, 6, 7, 8};
    uint64_t kept_of_8 = rates[draw(d, 6)], names_of_8 = rates[draw(d, 6)];

    end_process(d);
    for (int i = 0; i < NAMES_MAX; i++) {
        if (d->inodes[i].used)
            cut_inode(d, &d->inodes[i], kept_of_8);
    }
    for (size_t i = 0; i < d->op_count; i++) {
        if (draw(d, 8) < names_of_8)
            apply(&d->stable, &d->ops[i]);
    }
    d->op_count = 0;
    d->now = d->stable;
    collect(d);
}

/* --- Looking and damaging. --- */

int64_t sim_disk_size(struct sim_disk *d, const char *name)
{
    LOCKED(d, int64_t, inode_of(d, name) < 0 ? -1 : (int64_t)d->inodes[inode_of(d, name)].now.len);
}

uint8_t *sim_disk_bytes(struct sim_disk *d, const char *name, size_t *len)
{
    int inode = inode_of(d, name);

    if (inode < 0)
        return NULL;
    *len = d->inodes[inode].now.len;
    return d->inodes[inode].now.bytes;
}

void sim_disk_put(struct sim_disk *d, const char *name, const void *bytes, size_t len)
{
    int inode;

    set_name(&d->now, name, -1);
    set_name(&d->stable, name, -1);
    if (bytes == NULL)
        return;
    inode = new_inode(d);
    resize(&d->inodes[inode].now, len);
    if (len > 0)
        memcpy(d->inodes[inode].now.bytes, bytes, len);
    make_dirty(&d->inodes[inode], 0, len);
    sync_inode(&d->inodes[inode]);
    set_name(&d->now, name, inode);
    set_name(&d->stable, name, inode);
}

struct sim_disk *sim_disk_copy(const struct sim_disk *d, uint64_t seed)
{
    struct sim_disk *copy = sim_disk_new(seed);

    for (size_t i = 0; i < d->now.count; i++) {
        const struct content *c = &d->inodes[d->now.items[i].inode].now;

        sim_disk_put(copy, d->now.items[i].name, c->bytes == NULL ? (const void *)"" : c->bytes,
                     c->len);
    }
    return copy;
}

/* In any order of names. */
uint64_t sim_disk_sum(const struct sim_disk *d)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < d->now.count; i++) {
        const struct entry *e = &d->now.items[i];
        const struct content *c = &d->inodes[e->inode].now;
        uint64_t name = crc32c(1, e->name, strlen(e->name));

        if (strcmp(e->name, "lock") != 0)
            sum += (name << 32 | crc32c((uint32_t)name, c->bytes, c->len)) *
                   UINT64_C(0x9e3779b97f4a7c15);
    }
    return sum;
}
