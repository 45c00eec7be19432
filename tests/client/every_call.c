/* Every call of librdzv against a real store, in both layers; and the same while allocations fail.
 *
 *     every_call ADDRESS [--queues] [--barrier] [--memory] [--tls CA CERT KEY]
 *
 * --queues, --barrier: the store has them (old backends of torch's have not). --memory: all calls
 * once more for every k, while the k-th allocation of the library fails: each call succeeds or
 * returns RDZV_NO_MEMORY. Prints failures; exits with 0 if there are none. */
#include "client/rdzv_client.h"

#include <err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/refused_memory.h"

char *__wrap_strdup(const char *s)
{
    return allocation_is_refused() ? NULL : __real_strdup(s);
}

/* --- What is expected. --- */

static struct {
    const char *address;
    struct rdzv_tls tls;
    struct rdzv_options options;
    bool queues, barrier;
    bool brief; /* skip the steps that are unrelated to TLS */
    bool hurt;  /* a call failed for want of memory: what comes after it may differ */
} run;

static void expect_(const char *what, int line, bool is)
{
    if (!is && !run.hurt)
        errx(1, "every_call.c:%d: %s", line, what);
}
#define EXPECT(is) expect_(#is, __LINE__, is)

/* Checks a call's status. False: an allocation failed inside the call, so the step must stop. */
static bool status_(struct rdzv_client *c, const char *call, int line, enum rdzv_status got,
                    enum rdzv_status want)
{
    if (got == RDZV_NO_MEMORY && refusal.reached) {
        run.hurt = true;
        return false;
    }
    if (got != want && !run.hurt)
        errx(1, "every_call.c:%d: %s: %s, not %s: %s", line, call, rdzv_status_name(got),
             rdzv_status_name(want), rdzv_client_message(c));
    return got == want;
}
#define STATUS(call, want) status_(c, #call, __LINE__, call, want)
#define OK(call)           STATUS(call, RDZV_OK)

/* It may be there from an earlier round. */
static void clear(struct rdzv_client *c, const char *key)
{
    enum rdzv_status status = rdzv_delete(c, key);

    if (status != RDZV_ABSENT)
        status_(c, key, __LINE__, status, RDZV_OK);
}

static void values(struct rdzv_client *c)
{
    char *value = NULL;
    size_t len = 9;

    OK(rdzv_set(c, "a", "one\0two", 7));
    if (OK(rdzv_get(c, "a", &value, &len))) {
        EXPECT(len == 7 && memcmp(value, "one\0two", 8) == 0);
        free(value);
    }
    OK(rdzv_set(c, "empty", NULL, 0));
    if (OK(rdzv_get(c, "empty", &value, &len))) {
        EXPECT(len == 0 && value[0] == '\0');
        free(value);
    }
    STATUS(rdzv_get(c, "absent", &value, &len), RDZV_ABSENT);
    clear(c, "log");
    OK(rdzv_append(c, "log", "x", 1));
    OK(rdzv_append(c, "log", "yz", 2));
    if (OK(rdzv_get(c, "log", &value, NULL))) {
        EXPECT(strcmp(value, "xyz") == 0);
        free(value);
    }
    OK(rdzv_delete(c, "log"));
    STATUS(rdzv_delete(c, "log"), RDZV_ABSENT);
}

static void numbers(struct rdzv_client *c)
{
    int64_t n = 0;
    char *value = NULL;

    clear(c, "n");
    if (OK(rdzv_add(c, "n", -7, &n)))
        EXPECT(n == -7);
    if (OK(rdzv_add(c, "n", 10, &n)))
        EXPECT(n == 3);
    if (OK(rdzv_get(c, "n", &value, NULL))) {
        EXPECT(strcmp(value, "3") == 0);
        free(value);
    }
}

static void compare_set(struct rdzv_client *c)
{
    static const struct {
        const char *expected, *desired, *now;
    } steps[] = {{"not there", "x", "not there"}, {"", "x", "x"}, {"y", "z", "x"}, {"x", "z", "z"}};

    clear(c, "cas");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char *value = NULL;
        size_t len = 0;

        if (OK(rdzv_compare_set(c, "cas", steps[i].expected, strlen(steps[i].expected),
                                steps[i].desired, strlen(steps[i].desired), &value, &len))) {
            EXPECT(strcmp(value, steps[i].now) == 0 && len == strlen(steps[i].now));
            free(value);
        }
    }
}

