/* Makes a line of an event and writes it; counts a line that the log's reader does not take. */
#include "rdzv/engine/log.h"

#include "proto/json.h"
#include "proto/queue.h"
#include "proto/utf8.h"
#include "rdzv/engine/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define KINDS_MAX 128 /* more share the last place */
#define TAIL_MAX  64  /* room for the end of a line that had to be cut */

enum log_level log_lowest_ = LOG_INFO;

/* Lines that a full bucket lets through at once, and then each second. */
static const struct rate {
    uint64_t burst;
    uint64_t per_s;
} rates[] = {
    [LOG_RATE_EVENT] = {LOG_EVENT_BURST, LOG_EVENT_REFILL_PER_S},
    [LOG_RATE_LIMITED] = {LOG_BURST, LOG_REFILL_PER_S},
};

/* A bucket of tokens per kind of line; the kind is a literal of the caller's. */
struct limit {
    const char *kind;
    const struct rate *rate;
    enum log_level level;
    uint64_t milli_tokens; /* thousandths of a line */
    uint64_t filled_ms;
    uint64_t asked_ms; /* time of the latest line of that kind, written or not */
    uint64_t suppressed;
};

static struct {
    enum log_format format;
    int fd;
    uint64_t (*now_ms)(void);
    bool torn;         /* the last line ended in its middle */
    uint64_t dropped;  /* in all */
    uint64_t reported; /* those that a log_dropped line has counted */
    uint64_t suppressed;
    struct limit limits[KINDS_MAX];
    size_t limit_count;
} state = {.fd = STDERR_FILENO};

