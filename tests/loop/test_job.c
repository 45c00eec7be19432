/* Replies that are not finished when their endpoint returns, of http/session.h: with an endpoint of
 * the test's own in a whole server. */
#include "rdzv/http/session.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/loop/harness.h"

#define TEXT(s) (s), sizeof(s) - 1

/* The next states of the jobs, and a record of their calls. */
static struct {
    enum http_job_state next[8]; /* of each call; then it is done */
    bool drops;                  /* the last call drops the connection */
    bool starts_another;         /* the last call starts one more job instead of a reply */
    unsigned runs, frees;
    struct conn *conn;
} job;

static void free_job(struct http_job *j)
{
    job.frees++;
    free(j);
}

static enum http_job_state run(struct http_job *j, const struct http_request *r);

static struct http_job *new_job(void)
{
    struct http_job *j = malloc(sizeof *j);

    assert_non_null(j);
    *j = (struct http_job){.run = run, .free = free_job};
    return j;
}

/* The request is what it was when the endpoint saw it. */
static enum http_job_state run(struct http_job *j, const struct http_request *r)
{
    enum http_job_state next = job.next[job.runs];

    (void)j;
    job.runs++;
    assert_true(slice_is(r->path, "/job"));
    assert_true(slice_is(r->query, "a=b"));
    assert_true(slice_is(r->body, r->head->method == HTTP_PUT ? "body" : ""));
    if (next != HTTP_JOB_DONE)
        return next;
    if (job.drops)
        conn_drop(r->conn, DROP_NO_MEMORY, "the test says so", (struct slice){0});
    else if (job.starts_another)
        http_start_job(r, new_job(), HTTP_JOB_CONTINUES);
    else
        reply_send(r, &(struct reply){.status = 200, .body = slice_str("done")});
    job.starts_another = false;
    return HTTP_JOB_DONE;
}

static void start(const struct http_request *r)
{
    job.conn = r->conn;
    http_start_job(r, new_job(), job.next[0]);
    memmove(&job.next[0], &job.next[1], sizeof job.next - sizeof job.next[0]);
}

static void quick(const struct http_request *r)
{
    reply_send(r, &(struct reply){.status = 200, .body = slice_str("quick")});
}

static const struct http_route routes[] = {
    {"/job", ROUTE_EXACT, NULL, start, ROUTE_FAST | ROUTE_USES_STORE, NULL},
    {"/quick", ROUTE_EXACT, NULL, quick, ROUTE_FAST, NULL},
    {.path = NULL},
};

#define JOB   "GET /job?a=b HTTP/1.1\r\nHost: x\r\n\r\n"
#define PUT   "PUT /job?a=b HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"
#define QUICK "GET /quick HTTP/1.1\r\nHost: x\r\n\r\n"

static void open_loop(void)
{
    memset(&job, 0, sizeof job);
    loop_open(&loop, NULL);
    loop.server.http.routes = routes;
}

static void close_loop(void)
{
    loop_close(&loop);
    assert_true(loop.server.engine.uses == 0);
}

static void expect(int fd, const char *body)
{
    char got[64];

    assert_int_equal(loop_expect_answer(&loop, fd, got, sizeof got), 200);
    assert_string_equal(got, body);
}

/* Others are served between its slices, requests behind it are not. */
static void a_job_runs_in_slices(void **state)
{
    static const char *const requests[] = {JOB QUICK, PUT QUICK};
    int fd, other;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        open_loop();
        for (int k = 0; k < 5; k++)
            job.next[k] = HTTP_JOB_CONTINUES;
        fd = loop_connect(&loop, false);
        other = loop_connect(&loop, false);
        loop_send_text(&loop, fd, requests[i]);
        LOOP_UNTIL(&loop, job.runs == 1);
        loop_send_text(&loop, other, QUICK);
        loop_expect_answer(&loop, other, NULL, 0);
        assert_in_range(job.runs, 1, 4);
        expect(fd, "done");
        expect(fd, "quick");
        assert_int_equal(job.runs, 5);
        assert_int_equal(job.frees, 1);
        loop_leave(&loop, fd);
        loop_leave(&loop, other);
        assert_int_equal(loop.server.engine.stats.http_requests, 3);
        close_loop();
    }
}

