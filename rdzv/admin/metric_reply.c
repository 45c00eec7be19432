/* Answers GET /metrics. See metric_reply.h for the contract. */
#include "rdzv/admin/metric_reply.h"

#include <stdlib.h>

/* What a request is charged for the system calls that it takes. */
#define METRICS_COST (32u << 10)

/* NULL: there is no memory for it. The text is the caller's, who frees it. */
static char *text_of(const struct http_request *r, metric_write_fn *write, const void *arg,
                     size_t *len)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, len);

    if (out == NULL)
        return NULL;
    write(out, r, arg);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

void metric_reply(const struct http_request *r, uint64_t cost, metric_write_fn *write,
                  const void *arg)
{
    size_t len = 0;
    char *text;

    account_give_spare();
    text = text_of(r, write, arg, &len);
    conn_charge(r->conn, METRICS_COST + cost + len);
    if (text == NULL)
        reply_send(r, &(struct reply){.status = 500});
    else
        reply_send(r, &(struct reply){
                          .status = 200,
                          .content_type = "text/plain; version=0.0.4; charset=utf-8",
                          .body = {(const uint8_t *)text, len},
                      });
    free(text);
    account_keep_spare();
}
