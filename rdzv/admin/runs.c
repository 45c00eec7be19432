/* Torch's runs over HTTP. See runs.h for the contract. */
#include "rdzv/admin/runs.h"

#include "proto/json.h"
#include "rdzv/admin/access.h"
#include "rdzv/admin/runs_text.h"
#include "rdzv/http/access.h"
#include "rdzv/http/body.h"
#include "rdzv/http/job.h"
#include "rdzv/http/reply.h"

static const struct reply ok = {.status = 200, .content_type = HTTP_JSON};

struct runs_job {
    struct http_job job; /* the first member */
    struct runs_text text;
};

static void free_job(struct http_job *job)
{
    struct runs_job *j = (struct runs_job *)(void *)job;

    runs_text_end(&j->text);
    reply_body_drop(&j->text.body);
    account_free(ACCOUNT_ANSWERS, j, sizeof *j);
}

static enum http_job_state run_job(struct http_job *job, const struct http_request *r)
{
    struct runs_job *j = (struct runs_job *)(void *)job;

    if (!runs_text_go_on(&j->text, http_engine(r)->options.clock, HTTP_SLICE_NS))
        return HTTP_JOB_GOES_ON;
    if (j->text.no_memory)
        reply_no_memory(r);
    else
        reply_body_send(r, &ok, &j->text.body);
    return HTTP_JOB_DONE;
}

/* `run` NULL: all of them. */
static void show(const struct http_request *r, const struct engine_space *space,
                 const struct run *run)
{
    struct runs_job *j = account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, sizeof *j);

    if (j == NULL) {
        reply_no_memory(r);
        return;
    }
    j->job = (struct http_job){.run = run_job, .free = free_job, .no_use = true};
    if (run == NULL)
        runs_text_begin(&j->text, space);
    else
        runs_text_begin_one(&j->text, run);
    if (run_job(&j->job, r) == HTTP_JOB_GOES_ON)
        http_start_job(r, &j->job, HTTP_JOB_GOES_ON);
    else
        free_job(&j->job);
}

static void show_one(const struct http_request *r, const struct engine_space *space,
                     struct slice id)
{
    const struct run *run = rendezvous_find(space, id);

    if (run == NULL)
        REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such run: "), id);
    else
        show(r, space, run);
}

static void forget_run(const struct http_request *r, struct engine_space *space, struct slice id)
{
    const struct run *run;
    struct reply_body body;
    uint64_t removed;

    if (!http_may_change_daemon(r))
        return;
    run = rendezvous_find(space, id);
    if (run == NULL) {
        REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such run: "), id);
        return;
    }
    removed = rendezvous_forget(run);
    reply_body_begin(&body);
    writer_str(&body.w, "{\"run\":");
    json_string(&body.w, id);
    writer_str(&body.w, ",\"removed\":");
    json_u64(&body.w, removed);
    writer_str(&body.w, "}\n");
    reply_body_send(r, &ok, &body);
}

void admin_runs_handle(const struct http_request *r, struct engine_space *space, struct slice name,
                       struct slice rest)
{
    bool reads = http_is_reading(r);

    if (space == NULL)
        REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such space: "), name);
    else if (rest.len == 0 && reads)
        show(r, space, NULL);
    else if (rest.len == 0)
        reply_not_allowed(r, "GET,HEAD", HTTP_ETCD_NONE);
    else if (r->head->method == HTTP_DELETE)
        forget_run(r, space, slice_from(rest, 1));
    else if (reads)
        show_one(r, space, slice_from(rest, 1));
    else
        reply_not_allowed(r, "GET,HEAD,DELETE", HTTP_ETCD_NONE);
}
