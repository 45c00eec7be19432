/* The log's lines, byte for byte, and what becomes of them when nobody reads. */
#include "rdzv/engine/log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define START_MS     UINT64_C(1795208298123) /* 2026-11-20T20:58:18.123Z */

static uint64_t clock_ms;
static int ends[2]; /* of a pipe: the log writes into the second */

static uint64_t test_now(void)
{
    return clock_ms;
}

static void use(enum log_format format, enum log_level level, int fd)
{
    log_init(&(struct log_options){.format = format, .level = level, .fd = fd, .now_ms = test_now});
}

static int close_pipe(void **state)
{
    (void)state;
    close(ends[0]);
    return close(ends[1]);
}

/* What is in the pipe now. */
static const char *written(void)
{
    static char text[1 << 17];
    ssize_t n = 0, total = 0;

    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    while ((n = read(ends[0], text + total, sizeof text - 1 - (size_t)total)) > 0)
        total += n;
    text[total] = '\0';
    return text;
}

/* A fresh pipe and an hour later: every bucket is full again, and what the last
 * test lost is told. */
static int open_pipe(void **state)
{
    static unsigned runs;

    (void)state;
    clock_ms = START_MS + UINT64_C(3600000) * runs++;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    use(LOG_FORMAT_LOGFMT, LOG_INFO, ends[1]);
    log_tick();
    (void)written();
    return 0;
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;

    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

static void a_line_of_logfmt(void **state)
{
    (void)state;
    clock_ms = START_MS;
    use(LOG_FORMAT_LOGFMT, LOG_INFO, ends[1]);
    log_event(LOG_INFO, "listening", log_str("address", "127.0.0.1:41234"),
              log_u64("n", UINT64_MAX), log_i64("i", INT64_MIN), log_bool("yes", true),
              log_if(false, log_str("left", "out")), log_bool("no", false),
              log_if(true, log_errno("error", -ENOENT)), log_errno("again", EAGAIN),
              log_str("none", NULL));
    assert_string_equal(written(),
                        "time=2026-11-20T20:58:18.123Z level=info event=listening "
                        "address=127.0.0.1:41234 n=18446744073709551615 i=-9223372036854775808 "
                        "yes=true no=false error=\"No such file or directory\" "
                        "again=\"Resource temporarily unavailable\" none=\"\"\n");
}

static void a_line_of_json(void **state)
{
    (void)state;
    clock_ms = START_MS;
    use(LOG_FORMAT_JSON, LOG_INFO, ends[1]);
    log_event(LOG_ERROR, "listening", log_if(false, log_u64("left", 1)), log_str("address", "*:1"),
              log_u64("n", 7), log_i64("i", -1), log_bool("yes", true), log_str("none", NULL));
    log_event(LOG_WARN, "bare");
    assert_string_equal(
        written(),
        "{\"time\":\"2026-11-20T20:58:18.123Z\",\"level\":\"error\",\"event\":\"listening\","
        "\"address\":\"*:1\",\"n\":7,\"i\":-1,\"yes\":true,\"none\":\"\"}\n"
        "{\"time\":\"2026-11-20T20:58:18.123Z\",\"level\":\"warn\",\"event\":\"bare\"}\n");
}

static const struct {
    const char *value, *logfmt, *json;
} spellings[] = {
    {"plain-1.2:3/4", "plain-1.2:3/4", "\"plain-1.2:3/4\""},
    {"two words", "\"two words\"", "\"two words\""},
    {"a=b", "\"a=b\"", "\"a=b\""},
    {"say \"hi\"", "\"say \\\"hi\\\"\"", "\"say \\\"hi\\\"\""},
    {"back\\slash", "\"back\\\\slash\"", "\"back\\\\slash\""},
    {"a\nlevel=error", "\"a\\nlevel=error\"", "\"a\\nlevel=error\""},
    {"\t\r", "\"\\t\\r\"", "\"\\t\\r\""},
    {"\x1b[31m", "\"\\x1b[31m\"", "\"\\u001b[31m\""},
    {"\x7f", "\"\\x7f\"", "\"\\u007f\""},
    {"gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\"", "\"gr\xc3\xbc\xc3\x9f\""},
    {"\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\"", "\"\xf0\x9f\x98\x80\""},
    {"\xff\xfe", "\"\\xff\\xfe\"", "\"\\\\xff\\\\xfe\""},
    {"\xc3", "\"\\xc3\"", "\"\\\\xc3\""},                                 /* cut short */
    {"\xc0\xaf", "\"\\xc0\\xaf\"", "\"\\\\xc0\\\\xaf\""},                 /* overlong */
    {"\xed\xa0\x80", "\"\\xed\\xa0\\x80\"", "\"\\\\xed\\\\xa0\\\\x80\""}, /* a surrogate */
    {"\xc2\x9b", "\"\\xc2\\x9b\"", "\"\\u009b\""},                        /* C1's escape */
    {"\xe2\x80\xae", "\"\\xe2\\x80\\xae\"", "\"\\u202e\""},               /* right to left */
};

static void values_are_quoted_where_they_must_be(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(spellings); i++) {
        const char *line;

        use(LOG_FORMAT_LOGFMT, LOG_INFO, ends[1]);
        log_event(LOG_INFO, "e", log_str("v", spellings[i].value));
        line = strstr(written(), " v=");
        assert_non_null(line);
        assert_int_equal(line[strlen(line) - 1], '\n');
        assert_memory_equal(line + 3, spellings[i].logfmt, strlen(spellings[i].logfmt));
        assert_int_equal(strlen(line), strlen(spellings[i].logfmt) + 4);

        use(LOG_FORMAT_JSON, LOG_INFO, ends[1]);
        log_event(LOG_INFO, "e", log_str("v", spellings[i].value));
        line = strstr(written(), ",\"v\":");
        assert_non_null(line);
        assert_memory_equal(line + 5, spellings[i].json, strlen(spellings[i].json));
        assert_string_equal(line + 5 + strlen(spellings[i].json), "}\n");
    }
}