static void many(struct rdzv_client *c)
{
    const char *const keys[] = {"m1", "m2", "m3"}, *const more[] = {"m1", "absent"};
    const struct rdzv_bytes in[] = {{"1", 1}, {NULL, 0}, {"333", 3}};
    char *out[3] = {0};
    size_t lens[3] = {0};

    OK(rdzv_multi_set(c, keys, in, 3));
    if (OK(rdzv_multi_get(c, keys, 3, out, lens))) {
        EXPECT(strcmp(out[0], "1") == 0 && strcmp(out[1], "") == 0 && strcmp(out[2], "333") == 0);
        EXPECT(lens[0] == 1 && lens[1] == 0 && lens[2] == 3);
        for (int i = 0; i < 3; i++)
            free(out[i]);
    }
    STATUS(rdzv_multi_get(c, more, 2, out, lens), RDZV_ABSENT);
    OK(rdzv_check(c, keys, 3));
    STATUS(rdzv_check(c, more, 2), RDZV_ABSENT);
    OK(rdzv_wait(c, keys, 3, 1000));
    STATUS(rdzv_wait(c, more, 2, 5), RDZV_TIMEOUT);
    OK(rdzv_ping(c)); /* the connection is in step after a wait that was canceled */
    STATUS(rdzv_check(c, keys, 0), RDZV_INVALID);
}

static bool has(char **keys, const char *key)
{
    while (*keys != NULL && strcmp(*keys, key) != 0)
        keys++;
    return *keys != NULL;
}

static void whole_store(struct rdzv_client *c)
{
    int64_t n = 0;
    char **keys = NULL;
    size_t count = 0;

    if (OK(rdzv_num_keys(c, &n)))
        EXPECT(n >= 6);
    if (run.barrier && OK(rdzv_list_keys(c, &keys, &count))) {
        EXPECT(count >= 6 && has(keys, "m2") && has(keys, "a") && !has(keys, "/a"));
        free(keys);
    }
}

static void queues(struct rdzv_client *c)
{
    const char *const name = "q";
    char *value = NULL;
    size_t len = 0;
    int64_t n = 0;

    while (rdzv_queue_pop(c, name, NULL, NULL) == RDZV_OK)
        continue; /* what an earlier round has left */
    OK(rdzv_queue_push(c, name, "first", 5));
    OK(rdzv_queue_push(c, name, "", 0));
    OK(rdzv_wait(c, &name, 1, 1000));
    if (OK(rdzv_queue_len(c, name, &n)))
        EXPECT(n == 2);
    if (OK(rdzv_queue_pop(c, name, &value, &len))) {
        EXPECT(strcmp(value, "first") == 0 && len == 5);
        free(value);
    }
    if (OK(rdzv_queue_pop(c, name, &value, &len))) {
        EXPECT(len == 0);
        free(value);
    }
    STATUS(rdzv_queue_pop(c, name, NULL, NULL), RDZV_ABSENT);
}

static void barriers(struct rdzv_client *c)
{
    clear(c, "b");
    STATUS(rdzv_barrier(c, "b", 2, 5), RDZV_TIMEOUT); /* it has arrived */
    OK(rdzv_barrier(c, "b", 2, 1000));
}

/* --- Requests that do not block. --- */

struct told {
    int ok, other;
};

static void on_done(struct rdzv_request *r, const struct rdzv_result *result, void *arg)
{
    struct told *told = arg;

    if (result->status == RDZV_OK)
        told->ok++;
    else
        told->other++;
    if (result->status == RDZV_NO_MEMORY)
        run.hurt = true;
    rdzv_request_free(r);
}

static void turn(struct rdzv_client *c)
{
    struct pollfd p = {.fd = rdzv_client_fd(c), .events = POLLIN};

    if (poll(&p, 1, 10000) <= 0)
        errx(1, "nothing happens for 10 s");
    rdzv_client_process(c);
}

#define MANY 40

/* Many at once: the answers come in order, and the SETs are in one segment with the ADDs. */
static void pipelined(struct rdzv_client *c)
{
    struct told told = {0};
    int submitted = 0;

    for (int i = 0; i < MANY; i++) {
        struct rdzv_op op = {.kind = i % 2 == 0    ? RDZV_SET
                                     : i % 10 == 1 ? RDZV_GET
                                                   : RDZV_PING,
                             .key = {"p", 1},
                             .value = {"v", 1},
                             .done = on_done,
                             .arg = &told};
        struct rdzv_request *r;

        if (OK(rdzv_submit(c, &op, &r)))
            submitted++;
    }
    while (told.ok + told.other < submitted)
        turn(c);
    EXPECT(told.ok == MANY);
}

static struct rdzv_request *start(struct rdzv_client *c, enum rdzv_kind kind, const char *key,
                                  struct told *told)
{
    const struct rdzv_bytes k = {key, strlen(key)};
    const struct rdzv_op op = {.kind = kind,
                               .key = k,
                               .keys = &k,
                               .count = 1,
                               .value = {"v", 1},
                               .number = 1,
                               .timeout_ms = RDZV_FOREVER,
                               .done = told == NULL ? NULL : on_done,
                               .arg = told};
    struct rdzv_request *r = NULL;

    if (!OK(rdzv_submit(c, &op, &r)))
        return NULL;
    return r;
}

/* A wait that is canceled under way, with a request behind it; one that is freed; one before it was
 * sent. The connection stays in step. */
