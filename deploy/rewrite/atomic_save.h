/* Files get new contents without ever being half written, and their old contents are kept. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct save {
    const char *path;
    const char *bytes;
    size_t len;
    char *target, *temp, *backup; /* set by save_files, freed by save_fini */
};

/* Writes all new files aside, and only when every one of them is whole and on disk gives each old
 * file the name of its backup (PATH.bak, else PATH.bak.2 and so on) and puts the new one in its
 * place. Returns NULL, or the path of the file that failed, with errno; before the first file is in
 * place nothing has changed. A symbolic link is followed. */
const char *save_files(struct save *list, size_t count);
void save_fini(struct save *list, size_t count);