/* Every pair of bytes, so that every start of a UTF-8 sequence meets every follower. */
static void no_bytes_break_a_line(void **state)
{
    (void)state;
    for (unsigned pair = 0; pair < 65536; pair++) {
        uint8_t bytes[] = {(uint8_t)(pair >> 8), (uint8_t)pair};
        enum log_format format = pair % 2 == 0 ? LOG_FORMAT_JSON : LOG_FORMAT_LOGFMT;
        const char *line;

        use(format, LOG_INFO, ends[1]);
        log_event(LOG_INFO, "e", log_bytes("v", (struct slice){bytes, sizeof bytes}));
        clock_ms += 1000; /* no line is one too many */
        line = written();
        if (count_lines(line) != 1 || line[strlen(line) - 1] != '\n')
            fail_msg("bytes %04x: %s", pair, line);
        for (const char *c = line; c[1] != '\0'; c++) {
            if ((unsigned char)*c < 0x20 || *c == 0x7f)
                fail_msg("bytes %04x leave a control character: %s", pair, line);
        }
        if (format == LOG_FORMAT_JSON) {
            cJSON *json = cJSON_Parse(line);

            if (json == NULL || !cJSON_IsString(cJSON_GetObjectItem(json, "v")))
                fail_msg("bytes %04x are no JSON: %s", pair, line);
            cJSON_Delete(json);
        }
    }
}

