/* The request of the command line, and the exit code: for rdzvctl's commands. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/rdzv_client.h"

/* Exit codes; commands.py documents them. */
enum ctl_exit {
    CTL_FINE = 0,
    CTL_MISSING = 1,     /* a node, a key, a run is missing; the store is not ready; time was up */
    CTL_USAGE = 2,       /* the command line is wrong, or a file that it names */
    CTL_UNREACHABLE = 3, /* no connection, or it ended before the answer */
    CTL_REFUSED = 4,     /* the store refuses this client */
    CTL_FAILED = 5,      /* anything else */
    CTL_UNKNOWN = 6,     /* of a run, it is not known how many nodes it waits for */
};

enum ctl_output { OUTPUT_TABLE, OUTPUT_WIDE, OUTPUT_NAME, OUTPUT_JSON, OUTPUT_YAML };

struct ctl_command;

#define CTL_ARGS_MOST 64

struct ctl {
    const struct ctl_command *command;
    const char *args[CTL_ARGS_MOST];
    size_t arg_count;

    char server[300];      /* HOST:PORT, as messages name it; or unix:/PATH */
    const char *unix_path; /* within `server`; NULL: it is HOST:PORT */
    const char *space;     /* NULL: all that this client may see */
    const char *token_file;
    const char *reason; /* of an order; NULL: none */
    const char *until;  /* of a hold; NULL: none */
    bool tls;           /* speak it */
    struct {
        const char *ca, *cert, *key; /* files; NULL: the CAs of the machine; none to show */
        const char *name;            /* that the store's certificate has to have; NULL: the host */
    } tls_with;
    enum ctl_output output;
    bool colour;

    int64_t timeout_ms; /* -1: not given */
    int64_t interval_ms;
    int64_t in_ms; /* --in, --for */
    int64_t count;
    bool help, version, watch, wait, raw, yes, end, ready, ended, man;
};

/* "rdzvctl: …" on stderr, with the end of the line. Returns `code`. */
enum ctl_exit ctl_say(enum ctl_exit code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --timeout, or else the command's default. */
int64_t ctl_timeout(const struct ctl *ctl, int64_t otherwise_ms);

/* The memory, or the end of the program: for what rdzvctl itself needs. */
void *ctl_memory(void *p);

/* For so many milliseconds, or until a signal comes. */
void ctl_pause(int64_t ms);

#define CTL_TLS_WHY_MAX 600

/* The files of --cacert, --cert and --key, before the store is asked: their faults are none of the
 * store's. True: the files are usable, or TLS is off. False: `why` names the option, its file,
 * the fault, and what to give. */
bool ctl_check_tls_files(const struct ctl *ctl, char why[CTL_TLS_WHY_MAX]);

/* By a clock that never goes back. */
double ctl_now_s(void);

/* --- The client of c10d, and the words for what fails, store.c. For commands about keys. --- */

#define STORE_TLS_OPTIONS " (--cacert, --cert, --key, --tls-server-name)"

/* As rdzv_client_new(), for the store of `ctl`, with its TLS. */
enum rdzv_status store_new(const struct ctl *ctl, int64_t timeout_ms, struct rdzv_client **out);

/* Runs a command with a client for the store of `ctl`, whose keys are named as the store has them.
 * If there can be no such client, stderr says why. */
enum ctl_exit store_run(const struct ctl *ctl,
                        enum ctl_exit (*run)(const struct ctl *ctl, struct rdzv_client *c));

/* The code for the last call that blocked, after a line on stderr unless it is RDZV_OK. */
enum ctl_exit store_failed(struct rdzv_client *c, enum rdzv_status status);