/* It is not called, and the loop may sleep. */
static void a_job_that_waits_is_called_when_it_is_woken(void **state)
{
    int fd;

    (void)state;
    open_loop();
    job.next[0] = job.next[1] = HTTP_JOB_WAITS;
    fd = loop_connect(&loop, false);
    loop_send_text(&loop, fd, JOB QUICK);
    LOOP_UNTIL(&loop, job.conn != NULL && job.conn->input == INPUT_PARKED);
    loop_expect_silence(&loop, fd);
    assert_int_equal(job.runs, 0);
    assert_false(transport_has_work(&loop.server.net));
    assert_int_equal(job.conn->stalled_ms, 0);
    for (unsigned runs = 1; runs <= 2; runs++) {
        http_wake_job(job.conn);
        LOOP_UNTIL(&loop, job.runs == runs);
    }
    expect(fd, "done");
    expect(fd, "quick");
    assert_int_equal(job.frees, 1);
    loop_leave(&loop, fd);
    close_loop();
}

/* Of a client that shuts its own side only, the reply is still sent. */
static void a_half_closed_client_gets_the_reply(void **state)
{
    int fd;

    (void)state;
    open_loop();
    job.next[0] = HTTP_JOB_WAITS;
    job.next[1] = HTTP_JOB_CONTINUES;
    fd = loop_connect(&loop, false);
    loop_send_text(&loop, fd, JOB);
    shutdown(fd, SHUT_WR);
    LOOP_UNTIL(&loop, job.conn != NULL && job.conn->end == CONN_PEER_ENDED);
    assert_int_equal(job.frees, 0);
    http_wake_job(job.conn);
    expect(fd, "done");
    loop_expect_end(&loop, fd);
    assert_int_equal(job.frees, 1);
    close(fd);
    close_loop();
}

static void a_connection_that_ends_takes_its_job_along(void **state)
{
    const struct linger reset = {.l_onoff = 1};
    int fd;

    (void)state;
    open_loop();
    job.next[0] = HTTP_JOB_WAITS;
    fd = loop_connect(&loop, false);
    loop_send_text(&loop, fd, JOB);
    LOOP_UNTIL(&loop, job.conn != NULL && job.conn->input == INPUT_PARKED);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    loop_leave(&loop, fd);
    assert_int_equal(job.runs, 0);
    assert_int_equal(job.frees, 1);
    close_loop();
}

static void a_job_may_drop_its_connection(void **state)
{
    int fd;

    (void)state;
    open_loop();
    job.next[0] = HTTP_JOB_CONTINUES;
    job.drops = true;
    fd = loop_connect(&loop, false);
    loop_send_text(&loop, fd, JOB QUICK);
    loop_expect_end(&loop, fd);
    assert_int_equal(job.frees, 1);
    close(fd);
    close_loop();
}

static void a_job_may_start_another(void **state)
{
    int fd;

    (void)state;
    open_loop();
    job.next[0] = HTTP_JOB_CONTINUES;
    job.starts_another = true;
    fd = loop_connect(&loop, false);
    loop_send_text(&loop, fd, JOB);
    expect(fd, "done");
    assert_int_equal(job.runs, 2);
    assert_int_equal(job.frees, 2);
    loop_leave(&loop, fd);
    close_loop();
}

/* When the daemon receives the signal to stop, it finishes jobs that have begun, and begins no
 * others. */
static void a_daemon_that_stops_finishes_its_jobs(void **state)
{
    int fd;

    (void)state;
    open_loop();
    job.next[0] = HTTP_JOB_WAITS;
    fd = loop_connect(&loop, false);
    loop_send_text(&loop, fd, JOB QUICK);
    LOOP_UNTIL(&loop, job.conn != NULL && job.conn->input == INPUT_PARKED);
    raise(SIGTERM);
    LOOP_UNTIL(&loop, loop.server.net.draining);
    loop_iterate(&loop);
    assert_int_equal(job.frees, 0);
    http_wake_job(job.conn);
    expect(fd, "done");
    loop_expect_end(&loop, fd);
    assert_int_equal(job.frees, 1);
    close(fd);
    close_loop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_runs_in_slices),
        cmocka_unit_test(a_job_that_waits_is_called_when_it_is_woken),
        cmocka_unit_test(a_half_closed_client_gets_the_reply),
        cmocka_unit_test(a_connection_that_ends_takes_its_job_along),
        cmocka_unit_test(a_job_may_drop_its_connection),
        cmocka_unit_test(a_job_may_start_another),
        cmocka_unit_test(a_daemon_that_stops_finishes_its_jobs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