static void long_values_are_cut_between_characters(void **state)
{
    char value[LOG_VALUE_MAX + 100], expected[LOG_VALUE_MAX + 8];
    const char *line;

    (void)state;
    memset(value, 'x', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    snprintf(expected, sizeof expected, "v=%.*s...\n", LOG_VALUE_MAX, value);
    use(LOG_FORMAT_LOGFMT, LOG_INFO, ends[1]);
    log_event(LOG_INFO, "e", log_str("v", value));
    line = written();
    assert_string_equal(strstr(line, "v=x"), expected);

    for (int shift = 0; shift < 4; shift++) {
        cJSON *json;
        const char *text;

        for (size_t i = 0; i + 4 < sizeof value; i += 4)
            memcpy(value + i, "\xf0\x9f\x98\x80", 4);
        memset(value, 'x', (size_t)shift * 4 + (size_t)shift);
        for (size_t i = (size_t)shift * 5; i + 4 < sizeof value; i += 4)
            memcpy(value + i, "\xf0\x9f\x98\x80", 5);
        use(LOG_FORMAT_JSON, LOG_INFO, ends[1]);
        log_event(LOG_INFO, "e", log_str("v", value));
        json = cJSON_Parse(written());
        assert_non_null(json);
        text = cJSON_GetStringValue(cJSON_GetObjectItem(json, "v"));
        assert_string_equal(text + strlen(text) - 3, "...");
        assert_null(strchr(text, '\\')); /* half a character would be shown as \xNN */
        assert_in_range(strlen(text), LOG_VALUE_MAX, LOG_VALUE_MAX + 3);
        cJSON_Delete(json);
    }
}

static void a_line_too_long_ends_in_whole_fields(void **state)
{
    static const enum log_format formats[] = {LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON};
    char value[LOG_VALUE_MAX + 1];

    (void)state;
    memset(value, '\x01', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    for (size_t i = 0; i < COUNT(formats); i++) {
        const char *line;

        use(formats[i], LOG_INFO, ends[1]);
        log_event(LOG_INFO, "e", log_u64("first", 1), log_str("a", value), log_str("b", value),
                  log_str("c", value), log_u64("last", 1));
        line = written();
        assert_true(strlen(line) <= LOG_LINE_MAX);
        assert_int_equal(count_lines(line), 1);
        assert_non_null(strstr(line, "first"));
        assert_null(strstr(line, "last"));
        if (formats[i] == LOG_FORMAT_JSON) {
            cJSON *json = cJSON_Parse(line);

            assert_non_null(json);
            assert_true(cJSON_IsTrue(cJSON_GetObjectItem(json, "truncated")));
            cJSON_Delete(json);
        } else {
            assert_string_equal(line + strlen(line) - 16, " truncated=true\n");
        }
    }
}

static struct log_field counted(unsigned *calls)
{
    ++*calls;
    return log_u64("calls", *calls);
}

static void a_line_below_the_level_costs_nothing(void **state)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    unsigned calls = 0;

    (void)state;
    for (int level = LOG_DEBUG; level <= LOG_ERROR; level++) {
        for (int line = LOG_DEBUG; line <= LOG_ERROR; line++) {
            unsigned before = calls;
            const char *text;

            use(LOG_FORMAT_LOGFMT, (enum log_level)level, ends[1]);
            log_event((enum log_level)line, "e", counted(&calls));
            text = written();
            assert_int_equal(calls - before, line >= level);
            assert_int_equal(count_lines(text), line >= level);
            if (line >= level)
                assert_non_null(strstr(text, names[line]));
        }
    }
}

static void a_flood_of_one_name_is_held_back(void **state)
{
    uint64_t before = log_suppressed();

    (void)state;
    use(LOG_FORMAT_LOGFMT, LOG_INFO, ends[1]);
    for (int i = 0; i < LOG_BURST + 30; i++)
        log_limited(LOG_INFO, "close");
    assert_int_equal(count_lines(written()), LOG_BURST);
    assert_int_equal(log_suppressed() - before, 30);
    log_limited(LOG_INFO, "other"); /* these have buckets of their own */
    log_limited_as(LOG_INFO, "close_late", "close");
    log_event(LOG_INFO, "close");
    assert_int_equal(count_lines(written()), 3);

    clock_ms += 1000 / LOG_REFILL_PER_S - 1;
    log_limited(LOG_INFO, "close");
    assert_string_equal(written(), "");
    clock_ms += 1;
    log_limited(LOG_INFO, "close", log_u64("n", 1));
    assert_non_null(strstr(written(), "event=close n=1 suppressed=31\n"));
    clock_ms += 1000 / LOG_REFILL_PER_S;
    log_limited(LOG_INFO, "close");
    assert_non_null(strstr(written(), "event=close\n"));
}

/* Ten thousand nodes that come and go: true events, errors, and still no full disk. */
static void a_storm_of_any_event_is_held_back(void **state)
{
    uint64_t before = log_suppressed(), lines = 0;

    (void)state;
    use(LOG_FORMAT_LOGFMT, LOG_INFO, ends[1]);
    for (int second = 0; second < 3; second++) {
        for (int i = 0; i < 10000; i++) {
            log_event(LOG_ERROR, "storm");
            if (i % 500 == 0)
                lines += count_lines(written()); /* a pipe holds no more */
        }
        lines += count_lines(written());
        clock_ms += 1000;
    }
    assert_int_equal(lines, LOG_EVENT_BURST + 2 * LOG_EVENT_REFILL_PER_S);
    assert_int_equal(log_suppressed() - before, 30000 - lines);
    log_event(LOG_INFO, "calm"); /* has a bucket of its own */
    assert_non_null(strstr(written(), "event=calm\n"));
    log_tick();
    assert_non_null(
        strstr(written(), "level=error event=log_suppressed name=storm suppressed=9900\n"));
}

static void what_was_held_back_is_told_when_it_is_quiet(void **state)
{
    (void)state;
    use(LOG_FORMAT_LOGFMT, LOG_INFO, ends[1]);
    for (int i = 0; i < LOG_BURST + 3; i++)
        log_limited(LOG_WARN, "close");
    (void)written();
    clock_ms += 999;
    log_tick();
    assert_string_equal(written(), "");
    clock_ms += 1;
    log_tick();
    assert_non_null(strstr(written(), "level=warn event=log_suppressed name=close suppressed=3\n"));
    clock_ms += 1000;
    log_tick();
    assert_string_equal(written(), "");
}

static void a_clock_that_goes_back_opens_no_flood(void **state)
{
    (void)state;
    use(LOG_FORMAT_LOGFMT, LOG_INFO, ends[1]);
    for (int i = 0; i < LOG_BURST; i++)
        log_limited(LOG_INFO, "close");
    clock_ms -= 1000000;
    log_limited(LOG_INFO, "close");
    assert_int_equal(count_lines(written()), LOG_BURST);
    clock_ms += 1000 / LOG_REFILL_PER_S;
    log_limited(LOG_INFO, "close");
    assert_int_equal(count_lines(written()), 1);
}

static void more_names_than_places_still_pass(void **state)
{
    static char names[200][8];

    (void)state;
    use(LOG_FORMAT_LOGFMT, LOG_INFO, ends[1]);
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(names[i], sizeof names[i], "n%zu", i);
        log_limited(LOG_INFO, names[i]);
    }
    assert_in_range(count_lines(written()), 150, COUNT(names));
}

