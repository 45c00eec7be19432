/* rdzvctl's requests over HTTP, by libcurl. */
#pragma once

#include <cjson/cJSON.h>
#include <time.h>

#include "client/ctl/ctl.h"

struct http_answer {
    long status;     /* of HTTP */
    char *body;      /* with a NUL behind it; the caller frees it */
    time_t date;     /* the header Date; -1: there was none */
    double seconds;  /* from the first byte sent to the first that came back */
    int64_t sent_us; /* by this machine's clock, since 1970: about when the server said what time
                      * it was */
};

/* Why there is no answer. */
enum http_fault {
    FAULT_CONNECTION, /* no connection, or it is lost */
    FAULT_SILENT, /* connected, but the server does not answer HTTP: torch's own store, perhaps */
    FAULT_LATE,   /* the time is over */
    FAULT_TLS,    /* connected, but TLS failed */
    FAULT_FILE,   /* nothing was sent: a file that an option names cannot be used */
};

struct http_failure {
    enum http_fault fault;
    char text[CTL_TLS_WHY_MAX]; /* a clause without a name: "connection refused" */
};

/* True: an answer, whatever its status. `path` is of ASCII; http_path() makes one of names. */
bool http_try(const struct ctl *ctl, const char *method, const char *path, int64_t timeout_ms,
              struct http_answer *out, struct http_failure *failure);

/* The answer of a server that speaks only TLS to a request without TLS. */
bool http_wants_tls(const struct ctl *ctl, const struct http_answer *answer);

#define HTTP_WANTS_TLS "it speaks TLS alone: use -s https://HOST:PORT"

/* What /readyz of rdzvd says. */
enum http_ready {
    READY_UNKNOWN, /* no answer, or none of rdzvd's; `why` says so */
    READY_NOT,     /* or a relay whose store is away; `why` is the first reason */
    READY_YES,
};

#define HTTP_READY_MAX 1000

enum http_ready http_ready(const struct ctl *ctl, int64_t timeout_ms, char why[HTTP_READY_MAX]);

/* An etcd answers there. Only to be asked of a server that lacks a path of rdzvd's. */
bool http_is_etcd(const struct ctl *ctl, int64_t timeout_ms);

#define HTTP_IS_ETCD \
    "an etcd answers there, and rdzvctl asks rdzvd only: correct -s HOST:PORT, or use etcdctl"

/* Like http_try(), but prints an error and its remedy on stderr. Returns CTL_FINE or the exit code.
 * If the status is 400 or more, *out stays unset. */
enum ctl_exit http_ask(const struct ctl *ctl, const char *method, const char *path,
                       struct http_answer *out);

/* The JSON that http_ask() gets; the caller gives it to cJSON_Delete(). */
enum ctl_exit http_json(const struct ctl *ctl, const char *method, const char *path, cJSON **out);

/* --- Server-sent events. --- */

/* One event; `data` is one line. Both are empty for a sign of life without an event. False: no more
 * are wanted. */
typedef bool http_event_fn(void *arg, const char *event, const char *data);

/* Calls `on_event` for each event until it returns false, then returns CTL_FINE. rdzvd sends at
 * least one line per second. If the stream ends, or is silent for ten seconds (before the first
 * line: for --timeout), returns CTL_UNREACHABLE. Prints errors on stderr. */
enum ctl_exit http_stream(const struct ctl *ctl, const char *path, http_event_fn *on_event,
                          void *arg);

/* "/rdzv/v1/spaces/NAME/status", NAME escaped; `tail`, `name`: or NULL. The caller frees it. */
char *http_path(const char *head, const char *name, const char *tail);
