/* Lines of metrics, and their answer. See metric.h for the contract. */
#include "rdzv/admin/metric.h"

#include <stdlib.h>

/* --- Lines. --- */

void metric_label(FILE *out, struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        uint8_t byte = value.ptr[i];

        if (byte == '\n')
            fputs("\\n", out);
        else if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else
            putc(byte, out);
    }
}

void metric_durations(FILE *out, const char *name, const char *labels, const struct durations *d,
                      uint64_t first_ns)
{
    const char *comma = *labels == '\0' ? "" : ",", *open = *labels == '\0' ? "" : "{",
               *close = *labels == '\0' ? "" : "}";
    uint64_t count = 0;

    for (int i = 0; i < DURATIONS_BOUNDS; i++) {
        count += d->counts[i];
        fprintf(out, "%s_bucket{%s%sle=\"%.9g\"} %" PRIu64 "\n", name, labels, comma,
                (double)(first_ns << i) / 1e9, count);
    }
    count += d->counts[DURATIONS_BOUNDS];
    fprintf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, count);
    fprintf(out, "%s_sum%s%s%s %.9f\n", name, open, labels, close, (double)d->sum_ns / 1e9);
    fprintf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close, count);
}

/* --- The answer. --- */

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