/* The pipe is full and blocking, and nobody reads: a log that waits would hang here, until the
 * alarm ends the test. */
static void a_full_pipe_costs_lines_and_no_time(void **state)
{
    uint64_t before = log_dropped(), dropped;
    const char *text;
    size_t kept;

    (void)state;
    alarm(30);
    use(LOG_FORMAT_LOGFMT, LOG_INFO, ends[1]);
    for (int i = 0; i < LOG_EVENT_BURST; i++)
        log_event(LOG_INFO, "fill", log_str("text", "sixty-four bytes of text that fill a pipe"));
    dropped = log_dropped() - before;
    assert_true(dropped > 0);
    text = written();
    kept = count_lines(text);
    assert_int_equal(kept + dropped, LOG_EVENT_BURST);
    assert_int_equal(text[strlen(text) - 1], '\n');

    log_event(LOG_INFO, "after");
    text = written();
    assert_int_equal(count_lines(text), 2);
    {
        char expected[64];

        snprintf(expected, sizeof expected, "level=warn event=log_dropped lines=%llu\n",
                 (unsigned long long)dropped);
        assert_non_null(strstr(text, expected));
    }
    log_event(LOG_INFO, "after");
    assert_int_equal(count_lines(written()), 1);
    assert_int_equal(log_dropped() - before, dropped);
    alarm(0);
}

