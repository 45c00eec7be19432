/* What a report says to people. See journal.h for the contract. */
#include <inttypes.h>
#include <stdio.h>

#include "store/disk/journal.h"

static void say_damage(const struct journal_report *r, const char *path, char *out, size_t size)
{
    int n;

    if (r->lost == 0) {
        snprintf(out, size,
                 "%s/%s %s (at byte %" PRIu64 "). Nothing was changed. %s back a copy of the "
                 "directory, or start with another one.",
                 path, r->file, r->what, r->offset,
                 r->status == JOURNAL_UNKNOWN
                     ? "If a newer release has written it, start that one. Else put"
                     : "Put");
        return;
    }
    n = snprintf(
        out, size,
        "%s/%s %s (at byte %" PRIu64 "): batch %" PRIu64 " and all behind it cannot be read, "
        "although all up to %" PRIu64 " were written and synced. Nothing was changed. Put back "
        "a copy of the directory, or start with another one.",
        path, r->file, r->what, r->offset, r->lost, r->durable);
    if (n < 0 || (size_t)n >= size || strncmp(r->file, "journal-", 8) != 0)
        return;
    out += n;
    size -= (size_t)n;
    if (r->offset >= FILE_HEADER_SIZE)
        snprintf(out, size,
                 " If you would rather lose these batches, do both: move away all journal files "
                 "with higher numbers, and cut this one: truncate -s %" PRIu64 " %s/%s.",
                 r->offset, path, r->file);
    else
        snprintf(out, size,
                 " If you would rather lose these batches: move away this file and the journal "
                 "files with higher numbers.");
}

static void say_opened(const struct journal_report *r, const char *path, char *out, size_t size)
{
    int n = snprintf(out, size,
                     "%s: snapshot %" PRIu64 " (%" PRIu64 " bytes), then %" PRIu64
                     " batches up to %" PRIu64 " in %zu segments.",
                     path, r->snapshot, r->snapshot_bytes, r->batches, r->last, r->segments);

    if (r->torn_bytes > 0 && n >= 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n,
                 " The last %" PRIu64 " bytes of %s (from byte %" PRIu64
                 ") and %zu segments behind it "
                 "were left out: the process or the machine stopped while writing them, before "
                 "a sync.",
                 r->torn_bytes, r->torn_file, r->torn_offset, r->torn_files);
    else if (r->passed_over[0] != '\0' && n >= 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n,
                 " %s is damaged; the journal since the snapshot before made up for it.",
                 r->passed_over);
}

/* Advice that follows the name of the file and the fault. */
static const char *const advice[] = {
    [JOURNAL_OTHER_VERSION] = ": another release has written it. Start that one, or use another "
                              "directory. Nothing was changed.",
    [JOURNAL_OTHER_ID] = " than the files beside it. Move away what does not belong here. Nothing "
                         "was changed.",
};

void journal_report_text(const struct journal_report *r, const char *path, char *out, size_t size)
{
    switch (r->status) {
    case JOURNAL_OPENED:
        say_opened(r, path, out, size);
        break;
    case JOURNAL_LOCKED:
        snprintf(out, size,
                 "%s is used by another process, which holds %s/%s. End that one, or name another "
                 "directory.",
                 path, path, r->file);
        break;
    case JOURNAL_DAMAGED:
    case JOURNAL_UNKNOWN:
        say_damage(r, path, out, size);
        break;
    case JOURNAL_ERROR:
        snprintf(out, size, "%s: %s %s: %s. Nothing was lost: mend that, and start again.", path,
                 r->file, r->what, strerror(r->error));
        break;
    default:
        snprintf(out, size, "%s/%s %s%s", path, r->file, r->what, advice[r->status]);
    }
}
