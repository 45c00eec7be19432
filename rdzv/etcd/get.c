/* GET of /v2/keys. See get.h for the contract. */
#include "rdzv/etcd/get.h"

#include "rdzv/http/body.h"
#include "rdzv/http/job.h"
#include "store/tree/tree_reader.h"

void etcd_reply_error(const struct http_request *r, enum etcd_code code, struct slice cause,
                      uint64_t index)
{
    struct reply_body body;

    reply_body_begin(&body);
    etcd_write_error(&body.w, code, cause, index);
    reply_body_send(r,
                    &(struct reply){.status = etcd_status(code),
                                    .content_type = HTTP_JSON,
                                    .etcd = HTTP_ETCD_ERROR,
                                    .index = index},
                    &body);
}

/* Where torch's etcd-v2 backend keeps the agents' keys. The agents of 2.4 list it before any of
 * them has made it and take its absence for a fault (pytorch #132950), so it is there before its
 * time. */
#define TORCH_STORE "/torch/elastic/store"

static bool is_torch_store(const struct http_request *r, struct slice key)
{
    return slice_is(key, TORCH_STORE) && r->http->config->elastic.fixes;
}

static void reply_torch_store(const struct http_request *r, const struct reply *reply)
{
    struct reply_body body;

    reply_body_begin(&body);
    writer_str(&body.w,
               "{\"action\":\"get\",\"node\":{\"key\":\"" TORCH_STORE "\",\"dir\":true}}\n");
    reply_body_send(r, reply, &body);
}

static struct reply reply_at(uint64_t index)
{
    return (struct reply){
        .status = 200, .content_type = HTTP_JSON, .etcd = HTTP_ETCD_KEYS, .index = index};
}

/* --- In slices. --- */

struct get_job {
    struct http_job job;
    struct tree_reader *reader;
    uint64_t index; /* of the tree when it began */
};

static void free_job(struct http_job *job)
{
    struct get_job *j = (struct get_job *)job; /* its first member */

    tree_reader_close(j->reader);
    account_free(ACCOUNT_ANSWERS, j, sizeof *j);
}

static enum http_job_state run_job(struct http_job *job, const struct http_request *r)
{
    struct get_job *j = (struct get_job *)job;
    struct reply reply = reply_at(j->index);

    switch (tree_reader_run(j->reader, HTTP_SLICE_NS)) {
    case TREE_READ_MORE:
        return HTTP_JOB_GOES_ON;
    case TREE_READ_DONE:
        reply.parts = tree_reader_result(j->reader);
        reply_send(r, &reply);
        return HTTP_JOB_DONE;
    default:
        reply_no_memory(r);
        return HTTP_JOB_DONE;
    }
}

static void start_reading(const struct http_request *r, const struct node *n,
                          const struct etcd_request *q)
{
    struct tree *t = &r->space->store->tree;
    struct get_job *j = account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, sizeof *j);

    if (j == NULL) {
        reply_no_memory(r);
        return;
    }
    *j = (struct get_job){.job = {.run = run_job, .free = free_job}, .index = t->index};
    j->reader = tree_reader_open(t, n, q->recursive, q->sorted, engine_wall_ns(http_engine(r)));
    if (j->reader == NULL)
        reply_no_memory(r);
    else if (run_job(&j->job, r) == HTTP_JOB_GOES_ON) {
        http_start_job(r, &j->job, HTTP_JOB_GOES_ON);
        return;
    }
    free_job(&j->job);
}

/* --- The whole. --- */

static void reply_small(const struct http_request *r, const struct node *n,
                        const struct etcd_request *q)
{
    struct tree *t = &r->space->store->tree;
    const struct reply reply = reply_at(t->index);
    struct reply_body body;

    reply_body_begin(&body);
    if (tree_write_get(t, n, q->recursive, q->sorted, engine_wall_ns(http_engine(r)), &body.w)) {
        reply_body_send(r, &reply, &body);
        return;
    }
    reply_body_drop(&body);
    reply_no_memory(r);
}

void etcd_reply_get(const struct http_request *r, struct slice key, const struct etcd_request *q)
{
    struct tree *t = &r->space->store->tree;
    const struct reply reply = reply_at(t->index);
    const struct node *n;
    struct slice where;
    enum etcd_code code = tree_get(t, key, &n, &where);

    if (code == ETCD_KEY_NOT_FOUND && is_torch_store(r, key)) {
        reply_torch_store(r, &reply);
    } else if (code != ETCD_OK) {
        etcd_reply_error(r, code, where, t->index);
    } else if (tree_is_small(t, n)) {
        reply_small(r, n, q);
    } else if (conn_begin_costly(r->conn)) {
        start_reading(r, n, q);
    } else {
        tree_take_back_get(t);
        reply_later(r);
    }
}