/* In a child, where SIGPIPE has its deadly default. */
static void a_reader_that_left_kills_nobody(void **state)
{
    pid_t child;
    int status;

    (void)state;
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGPIPE, SIG_DFL);
        close(ends[0]);
        use(LOG_FORMAT_LOGFMT, LOG_INFO, ends[1]);
        for (int i = 0; i < 3; i++)
            log_event(LOG_INFO, "e");
        use(LOG_FORMAT_LOGFMT, LOG_INFO, 999); /* no descriptor at all */
        log_event(LOG_INFO, "e");
        _exit(log_dropped() >= 4 ? 0 : 1);
    }
    close(ends[0]);
    ends[0] = dup(ends[1]); /* for close_pipe() */
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A file that may not grow takes half a line. The next starts at a line's start all the same. */
static void half_a_line_is_ended_by_the_next(void **state)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    uint64_t before = log_dropped();
    struct rlimit limit, low;
    char text[4096], *line, *rest = text;
    static const char *const ends_with[] = {"event=whole", NULL, "event=log_dropped lines=1",
                                            "event=after", ""};
    ssize_t n;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    use(LOG_FORMAT_LOGFMT, LOG_INFO, fd);
    log_event(LOG_INFO, "whole");
    low = limit;
    low.rlim_cur = (rlim_t)lseek(fd, 0, SEEK_CUR) + 30;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    log_event(LOG_INFO, "torn");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    log_event(LOG_INFO, "after");
    assert_int_equal(log_dropped() - before, 1);

    n = pread(fd, text, sizeof text - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    for (size_t i = 0; i < COUNT(ends_with); i++) {
        line = strsep(&rest, "\n");
        assert_non_null(line);
        if (ends_with[i] == NULL)
            assert_int_equal(strlen(line), 30);
        else
            assert_string_equal(line + strlen(line) - strlen(ends_with[i]), ends_with[i]);
    }
    assert_null(rest);
    close(fd);
}

/* The same in JSON: the line behind half a line is an object as any other. */
static void the_line_behind_half_a_line_is_whole_json(void **state)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    struct rlimit limit, low;
    char text[4096];
    ssize_t n;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    use(LOG_FORMAT_JSON, LOG_INFO, fd);
    low = limit;
    low.rlim_cur = 30;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    log_event(LOG_INFO, "torn");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    log_event(LOG_INFO, "after");
    n = pread(fd, text, sizeof text - 1, 0);
    assert_true(n > 30);
    text[n] = '\0';
    assert_memory_equal(text + 30, "\n{\"time\":", 9);
    close(fd);
}

static void errno_survives(void **state)
{
    (void)state;
    use(LOG_FORMAT_LOGFMT, LOG_INFO, 999);
    errno = ENOTTY;
    log_event(LOG_INFO, "e");
    assert_int_equal(errno, ENOTTY);
}

static void the_system_clock_is_the_default(void **state)
{
    const char *text;

    (void)state;
    log_init(&(struct log_options){.level = LOG_INFO, .fd = ends[1]});
    log_event(LOG_INFO, "e");
    text = written();
    assert_memory_equal(text, "time=20", 7);
    assert_memory_equal(text + 28, "Z level=info event=e\n", 21);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_pipe, close_pipe)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_line_of_logfmt),
        TEST(a_line_of_json),
        TEST(values_are_quoted_where_they_must_be),
        TEST(no_bytes_break_a_line),
        TEST(long_values_are_cut_between_characters),
        TEST(a_line_too_long_ends_in_whole_fields),
        TEST(a_line_below_the_level_costs_nothing),
        TEST(a_flood_of_one_name_is_held_back),
        TEST(a_storm_of_any_event_is_held_back),
        TEST(what_was_held_back_is_told_when_it_is_quiet),
        TEST(a_clock_that_goes_back_opens_no_flood),
        TEST(a_full_pipe_costs_lines_and_no_time),
        TEST(a_reader_that_left_kills_nobody),
        TEST(half_a_line_is_ended_by_the_next),
        TEST(the_line_behind_half_a_line_is_whole_json),
        TEST(errno_survives),
        TEST(the_system_clock_is_the_default),
        TEST(more_names_than_places_still_pass), /* last: it uses the places up */
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
