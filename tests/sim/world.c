/* Time, chance, memory, names and the disk of a simulated world. See world.h. */
#include "tests/sim/world.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "rdzv/engine/heap.h"
#include "rdzv/engine/journal_writer.h"
#include "rdzv/net/resolve.h"
#include "store/disk/journal.h"
#include "tests/support/sim_disk.h"
#include "tests/support/wrapped_memory.h"

int world_current = OUTSIDE;
bool world_is_over[PROCESSES];
uint64_t world_now_ns, world_step;
bool world_tells;
struct sim_disk *world_disk;

static uint64_t state;

uint64_t draw(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state * UINT64_C(0x2545f4914f6cdd1d) >> 16) % below;
}

/* --- Time and chance, as the system gives them. --- */

int __wrap_clock_gettime(clockid_t id, struct timespec *out);
int __wrap_clock_gettime(clockid_t id, struct timespec *out)
{
    /* Work takes time; now and then the processor is somebody else's. */
    world_now_ns += 200 + (chance(256) ? draw(3000000) : 0);
    out->tv_sec = (time_t)(world_now_ns / 1000000000);
    out->tv_nsec = (long)(world_now_ns % 1000000000);
    if (id == CLOCK_REALTIME)
        out->tv_sec += 1700000000;
    return 0;
}

ssize_t __wrap_getrandom(void *to, size_t len, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t len, unsigned flags)
{
    uint8_t *at = to;

    (void)flags;
    for (size_t i = 0; i < len; i++)
        at[i] = (uint8_t)draw(256);
    return (ssize_t)len;
}

/* --- Memory. --- */

bool world_may_fail;
static int failing = -1;
static bool may_fail; /* before the disk was called, which needs memory of its own */
static uint64_t fail_in, fail_calls, failed;
static size_t freed;

void memory_fail(int process, uint64_t at, uint64_t calls)
{
    failing = process;
    fail_in = at;
    fail_calls = calls;
    failed = 0;
}

uint64_t memory_failed(void)
{
    return failed;
}

/* While allocations fail, memory that was freed since the first failure is available. */
static bool has_memory(size_t len)
{
    if (!world_may_fail || world_current != failing || fail_calls == 0)
        return true;
    if (fail_in > 0) {
        fail_in--;
        freed = 0;
        return true;
    }
    if (len + 16 <= freed) {
        freed -= len + 16;
        return true;
    }
    fail_calls--;
    failed++;
    return false;
}

void *__wrap_malloc(size_t len)
{
    return has_memory(len) ? __real_malloc(len) : NULL;
}

void *__wrap_calloc(size_t count, size_t len)
{
    return has_memory(count * len) ? __real_calloc(count, len) : NULL;
}

void *__wrap_realloc(void *old, size_t len)
{
    if (old != NULL && len <= malloc_usable_size(old))
        return __real_realloc(old, len); /* what gets shorter stays where it is */
    if (!has_memory(len))
        return NULL;
    if (old != NULL)
        freed += malloc_usable_size(old) + 16;
    return __real_realloc(old, len);
}

void __wrap_free(void *p)
{
    if (p != NULL)
        freed += malloc_usable_size(p) + 16;
    __real_free(p);
}

/* Pages are not given back, which is a matter of the system alone. */
void __wrap_heap_init(struct heap *h);
void __wrap_heap_init(struct heap *h)
{
    *h = (struct heap){.page = 4096, .statm = -1, .next_ns = UINT64_MAX};
}

void __wrap_heap_trim(struct heap *h, uint64_t now_ns, size_t worth);
void __wrap_heap_trim(struct heap *h, uint64_t now_ns, size_t worth)
{
    (void)h;
    (void)now_ns;
    (void)worth;
}

/* --- Names. --- */

static struct lookup {
    void (*tell)(void *arg, const union resolve_address *addresses, size_t count, const char *why);
    void *arg;
} lookups[PROCESSES];

struct resolve *__wrap_resolve_start(struct event_base *base, const char *host, uint16_t port,
                                     void (*tell)(void *, const union resolve_address *, size_t,
                                                  const char *),
                                     void *arg);
struct resolve *__wrap_resolve_start(struct event_base *base, const char *host, uint16_t port,
                                     void (*tell)(void *, const union resolve_address *, size_t,
                                                  const char *),
                                     void *arg)
{
    (void)base;
    (void)host;
    (void)port;
    lookups[world_current] = (struct lookup){tell, arg};
    return (struct resolve *)(void *)&lookups[world_current];
}

void __wrap_resolve_cancel(struct resolve *r);
void __wrap_resolve_cancel(struct resolve *r)
{
    struct lookup *l = (struct lookup *)(void *)r;

    if (l != NULL)
        l->tell = NULL;
}

bool world_resolve(int process, bool found)
{
    const union resolve_address at = {.in4 = {.sin_family = AF_INET,
                                              .sin_port = htons(PORT + STORE),
                                              .sin_addr.s_addr = htonl(0x0a000001)}};
    struct lookup l = lookups[process];

    if (l.tell == NULL)
        return false;
    lookups[process].tell = NULL;
    l.tell(l.arg, &at, found ? 1 : 0, found ? NULL : "no such name just now");
    return true;
}

void world_seed(uint64_t seed)
{
    state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    for (int i = 0; i < 8; i++)
        draw(2);
    memset(lookups, 0, sizeof lookups);
    memory_fail(-1, 0, 0);
    world_may_fail = may_fail = false;
    freed = 0;
}

/* --- The disk: sim_disk.h, except the ballast: its 4 MiB of zeros are only a number here. While
 * the disk is full, the ballast cannot be written, and its freed room is enough for all other
 * files. Each call takes simulated time. --- */

