/* The system calls on the files of one directory that can lose data, as a table: fs.c has the
 * system's, and tests have a simulated disk that fails, tears and forgets.
 *
 * Every function returns -errno when it fails. Names are names of files in the directory, without a
 * slash. A file is a small number, as open() returned it. Different files may be used by two
 * threads at the same time, and one file may be written by one thread while another syncs it. */
#pragma once

#include "proto/bytes.h"

#include <sys/types.h>

enum fs_mode {
    FS_READ,   /* the file exists */
    FS_CREATE, /* for reading and writing; a file of that name is emptied */
};

struct fs {
    int (*open)(struct fs *fs, const char *name, enum fs_mode mode);
    /* Fewer bytes than asked for only at the end of the file. */
    ssize_t (*read)(struct fs *fs, int file, uint64_t at, void *to, size_t len);
    /* One system call that writes the parts one behind the other, at most FS_PARTS_MAX of them. It
     * may write less, as pwritev() does; see fs_write_all(). */
    ssize_t (*write)(struct fs *fs, int file, uint64_t at, const struct slice *parts, size_t count);
    int64_t (*size)(struct fs *fs, int file);
    /* fdatasync(). After it failed, the system may take the file's pages for written although they
     * are not: never sync the same bytes again and believe it. */
    int (*sync)(struct fs *fs, int file);
    int (*truncate)(struct fs *fs, int file, uint64_t size);
    int (*close)(struct fs *fs, int file);
    int (*rename)(struct fs *fs, const char *from, const char *to);
    int (*remove)(struct fs *fs, const char *name);
    /* Makes durable what was created, renamed and removed so far. */
    int (*sync_dir)(struct fs *fs);
    int (*list)(struct fs *fs, void (*each)(void *arg, const char *name), void *arg);
    /* Creates the file and locks it for this process, until the process ends or the file is closed.
     * The file, or -EWOULDBLOCK while another process has it. */
    int (*lock)(struct fs *fs, const char *name);
    void (*free)(struct fs *fs); /* of the table itself; every file is closed */
};

#define FS_PARTS_MAX 512

/* True if this -errno means a full disk or an exhausted quota. */
bool fs_is_full(int error);

/* Writes all parts, with as many calls as necessary; some of them, if it fails. */
int fs_write_all(struct fs *fs, int file, uint64_t at, const struct slice *parts, size_t count);

/* Makes a directory (0700) without parents, and syncs its name. 1; 0: it exists; or -errno. */
int fs_posix_make_dir(const char *path);

enum fs_use { FS_MUST_EXIST, FS_MAY_CREATE };

/* The directory of that path. With FS_MAY_CREATE, as fs_posix_make_dir() makes it; files are made
 * with 0600. Refused is a directory of another user, and one in which
 * others may write, since who can replace the files decides what the store holds. NULL, with errno:
 * `why` says so in a sentence. */
struct fs *fs_posix_open(const char *path, enum fs_use use, char *why, size_t why_size);
