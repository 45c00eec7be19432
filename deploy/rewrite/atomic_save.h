/* Gives files new contents: a file is never half written, and the old contents are kept. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct save {
    const char *path;
    const char *bytes;
    size_t len;
    char *target, *temp, *backup; /* set by save_files, freed by save_fini */
};

/* Writes all new files under temporary names. Only when each of them is complete and on disk, gives
 * each old file the name of its backup (PATH.bak, else PATH.bak.2 and so on) and renames the new
 * one to its path. Returns NULL, or the path of the file that failed, with errno; until the first
 * rename nothing has changed. Symbolic links are followed. */
const char *save_files(struct save *list, size_t count);
void save_fini(struct save *list, size_t count);