static void canceled(struct rdzv_client *c)
{
    struct told told = {0};
    struct rdzv_request *wait, *add, *unsent;

    clear(c, "never");
    wait = start(c, RDZV_WAIT, "never", &told);
    add = start(c, RDZV_ADD, "counted", NULL);
    unsent = start(c, RDZV_SET, "never", &told);
    if (wait != NULL && add != NULL && unsent != NULL) {
        EXPECT(rdzv_request_result(add) == NULL);
        rdzv_request_cancel(unsent);
        EXPECT(rdzv_request_result(unsent)->status == RDZV_CANCELED);
        rdzv_request_cancel(wait);
        while (rdzv_request_result(add) == NULL)
            turn(c);
        EXPECT(rdzv_request_result(add)->status == RDZV_OK);
        EXPECT(rdzv_request_result(wait)->status == RDZV_CANCELED);
        EXPECT(told.ok == 0 && told.other == 0);
    }
    rdzv_request_free(unsent);
    rdzv_request_free(add);
    rdzv_request_free(wait);
    rdzv_request_free(start(c, RDZV_WAIT, "never", &told)); /* and is forgotten at once */
    rdzv_request_free(start(c, RDZV_ADD, "counted", &told));
    OK(rdzv_ping(c));
    STATUS(rdzv_get(c, "never", NULL, NULL), RDZV_ABSENT);
}

/* Two clients; the one that waits hears of the other's SET, and of nothing before. */
static void woken(struct rdzv_client *c)
{
    struct rdzv_client *other = NULL;
    struct rdzv_request *wait;

    clear(c, "wake");
    wait = start(c, RDZV_WAIT, "wake", NULL);
    if (wait != NULL && OK(rdzv_client_new(run.address, &run.options, &other))) {
        if (OK(rdzv_set(other, "wake", "up", 2)))
            while (rdzv_request_result(wait) == NULL)
                turn(c);
    }
    rdzv_client_free(other);
    rdzv_request_free(wait);
}

/* Frees a client with pending requests: the requests end, their callbacks are not called, and the
 * caller can free them. */
static void left(struct rdzv_client *c)
{
    struct told told = {0};
    struct rdzv_client *other = NULL;
    struct rdzv_request *wait, *get;

    if (!OK(rdzv_client_new(run.address, &run.options, &other)))
        return;
    wait = start(other, RDZV_WAIT, "never", &told);
    get = start(other, RDZV_GET, "a", &told);
    rdzv_client_free(other);
    if (wait != NULL && get != NULL && !refusal.reached)
        EXPECT(rdzv_request_result(wait)->status == RDZV_CANCELED &&
               rdzv_request_result(get)->status == RDZV_CANCELED);
    EXPECT(told.ok == 0 && told.other == 0);
    rdzv_request_free(wait);
    rdzv_request_free(get);
}

static void large(struct rdzv_client *c)
{
    size_t len = 3u << 20, got = 0;
    char *big = __real_malloc(len), *value = NULL;

    memset(big, 'B', len);
    OK(rdzv_set(c, "big", big, len));
    if (OK(rdzv_get(c, "big", &value, &got))) {
        EXPECT(got == len && memcmp(value, big, len) == 0);
        free(value);
    }
    free(big);
    STATUS(rdzv_delete(c, "big"), RDZV_OK);
}

static void every_step(struct rdzv_client *c)
{
    values(c);
    if (run.brief) {
        woken(c);
        large(c);
        return;
    }
    numbers(c);
    compare_set(c);
    many(c);
    whole_store(c);
    if (run.queues)
        queues(c);
    if (run.barrier)
        barriers(c);
    pipelined(c);
    canceled(c);
    woken(c);
    left(c);
    large(c);
}

static void once(void)
{
    struct rdzv_client *c = NULL;

    if (rdzv_client_new(run.address, &run.options, &c) != RDZV_OK) {
        if (!refusal.reached)
            errx(1, "rdzv_client_new");
        return;
    }
    every_step(c);
    rdzv_client_free(c);
}

static int all_failures(void)
{
    long k = 0;

    do {
        run.hurt = refusal.reached = false;
        refusal.countdown = ++k;
        once();
    } while (refusal.reached);
    refusal.countdown = 0;
    printf("%ld allocations failed, one at a time\n", k - 1);
    return k > (run.brief ? 30 : 100) ? 0 : 1; /* or it was not the library's that failed */
}

int main(int argc, char **argv)
{
    bool memory = false;

    if (argc < 2)
        errx(2, "usage: every_call ADDRESS [--queues] [--barrier] [--memory] [--tls CA CERT KEY]");
    run.address = argv[1];
    run.options.timeout_ms = 10000;
    for (int i = 2; i < argc; i++) {
        run.queues |= strcmp(argv[i], "--queues") == 0;
        run.barrier |= strcmp(argv[i], "--barrier") == 0;
        memory |= strcmp(argv[i], "--memory") == 0;
        if (strcmp(argv[i], "--tls") == 0 && i + 3 < argc) {
            run.tls = (struct rdzv_tls){
                .ca_file = argv[i + 1], .cert_file = argv[i + 2], .key_file = argv[i + 3]};
            run.options.tls = &run.tls;
        }
    }
    once();
    run.brief = run.options.tls != NULL;
    return memory ? all_failures() : 0;
}
