/* The table of --topology-file: in which domain each node is, such as a rack or a block of a
 * network. A line is
 *
 *     NAME|PATTERN  DOMAIN[/DOMAIN...]  [INDEX]
 *
 * where the outermost domain stands first, and INDEX is a node's place in its innermost domain.
 * Patterns are those of a shell (fnmatch(3)). A line with the node's whole name counts before all
 * patterns, and of patterns the first one that matches. `#` begins a comment. */
#pragma once

#include "proto/bytes.h"

#define TOPOLOGY_PATTERNS_MAX 100 /* each name is compared with all of them */
#define TOPOLOGY_NAME_MAX     255
#define TOPOLOGY_ERROR_MAX    512
#define TOPOLOGY_LABEL_MAX    128 /* bytes of a domain that a relay says, with the NUL */

struct topology;

struct topology_place {
    struct slice domain; /* borrowed from the table; empty: no line has the node */
    uint64_t index;      /* UINT64_MAX: the line has none */
};

/* Nodes with lines of their own whose domains begin with the same names: `first` and those behind
 * it. Numbers count all nodes with lines of their own. */
struct topology_group {
    size_t own, first, count; /* count 0: the node has no group */
};

/* What a relay says of its nodes: --node-label. */
struct topology_label {
    char domain[TOPOLOGY_LABEL_MAX]; /* "": it has none */
    uint64_t index;                  /* plus 1; 0: it has none */
};

/* It has a name beside each `/`. */
bool topology_is_domain(const char *domain);

/* NULL: *error says why, as "3:7: …" with line and column. */
struct topology *topology_parse(struct slice text, char error[TOPOLOGY_ERROR_MAX]);
/* The same of a file of at most CONFIG_FILE_MAX bytes: "FILE:3:7: …". */
struct topology *topology_read(const char *file, char error[TOPOLOGY_ERROR_MAX]);
void topology_free(struct topology *t);

size_t topology_lines(const struct topology *t);

/* The place of a node: by its line, else by its label. NULL is a table without lines; or there is
 * no label. */
struct topology_place topology_find(const struct topology *t, struct slice name,
                                    const struct topology_label *label);

/* The group by the first `column` names of domains. A node without a line of its own, or with a
 * shorter domain, has none, and no node has if `t` is NULL or `column` 0. */
struct topology_group topology_group(const struct topology *t, struct slice name, uint64_t column);

/* Gives a whole group its places, once. Returns NULL, or why it has none. `needs` has a number for
 * each node: 0 if the node is not there, else how many places it needs and 1 more. `room`: the
 * places that are left. */
const char *topology_choose(const struct topology_group *group, uint32_t *needs, uint64_t *room);

/* The name matches the pattern, or is the same. */
bool topology_matches(const char *pattern, struct slice name);

/* Patterns of hosts, as fnmatch(3) reads them. */
struct cordons {
    size_t count;
    char **patterns;
};

/* One of the patterns fits the host. */
bool cordons_have(const struct cordons *cordons, struct slice host);

/* The order of names: by bytes, except that digits count as numbers: worker-2 before worker-10. */
int topology_compare(struct slice a, struct slice b);
/* The number of outermost domains that both have. */
size_t topology_common(struct slice a, struct slice b);
