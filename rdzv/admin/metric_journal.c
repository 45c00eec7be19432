/* The metrics of a store's journal. See metric_journal.h. */
#include "rdzv/admin/metric_journal.h"

#include "rdzv/admin/metric.h"
#include "rdzv/engine/data_dir.h"
#include "rdzv/etcd3/journal_etcd.h"

static void write_files(FILE *out, const struct data_dir *data)
{
    const struct journal_writer_stats *s = data_dir_stats(data);
    struct journal_writer_disk disk;

    data_dir_disk(data, &disk);
    metric_counter(out, "rdzvd_journal_batches_total", "Batches of changes that were appended.",
                   s->batches);
    metric_counter(out, "rdzvd_journal_bytes_total", "Bytes of those.", s->bytes);
    metric_counter(out, "rdzvd_journal_failures_total", "Writes and syncs that failed, each try.",
                   s->failures);
    metric_gauge(out, "rdzvd_journal_refuses_changes",
                 "1 while no change is taken; /readyz says why.",
                 engine_refuses(data->engine) != NULL);
    metric_gauge(out, "rdzvd_journal_snapshot_bytes", "Size of the newest snapshot.",
                 s->snapshot_bytes);
    metric_counter(out, "rdzvd_journal_snapshots_total", "Snapshots that were written.",
                   s->snapshots);
    metric_head(out, "rdzvd_journal_sync_seconds", "histogram", "How long syncs took.");
    metric_durations(out, "rdzvd_journal_sync_seconds", "", &disk.syncs, SYNC_FIRST_NS);
    metric_head(out, "rdzvd_journal_slowest_sync_seconds", "gauge", "The longest of them.");
    fprintf(out, "rdzvd_journal_slowest_sync_seconds %.6f\n", (double)s->slowest_sync_ns / 1e9);
    metric_gauge(out, "rdzvd_journal_uncovered_bytes", "Bytes that a start would replay.",
                 s->bytes_behind);
    metric_gauge(out, "rdzvd_journal_unsynced_bytes", "Bytes that no sync has covered yet.",
                 s->pending_bytes);
    metric_gauge(out, "rdzvd_data_dir_free_bytes",
                 "Bytes that rdzvd may still take of the file system of --data-dir.", disk.free);
    metric_gauge(out, "rdzvd_data_dir_size_bytes", "Size of that file system.", disk.size);
}

static void write_etcd(FILE *out, const struct engine *e)
{
    const struct journal_etcd_stats *s = journal_etcd_stats(e->journal_etcd);

    metric_gauge(out, "rdzvd_journal_leads", "1 while this replica leads.", s->leads);
    metric_counter(out, "rdzvd_journal_batches_total", "Batches of changes that were appended.",
                   s->batches);
    metric_counter(out, "rdzvd_journal_bytes_total", "Bytes of those.", s->bytes);
    metric_counter(out, "rdzvd_journal_commits_total",
                   "Transactions with which etcd has taken them.", s->commits);
    metric_counter(out, "rdzvd_journal_commits_repeated_total",
                   "Transactions that were sent once more, since no answer came.", s->repeats);
    metric_counter(out, "rdzvd_journal_failures_total", "Writes and syncs that failed, each try.",
                   s->failures);
    metric_head(out, "rdzvd_journal_slowest_commit_seconds", "gauge",
                "The longest that one has taken, all tries together.");
    fprintf(out, "rdzvd_journal_slowest_commit_seconds %.6f\n", (double)s->slowest_ns / 1e9);
    metric_gauge(out, "rdzvd_journal_refuses_changes",
                 "1 while no change is taken; /readyz says why.", engine_refuses(e) != NULL);
    metric_gauge(out, "rdzvd_journal_index", "The newest entry of the log that is known here.",
                 s->index);
    metric_gauge(out, "rdzvd_journal_snapshot_bytes", "Size of the newest snapshot.",
                 s->snapshot_bytes);
    metric_counter(out, "rdzvd_journal_snapshots_total", "Snapshots that were written.",
                   s->snapshots);
    metric_gauge(out, "rdzvd_journal_uncovered_bytes", "Bytes that a start would replay.",
                 s->bytes_behind);
    metric_gauge(out, "rdzvd_journal_unsynced_bytes", "Bytes that no sync has covered yet.",
                 s->pending_bytes);
}

void metrics_write_journal(FILE *out, const struct engine *e)
{
    if (e->data_dir != NULL)
        write_files(out, e->data_dir);
    else if (e->journal_etcd != NULL)
        write_etcd(out, e);
}
