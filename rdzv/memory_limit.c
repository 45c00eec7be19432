/* How much memory the process may take. See memory_limit.h for the contract.
 *
 * A limit may stand at any level of the tree of cgroups, and the lowest of them counts. In a
 * container the path that /proc names may be one that only the host sees; then the top of what is
 * mounted is the container's own. */
#include "rdzv/memory_limit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rdzv/config/config.h"

#define CGROUP_PATH_MAX 4096

/* The number in a file; UINT64_MAX: there is no such file, or it says `max`. */
static uint64_t read_number(const char *root, const char *mount, const char *path, const char *file)
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
static uint64_t lowest(const char *root, const char *mount, char *path, const char *file)
{
    uint64_t least = UINT64_MAX;

    for (;;) {
        char *slash = strrchr(path, '/');
        uint64_t here;

        if (slash != NULL && slash[1] == '\0')
            *slash = '\0'; /* the root's path is "/" */
        here = read_number(root, mount, path, file);
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
        return lowest(root, "/sys/fs/cgroup", path, "memory.max");
    if (strcmp(controllers + 1, "memory") == 0)
        return lowest(root, "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes");
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
