/* Lines of Prometheus's text format. See metric_text.h. */
#include "rdzv/admin/metric_text.h"

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