static struct fs disk;
static int ballast = -1;
static int64_t ballast_size;
static bool is_full;

static struct fs *below(void)
{
    return sim_disk_fs(world_disk);
}

static void take_time(void)
{
    thread_sim_yield();
    may_fail = world_may_fail;
    world_may_fail = false;
    if (sim_disk_is_dead(world_disk))
        world_is_over[STORE] = true;
}

/* What came of the call comes back; the process may have died in it. */
static ssize_t done(ssize_t result)
{
    world_may_fail = may_fail;
    if (sim_disk_is_dead(world_disk))
        world_is_over[STORE] = true;
    thread_sim_yield();
    return result;
}

static int disk_open(struct fs *fs, const char *name, enum fs_mode mode)
{
    int file;

    (void)fs;
    take_time();
    file = below()->open(below(), name, mode);
    if (strcmp(name, "ballast") == 0) {
        ballast = file;
        if (mode == FS_CREATE)
            ballast_size = 0;
    }
    return (int)done(file);
}

static ssize_t disk_read(struct fs *fs, int file, uint64_t at, void *to, size_t len)
{
    (void)fs;
    return below()->read(below(), file, at, to, len);
}

static ssize_t disk_write(struct fs *fs, int file, uint64_t at, const struct slice *parts,
                          size_t count)
{
    size_t len = 0;

    (void)fs;
    if (file == ballast) {
        for (size_t i = 0; i < count; i++)
            len += parts[i].len;
        if (is_full)
            return -ENOSPC;
        ballast_size = (int64_t)(at + len);
        return sim_disk_is_dead(world_disk) ? -EIO : (ssize_t)len;
    }
    take_time();
    return done(below()->write(below(), file, at, parts, count));
}

static int64_t disk_size(struct fs *fs, int file)
{
    (void)fs;
    return file == ballast ? ballast_size : below()->size(below(), file);
}

static int disk_sync(struct fs *fs, int file)
{
    (void)fs;
    take_time();
    return (int)done(below()->sync(below(), file));
}

static int disk_truncate(struct fs *fs, int file, uint64_t size)
{
    (void)fs;
    take_time();
    return (int)done(below()->truncate(below(), file, size));
}

static int disk_close(struct fs *fs, int file)
{
    (void)fs;
    if (file == ballast)
        ballast = -1;
    take_time();
    return (int)done(below()->close(below(), file));
}

static int disk_rename(struct fs *fs, const char *from, const char *to)
{
    (void)fs;
    take_time();
    return (int)done(below()->rename(below(), from, to));
}

static int disk_remove(struct fs *fs, const char *name)
{
    (void)fs;
    take_time();
    if (strcmp(name, "ballast") == 0 && ballast_size > 0 && !sim_disk_is_dead(world_disk)) {
        ballast_size = 0;
        sim_disk_limit(world_disk, UINT64_MAX);
    }
    return (int)done(below()->remove(below(), name));
}

static int disk_sync_dir(struct fs *fs)
{
    (void)fs;
    take_time();
    return (int)done(below()->sync_dir(below()));
}

static int disk_list(struct fs *fs, void (*each)(void *arg, const char *name), void *arg)
{
    (void)fs;
    take_time();
    return (int)done(below()->list(below(), each, arg));
}

static int disk_lock(struct fs *fs, const char *name)
{
    (void)fs;
    take_time();
    return (int)done(below()->lock(below(), name));
}

static void disk_free(struct fs *fs)
{
    (void)fs;
}

void disk_new(uint64_t seed)
{
    if (world_disk != NULL)
        sim_disk_free(world_disk);
    world_disk = sim_disk_new(seed);
    disk = (struct fs){disk_open,     disk_read,  disk_write,  disk_size,   disk_sync,
                       disk_truncate, disk_close, disk_rename, disk_remove, disk_sync_dir,
                       disk_list,     disk_lock,  disk_free};
    ballast = -1;
    ballast_size = 0;
    is_full = false;
}

void disk_fill(uint64_t room)
{
    is_full = true;
    sim_disk_limit(world_disk, sim_disk_used(world_disk) + room);
}

void disk_empty(void)
{
    is_full = false;
    sim_disk_limit(world_disk, UINT64_MAX);
}

bool disk_is_full(void)
{
    return is_full;
}

int __wrap_fs_posix_make_dir(const char *path);
int __wrap_fs_posix_make_dir(const char *path)
{
    (void)path;
    return 0;
}

struct fs *__wrap_fs_posix_open(const char *path, enum fs_use use, char *why, size_t why_size);
struct fs *__wrap_fs_posix_open(const char *path, enum fs_use use, char *why, size_t why_size)
{
    (void)path;
    (void)use;
    (void)why;
    (void)why_size;
    return &disk;
}

/* --- Small segments and snapshots, so that each world has many files. --- */

struct journal *__real_journal_open(const struct journal_options *options,
                                    const struct journal_reader *reader,
                                    struct journal_report *report);
struct journal *__wrap_journal_open(const struct journal_options *options,
                                    const struct journal_reader *reader,
                                    struct journal_report *report);
struct journal *__wrap_journal_open(const struct journal_options *options,
                                    const struct journal_reader *reader,
                                    struct journal_report *report)
{
    struct journal_options small = *options;

    small.segment_size = 500 + draw(4000);
    return __real_journal_open(&small, reader, report);
}

bool __wrap_journal_writer_snapshot_due(struct journal_writer *w);
bool __wrap_journal_writer_snapshot_due(struct journal_writer *w)
{
    return journal_writer_refuses(w) == NULL &&
           journal_writer_snapshot_state(w) == JOURNAL_WRITER_SNAPSHOT_NONE &&
           journal_writer_stats(w)->journal.bytes_behind > 300 && chance(40);
}