static const char *const level_names[] = {
    [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error"};

static uint64_t log_now_ms(void)
{
    return state.now_ms == NULL ? (uint64_t)clock_wall_ns(&clock_system) / 1000000 : state.now_ms();
}

void log_init(const struct log_options *options)
{
    state.format = options->format;
    state.fd = options->fd;
    state.now_ms = options->now_ms;
    log_lowest_ = options->level;
}

uint64_t log_dropped(void)
{
    return state.dropped;
}

uint64_t log_suppressed(void)
{
    return state.suppressed;
}

__attribute__((format(printf, 2, 3))) static void put_format(struct writer *w, const char *format,
                                                             ...)
{
    char text[64];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    writer_str(w, text);
}

/* Code points that change how a terminal or an editor shows what stands around them. */
static bool disturbs_display(uint32_t point)
{
    return (point >= 0x80 && point < 0xa0) || point == 0x200e || point == 0x200f ||
           (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

/* One byte that cannot stand for itself. */
static void put_escaped_byte(struct writer *w, uint8_t byte)
{
    static const char bytes[] = "\"\\\n\r\t", letters[] = "\"\\nrt";
    const char *known = byte == 0 ? NULL : strchr(bytes, byte);
    bool json = state.format == LOG_FORMAT_JSON;

    if (known != NULL)
        put_format(w, "\\%c", letters[known - bytes]);
    else if (!json)
        put_format(w, "\\x%02x", byte);
    else if (byte < 0x80)
        put_format(w, "\\u%04x", byte);
    else
        put_format(w, "\\\\x%02x", byte); /* no text: shown as the characters \xNN */
}

static void put_quoted(struct writer *w, struct slice value)
{
    writer_str(w, "\"");
    for (size_t i = 0; i < value.len;) {
        uint8_t byte = value.ptr[i];
        uint32_t point = 0;
        size_t len = utf8_decode(slice_from(value, i), &point);

        if (len > 1 && !disturbs_display(point)) {
            writer_put(w, value.ptr + i, len);
        } else if (len > 1 && state.format == LOG_FORMAT_JSON) {
            put_format(w, "\\u%04x", point); /* they are all below U+10000 */
        } else if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\') {
            writer_put(w, value.ptr + i, 1);
            len = 1;
        } else {
            put_escaped_byte(w, byte);
            len = 1;
        }
        i += len;
    }
    writer_str(w, "\"");
}

static bool needs_quotes(struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        uint8_t byte = value.ptr[i];

        if (byte <= ' ' || byte >= 0x7f || byte == '"' || byte == '\\' || byte == '=')
            return true;
    }
    return value.len == 0;
}

/* At most LOG_VALUE_MAX bytes, and not half a character. */
static struct slice cut_value(struct slice value)
{
    size_t len = LOG_VALUE_MAX;

    if (value.len <= len)
        return value;
    while (len > LOG_VALUE_MAX - 3 && (value.ptr[len] & 0xc0) == 0x80)
        len--;
    return (struct slice){value.ptr, len};
}

static void put_quoted_value(struct writer *w, struct slice value)
{
    struct slice shown = cut_value(value);

    if (state.format == LOG_FORMAT_LOGFMT && !needs_quotes(shown)) {
        writer_slice(w, shown);
        if (shown.len < value.len)
            writer_str(w, "...");
        return;
    }
    put_quoted(w, shown);
    if (shown.len < value.len && w->len <= w->cap) {
        w->len--; /* behind the last character, inside the quotes */
        writer_str(w, "...\"");
    }
}

/* Whole, or not at all: false. */
static bool put_field(struct writer *w, struct log_field field)
{
    bool json = state.format == LOG_FORMAT_JSON;
    size_t start = w->len;

    writer_str(w, json ? ",\"" : " ");
    writer_str(w, field.key);
    writer_str(w, json ? "\":" : "=");
    switch (field.kind) {
    case LOG_KIND_U64:
        json_u64(w, field.as.u64);
        break;
    case LOG_KIND_I64:
        json_i64(w, field.as.i64);
        break;
    case LOG_KIND_BOOL:
        writer_str(w, field.as.flag ? "true" : "false");
        break;
    case LOG_KIND_BYTES:
        put_quoted_value(w, field.as.bytes);
        break;
    }
    if (w->len <= w->cap)
        return true;
    w->len = start;
    return false;
}

static void put_log_time(struct writer *w, uint64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    char text[40];

    gmtime_r(&seconds, &tm);
    text[strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm)] = '\0';
    put_format(w, state.format == LOG_FORMAT_JSON ? "{\"time\":\"%s.%03uZ\"" : "time=%s.%03uZ",
               text, (unsigned)(ms % 1000));
}

/* Writes a line to stderr, whole and at once, or not at all. Asking poll() first keeps a blocking
 * descriptor from blocking (a pipe with room for anything has room for PIPE_BUF) without making it
 * non-blocking for other processes that share it, and avoids SIGPIPE. */
static bool write_line(struct slice line)
{
    struct pollfd poller = {.fd = state.fd, .events = POLLOUT};
    ssize_t n;

    if (poll(&poller, 1, 0) != 1 || (poller.revents & POLLOUT) == 0 ||
        (poller.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
        return false;
    n = write(state.fd, line.ptr, line.len);
    if (n <= 0)
        return false;
    state.torn = (size_t)n < line.len;
    return !state.torn;
}

static void write_event_line(uint64_t now, enum log_level level, const char *event,
                             uint64_t suppressed, const struct log_field *fields)
{
    uint8_t text[LOG_LINE_MAX];
    struct writer w = {.ptr = text, .cap = sizeof text - TAIL_MAX};
    bool fits = true;

    if (state.torn)
        writer_u8(&w, '\n');
    put_log_time(&w, now);
    put_field(&w, log_str("level", level_names[level]));
    put_field(&w, log_str("event", event));
    for (; fields->key != NULL && fits; fields++)
        fits = fields->key[0] == '\0' || put_field(&w, *fields);
    w.cap = sizeof text;
    if (!fits)
        put_field(&w, log_bool("truncated", true));
    if (suppressed > 0)
        put_field(&w, log_u64("suppressed", suppressed));
    writer_str(&w, state.format == LOG_FORMAT_JSON ? "}\n" : "\n");
    if (!write_line((struct slice){text, w.len}))
        state.dropped++;
}

static struct limit *find_limit(const char *kind, const struct rate *rate, uint64_t now)
{
    FOREACH(struct limit, limit, state.limits, state.limit_count) {
        if (limit->rate == rate && (limit->kind == kind || strcmp(limit->kind, kind) == 0))
            return limit;
    }
    if (state.limit_count == KINDS_MAX)
        return &state.limits[KINDS_MAX - 1];
    state.limits[state.limit_count] = (struct limit){
        .kind = kind, .rate = rate, .milli_tokens = rate->burst * 1000, .filled_ms = now};
    return &state.limits[state.limit_count++];
}

/* Whether a line of that kind may pass; a line that may not is counted. */
static bool take_limit_token(struct limit *limit, enum log_level level, uint64_t now)
{
    const struct rate *rate = limit->rate;
    /* The wall clock may jump, back too: that must not underflow. */
    uint64_t passed = now > limit->filled_ms ? now - limit->filled_ms : 0;

    if (passed > rate->burst * 1000 / rate->per_s)
        passed = rate->burst * 1000 / rate->per_s;
    limit->milli_tokens += passed * rate->per_s;
    if (limit->milli_tokens > rate->burst * 1000)
        limit->milli_tokens = rate->burst * 1000;
    limit->filled_ms = now;
    limit->asked_ms = now;
    limit->level = level;
    if (limit->milli_tokens < 1000) {
        limit->suppressed++;
        state.suppressed++;
        return false;
    }
    limit->milli_tokens -= 1000;
    return true;
}

/* Reports dropped lines before the next line, as soon as one can be written. */
static void report_dropped(uint64_t now)
{
    uint64_t before = state.dropped;
    struct log_field fields[] = {log_u64("lines", before - state.reported), LOG_END_};

    if (before == state.reported)
        return;
    write_event_line(now, LOG_WARN, "log_dropped", 0, fields);
    if (state.dropped == before)
        state.reported = before;
    else
        state.dropped = before; /* the notice itself is no loss */
}

void log_write_(enum log_level level, enum log_rate rate, const char *kind, const char *event,
                const struct log_field *fields)
{
    int saved = errno;
    uint64_t now = log_now_ms(), suppressed;
    struct limit *limit = find_limit(kind, &rates[rate], now);

    if (!take_limit_token(limit, level, now))
        return;
    suppressed = limit->suppressed;
    limit->suppressed = 0;
    report_dropped(now);
    write_event_line(now, level, event, suppressed, fields);
    errno = saved;
}

void log_tick(void)
{
    uint64_t now = log_now_ms();

    report_dropped(now);
    FOREACH(struct limit, limit, state.limits, state.limit_count) {
        struct log_field fields[] = {log_str("name", limit->kind), LOG_END_};
        uint64_t suppressed = limit->suppressed;

        if (suppressed == 0 || (now >= limit->asked_ms && now - limit->asked_ms < 1000))
            continue;
        limit->suppressed = 0;
        if (limit->level >= log_lowest_)
            write_event_line(now, limit->level, "log_suppressed", suppressed, fields);
    }
}

struct log_field log_errno(const char *key, int error)
{
    return log_str(key, strerror(error < 0 ? -error : error));
}
