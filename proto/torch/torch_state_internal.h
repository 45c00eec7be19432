/* What the reader and the writer of a rendezvous state share. */
#pragma once

#include "proto/torch/pickle.h"
#include "proto/torch/torch_state.h"

/* --- The memory that addresses point into: torch_state.c. --- */

struct torch_block {
    struct torch_block *next;
    size_t users; /* states whose list begins here, and blocks whose successor this is */
    uint8_t bytes[];
};

/* See torch_state_set_memory(). */
extern struct torch_memory torch_memory;

/* A block with one user and no successor. NULL: no memory. The last state that uses it frees it, or
 * the caller does with torch_memory.free(). */
struct torch_block *torch_block_new(size_t size);

/* --- The classes that a pickled state is made of. --- */

enum torch_class {
    TORCH_STATE_CLASS,
    TORCH_NODE_CLASS,
    TORCH_DATETIME_CLASS,
    TORCH_TIMEZONE_CLASS,
    TORCH_TIMEDELTA_CLASS,
    TORCH_CLASSES,
};

struct torch_class_name {
    const char *module;
    const char *name;
};

extern const struct torch_class_name torch_classes[TORCH_CLASSES];

/* Names that all nodes and times have in common are written once. */
enum torch_name {
    TORCH_NAME_RENDEZVOUS, /* the module */
    TORCH_NAME_DATETIME,   /* the module */
    TORCH_NAME_ADDR,
    TORCH_NAME_PID,
    TORCH_NAME_LOCAL_ID,
    TORCH_NAMES,
};

/* Their numbers in the pickle's memo. */
struct torch_numbers {
    uint32_t names[TORCH_NAMES];
    uint32_t classes[TORCH_CLASSES];
    uint32_t utc;
};

/* --- The lists of nodes in a state; participants and heartbeats are dicts. --- */

enum torch_list {
    TORCH_PARTICIPANTS,
    TORCH_WAIT_LIST,
    TORCH_REDUNDANCY_LIST,
    TORCH_LAST_HEARTBEATS,
    TORCH_LISTS,
};

/* Where in struct torch_node the bool is that says that the node is in the list. */
extern const size_t torch_list_flags[TORCH_LISTS];

/* --- The ten bytes of a pickled datetime, and microseconds since 1970: torch_time.c. --- */

#define TORCH_TIME_SIZE 10

#define TORCH_TIME_MIN (-62135596800 * 1000000)     /* the start of the year 1 */
#define TORCH_TIME_MAX (253402300800 * 1000000 - 1) /* the end of the year 9999 */

/* False: the bytes are no valid time, or the time has the mark `fold` of the hour that is repeated
 * when summer time ends. */
bool torch_time_read(const uint8_t bytes[TORCH_TIME_SIZE], int64_t *us);

/* Of a time out of range it writes the nearest that is within. */
void torch_time_write(int64_t us, uint8_t bytes[TORCH_TIME_SIZE]);

/* --- A front. Its text goes on behind the last of the participants that it names; marks[i] is
 * where it would if it named the first i. --- */

struct torch_mark {
    uint32_t len; /* of the pickle so far */
    uint32_t frame;
    uint32_t memoed;
};

#define TORCH_FRONT_MEMO 48

struct torch_front {
    struct torch_state like; /* without nodes */
    size_t count;
    const struct torch_mark *marks;
    struct slice pickle;
    const uint8_t *text;
    struct torch_numbers numbers;
    struct pickle_ref memo[TORCH_FRONT_MEMO]; /* up to the first participant */
};

/* The bytes around the header of the frame that is open at the mark, and the last ones, which
 * differ in texts that begin alike: all others up to `cut` are the front's. */
struct torch_seam {
    size_t header, header_end, cut; /* each is a multiple of 3, where a quad begins */
};
struct torch_seam torch_front_seam(const struct torch_front *f, size_t count);

/* Fills the memo. False: no memory. */
bool torch_front_learn(struct torch_front *f);
