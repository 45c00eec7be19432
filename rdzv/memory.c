/* The memory limit, and the memory of libraries. See memory.h for the contract.
 *
 * A limit may stand at any level of the tree of cgroups, and the lowest of them counts. In a
 * container the path that /proc names may be one that only the host sees; then the top of what is
 * mounted is the container's own. */
#include "rdzv/memory.h"

#include <cjson/cJSON.h>
#include <event2/event.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/torch/torch_state.h"
#include "rdzv/config/config.h"
#include "store/memory/account.h"

#define CGROUP_PATH_MAX 4096

/* Reads the number in a file of a cgroup; UINT64_MAX if the file does not exist or contains `max`.
 */
static uint64_t read_cgroup_number(const char *root, const char *mount, const char *path,
                                   const char *file)
{
    char name[2 * CGROUP_PATH_MAX];
    uint64_t value = UINT64_MAX;
    unsigned long long number;
    FILE *f;

    snprintf(name, sizeof name, "%s%s%s/%s", root, mount, path, file);
    f = fopen(name, "re");
    if (f == NULL)
        return UINT64_MAX;
    if (fscanf(f, "%llu", &number) == 1)
        value = number;
    fclose(f);
    return value;
}

/* The lowest from `path` up to the top; `path` is cut on the way. */
static uint64_t lowest_limit(const char *root, const char *mount, char *path, const char *file)
{
    uint64_t least = UINT64_MAX;

    for (;;) {
        char *slash = strrchr(path, '/');
        uint64_t here;

        if (slash != NULL && slash[1] == '\0')
            *slash = '\0'; /* the root's path is "/" */
        here = read_cgroup_number(root, mount, path, file);
        least = here < least ? here : least;
        slash = strrchr(path, '/');
        if (slash == NULL)
            return least;
        *slash = '\0';
    }
}

/* A line of /proc/self/cgroup: "0::/path" of version 2, "9:memory:/path" of version 1. */
static uint64_t limit_of_line(const char *root, char *line)
{
    char *controllers = strchr(line, ':'), *path;

    path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (path == NULL)
        return UINT64_MAX;
    *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    if (controllers[1] == '\0')
        return lowest_limit(root, "/sys/fs/cgroup", path, "memory.max");
    if (strcmp(controllers + 1, "memory") == 0)
        return lowest_limit(root, "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes");
    return UINT64_MAX;
}

static uint64_t limit_of_cgroup(const char *root)
{
    char name[CGROUP_PATH_MAX], line[CGROUP_PATH_MAX];
    uint64_t least = UINT64_MAX;
    FILE *f;

    snprintf(name, sizeof name, "%s/proc/self/cgroup", root);
    f = fopen(name, "re");
    if (f == NULL)
        return least;
    while (fgets(line, sizeof line, f) != NULL) {
        uint64_t limit = limit_of_line(root, line);

        least = limit < least ? limit : least;
    }
    fclose(f);
    return least;
}

uint64_t memory_of_machine(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

struct memory_limit memory_limit_find(uint64_t setting, const char *root, uint64_t machine)
{
    uint64_t cgroup;

    if (setting == 0)
        return (struct memory_limit){0, "--memory-limit is off"};
    if (setting != CONFIG_AUTO)
        return (struct memory_limit){setting, "--memory-limit"};
    cgroup = limit_of_cgroup(root);
    if (cgroup != UINT64_MAX && (machine == 0 || cgroup < machine))
        return (struct memory_limit){cgroup / 100 * MEMORY_SHARE_PERCENT,
                                     "80% of the cgroup's limit"};
    if (machine == 0)
        return (struct memory_limit){0, "the memory of the machine is unknown"};
    return (struct memory_limit){machine / 100 * MEMORY_SHARE_PERCENT,
                                 "80% of the machine's memory"};
}

/* --- libevent. --- */

static void *loop_alloc(size_t len)
{
    return account_heap_alloc(ACCOUNT_LOOP, len);
}

static void *loop_realloc(void *old, size_t len)
{
    return account_heap_realloc(ACCOUNT_LOOP, old, len);
}

static void loop_free(void *p)
{
    account_heap_free(ACCOUNT_LOOP, p);
}

/* --- cJSON: trees of a request's body. --- */

static void *json_alloc(size_t len)
{
    return account_heap_request(ACCOUNT_INPUT, ACCOUNT_ORDINARY, len);
}

static void json_free(void *p)
{
    account_heap_free(ACCOUNT_INPUT, p);
}

/* --- States of torch's runs: the change that brings one has been let through already. --- */

static void *state_alloc(size_t len)
{
    return account_heap_request(ACCOUNT_RUNS, ACCOUNT_SMALL, len);
}

static void *state_grow(void *old, size_t count, size_t size)
{
    size_t len;

    if (__builtin_mul_overflow(count, size, &len))
        return NULL;
    return account_heap_resize(ACCOUNT_RUNS, ACCOUNT_SMALL, old, len);
}

static void state_free(void *p)
{
    account_heap_free(ACCOUNT_RUNS, p);
}

/* --- OpenSSL: a handshake, or a record. ACCOUNT_SMALL: few handshakes and records exist at a time.
 * --- */

/* An idle connection has no buffers: OpenSSL allocates a buffer for each record that it receives or
 * sends, and frees this buffer behind the record (SSL_MODE_RELEASE_BUFFERS). RECORDS_KEPT freed
 * buffers are kept for the next records, which saves a malloc() of 16 KiB for each record. */
#define RECORD_LEAST ((size_t)16 << 10)
#define RECORD_ROOM  ((size_t)17 << 10)
#define RECORDS_KEPT 4
static void *records[RECORDS_KEPT];
static size_t record_count;

/* malloc() may give some bytes more. */
static bool has_room_of_record(void *p)
{
    size_t len = malloc_usable_size(p);

    return len >= RECORD_ROOM && len < RECORD_ROOM + 64;
}

static void *tls_alloc(size_t len, const char *, int)
{
    if (len >= RECORD_LEAST && len <= RECORD_ROOM) {
        if (record_count > 0)
            return records[--record_count];
        len = RECORD_ROOM;
    }
    return account_heap_request(ACCOUNT_TLS, ACCOUNT_SMALL, len);
}

static void *tls_realloc(void *old, size_t len, const char *, int)
{
    return account_heap_resize(ACCOUNT_TLS, ACCOUNT_SMALL, old, len);
}

static void tls_release(void *p, const char *, int)
{
    if (p == NULL) /* often */
        return;
    if (record_count < RECORDS_KEPT && has_room_of_record(p))
        records[record_count++] = p;
    else
        account_heap_free(ACCOUNT_TLS, p);
}

void memory_hooks_give_back(void)
{
    while (record_count > 0)
        account_heap_free(ACCOUNT_TLS, records[--record_count]);
}

void memory_hooks_set(void)
{
    CRYPTO_set_mem_functions(tls_alloc, tls_realloc, tls_release);
    event_set_mem_functions(loop_alloc, loop_realloc, loop_free);
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = json_alloc, .free_fn = json_free});
    torch_state_set_memory(
        &(struct torch_memory){.alloc = state_alloc, .grow = state_grow, .free = state_free});
}
