/* /rdzv/v1/status. See handlers.h for the contract. */
#include "rdzv/admin/status.h"

#include "rdzv/admin/handlers.h"
#include "rdzv/http/access.h"

#define ROUNDS_OF_ALL 5 /* of each run, if the answer is about all spaces, and in a stream */

struct status_job {
    struct http_job job;
    struct status_text text;
};

static void status_job_free(struct http_job *job)
{
    struct status_job *j = (struct status_job *)job; /* its first member */

    status_text_end(&j->text);
    reply_body_drop(&j->text.body);
    account_free(ACCOUNT_ANSWERS, j, sizeof *j);
}

static enum http_job_state status_job_run(struct http_job *job, const struct http_request *r)
{
    struct status_job *j = (struct status_job *)job;

    if (!status_text_go_on(&j->text, HTTP_SLICE_NS))
        return HTTP_JOB_GOES_ON;
    writer_u8(&j->text.body.w, '\n');
    reply_body_send(r, &(struct reply){.status = 200, .content_type = HTTP_JSON, .no_store = true},
                    &j->text.body);
    return HTTP_JOB_DONE;
}

static void start_status_job(const struct http_request *r, const struct status_scope *scope)
{
    struct status_job *j = account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, sizeof *j);

    if (j == NULL) {
        reply_no_memory(r);
        return;
    }
    j->job = (struct http_job){.run = status_job_run, .free = status_job_free, .no_use = true};
    status_text_begin(&j->text, scope);
    if (status_job_run(&j->job, r) == HTTP_JOB_GOES_ON)
        http_start_job(r, &j->job, HTTP_JOB_GOES_ON);
    else
        status_job_free(&j->job);
}

static bool wants_stream(const struct http_request *r)
{
    struct url_error why;
    struct slice value;

    return r->head->method == HTTP_GET && url_check_form(r->query, &why) &&
           url_find_param((struct slice){0}, r->query, "watch", &value) && slice_is(value, "true");
}

static void reply_status(const struct http_request *r, const struct engine_space *space,
                         bool single)
{
    bool streamed = wants_stream(r);
    const struct status_scope scope = {
        .net = conn_net(r->conn),
        .space = space,
        .is_single = single,
        .has_requests = !single && http_shows_daemon(r, space == NULL),
        .form = {.streamed = streamed,
                 .rounds = single && !streamed ? HISTORY_ROUNDS : ROUNDS_OF_ALL},
    };

    if (!http_is_reading(r))
        reply_not_allowed(r, "GET,HEAD", HTTP_ETCD_NONE);
    else if (streamed)
        status_feed_join(r, &scope);
    else
        start_status_job(r, &scope);
}

void admin_status_handle(const struct http_request *r)
{
    reply_status(r, http_shows_all_spaces(r) ? NULL : r->space, false);
}

void admin_space_status_handle(const struct http_request *r, struct engine_space *space,
                               struct slice name)
{
    if (space == NULL)
        REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such space: "), name);
    else
        reply_status(r, space, true);
}
