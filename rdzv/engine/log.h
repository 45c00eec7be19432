/* The daemon's log: one event is one line and one write(2) on stderr, as logfmt or as JSON.
 *
 *     log_event(LOG_INFO, "listening", log_str("address", text), log_u64("backlog", n));
 *     time=2026-11-20T20:58:18.123Z level=info event=listening address=127.0.0.1:29400 backlog=4096
 *
 * Fields are made by small typed functions, so the compiler checks them; a line below the level
 * costs one comparison and evaluates no field. Values may be any bytes a peer sent: they are
 * quoted and escaped, cut at LOG_VALUE_MAX, and never start a line of their own or reach a terminal
 * as control characters. In JSON a byte that is not UTF-8 is written as the four characters \xNN.
 *
 * A log without a reader must not stop the store: a line that cannot be written at once is dropped
 * and counted, and the first line that passes again is preceded by `event=log_dropped lines=N`.
 * The caller ignores SIGPIPE, as every network daemon does.
 *
 * No event can fill a disk, errors included: each kind of line has a token bucket. Lines that peers
 * can cause at will (refusals, malformed requests) go through log_limited(): a burst of LOG_BURST
 * lines, then LOG_REFILL_PER_S lines a second. All others have LOG_EVENT_BURST and
 * LOG_EVENT_REFILL_PER_S: ten thousand nodes that come and go are ten thousand true events, and
 * still too many lines. The kind is the name of the event, or what log_limited_as() says. The next
 * line of the kind that passes carries `suppressed=N`, and log_tick() reports what no later line
 * did. Only rdzv/ logs. One thread. */
#pragma once

#include "proto/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

#define LOG_LINE_MAX           4096 /* PIPE_BUF: a line never mixes with another process's */
#define LOG_VALUE_MAX          512  /* bytes of a value that are shown; the rest becomes "..." */
#define LOG_BURST              50
#define LOG_REFILL_PER_S       5
#define LOG_EVENT_BURST        2000
#define LOG_EVENT_REFILL_PER_S 100

/* One key and its value. `key` is a literal of ours: lower case, digits, underscore. Strings and
 * bytes are borrowed until log_event() returns. */
struct log_field {
    const char *key; /* NULL ends a list; empty: the field is left out */
    enum log_kind { LOG_KIND_U64, LOG_KIND_I64, LOG_KIND_BOOL, LOG_KIND_BYTES } kind;
    union {
        uint64_t u64;
        int64_t i64;
        bool flag;
        struct slice bytes;
    } as;
};

struct log_options {
    enum log_format format;
    enum log_level level;     /* the lowest that is written */
    int fd;                   /* borrowed; 2 */
    uint64_t (*now_ms)(void); /* milliseconds since 1970; NULL: the system's clock */
};

/* May be called again at any time. Until it is called: logfmt, info, stderr. */
void log_init(const struct log_options *options);

/* log_event(level, "name", field...), with no field or many; the same for log_limited(), and for
 * log_limited_as(level, "kind", "name", field...). Kinds and names are static texts. */
#define log_event(level, name, ...) \
    LOG_WRITE_(level, LOG_RATE_EVENT, name, name, ##__VA_ARGS__, LOG_END_)
#define log_limited(level, name, ...) \
    LOG_WRITE_(level, LOG_RATE_LIMITED, name, name, ##__VA_ARGS__, LOG_END_)
#define log_limited_as(level, kind, name, ...) \
    LOG_WRITE_(level, LOG_RATE_LIMITED, kind, name, ##__VA_ARGS__, LOG_END_)

/* Reports suppressed lines of kinds that have gone quiet. Called about once a second. */
void log_tick(void);

/* Lines since the start that could not be written at once, or that a bucket held back. */
uint64_t log_dropped(void);
uint64_t log_suppressed(void);

extern enum log_level log_lowest_; /* read by the macros, set by log_init() */

enum log_rate { LOG_RATE_EVENT, LOG_RATE_LIMITED };
void log_write_(enum log_level level, enum log_rate rate, const char *kind, const char *event,
                const struct log_field *fields);

#define LOG_END_ ((struct log_field){.key = NULL})
#define LOG_WRITE_(level, rate, kind, event, ...)                                                  \
    do {                                                                                           \
        if ((level) >= log_lowest_)                                                                \
            log_write_((level), (rate), (kind), (event), (const struct log_field[]){__VA_ARGS__}); \
    } while (0)

/* log_event() with an array of fields; its last field has no key. */
static inline void log_event_fields(enum log_level level, const char *name,
                                    const struct log_field *fields)
{
    if (level >= log_lowest_)
        log_write_(level, LOG_RATE_EVENT, name, name, fields);
}

static inline struct log_field log_bytes(const char *key, struct slice value)
{
    return (struct log_field){.key = key, .kind = LOG_KIND_BYTES, .as.bytes = value};
}

/* NULL is shown as an empty value. */
static inline struct log_field log_str(const char *key, const char *value)
{
    return log_bytes(key, slice_str(value == NULL ? "" : value));
}

static inline struct log_field log_u64(const char *key, uint64_t value)
{
    return (struct log_field){.key = key, .kind = LOG_KIND_U64, .as.u64 = value};
}

static inline struct log_field log_i64(const char *key, int64_t value)
{
    return (struct log_field){.key = key, .kind = LOG_KIND_I64, .as.i64 = value};
}

static inline struct log_field log_bool(const char *key, bool value)
{
    return (struct log_field){.key = key, .kind = LOG_KIND_BOOL, .as.flag = value};
}

/* The field, which is left out unless `shown`. */
static inline struct log_field log_if(bool shown, struct log_field field)
{
    return shown ? field : (struct log_field){.key = ""};
}

/* The system's text for an errno, given positive or negative. */
struct log_field log_errno(const char *key, int error);
