/* Files of a data directory, of any content: no start reads beyond them, hands on what no intact
 * frame has, or changes anything when it refuses; and what has once been started starts again, with
 * the same batches.
 *
 * An input is a list of files: a byte for the kind (its lowest bit) and the number in the name (the
 * others), u16 for the length, and the bytes. Inputs seldom have the right checksums, so if the
 * length has its highest bit, the checksums of the file and of its frames are made right before it
 * is read. */
#include <stdlib.h>

#include "store/disk/crc32c.h"
#include "store/disk/journal.h"
#include "store/disk/journal_internal.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/sim_disk.h"

#define FILES_MAX 12

struct read {
    uint64_t last, count, sum;
};

static bool read_part(void *arg, struct slice bytes)
{
    struct read *r = arg;

    r->sum = crc32c((uint32_t)r->sum, bytes.ptr, bytes.len);
    return bytes.len == 0 || bytes.ptr[0] != 0xee; /* some that are not known */
}

static bool read_batch(void *arg, uint64_t number, struct slice bytes)
{
    struct read *r = arg;

    CHECK(r->count == 0 || number == r->last + 1);
    r->last = number;
    r->count++;
    r->sum = crc32c((uint32_t)r->sum, bytes.ptr, bytes.len);
    return bytes.len == 0 || bytes.ptr[0] != 0xee;
}

static void set_u32(uint8_t *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(v >> 8 * i);
}

/* Repairs the checksums, as if an attacker had written the file. */
static void make_right(uint8_t *bytes, size_t len, enum file_kind kind, uint64_t number)
{
    uint32_t key = frame_key(kind, number, 1);
    size_t at = FILE_HEADER_SIZE;

    if (len < FILE_HEADER_SIZE)
        return;
    file_header_encode(&(struct file_header){kind, bytes[8] == 2 ? FILE_VERSION + 1 : FILE_VERSION,
                                             number, bytes[24] == 2 ? 2 : 1, bytes[32]},
                       bytes);
    while (at + FRAME_HEADER_SIZE <= len && bytes[at + 4] != 0xff) {
        size_t payload = bytes[at];
        struct frame f = {(enum frame_kind)(1 + bytes[at + 4] % 4),
                          bytes[at + 8],
                          bytes[at + 16],
                          {bytes + at + FRAME_HEADER_SIZE, payload}};

        if (payload > len - at - FRAME_HEADER_SIZE)
            break;
        frame_encode(key, &f, bytes + at);
        if (bytes[at + FRAME_HEADER_SIZE - 9] == 0xdd) /* in `durable`: a payload that is wrong */
            set_u32(bytes + at + 24, 0);
        at += FRAME_HEADER_SIZE + payload;
    }
}

static void put_file(struct sim_disk *disk, uint8_t what, struct slice content, bool right)
{
    enum file_kind kind = (what & 1) != 0 ? FILE_SNAPSHOT : FILE_JOURNAL;
    uint8_t *bytes = malloc(content.len + 1);
    char name[JOURNAL_NAME_SIZE];
    size_t len;

    memcpy(bytes, content.ptr, content.len);
    if (right)
        make_right(bytes, content.len, kind, what >> 1);
    journal_file_name(kind, what >> 1, name);
    if (sim_disk_bytes(disk, name, &len) == NULL)
        sim_disk_put(disk, name, bytes, content.len);
    free(bytes);
}

static void put_files(struct sim_disk *disk, struct slice in)
{
    for (int files = 0; in.len >= 3 && files < FILES_MAX; files++) {
        size_t len = (size_t)(in.ptr[1] | in.ptr[2] << 8), size = len & 0x7fff;
        uint8_t what = in.ptr[0];

        in = slice_from(in, 3);
        if (size > in.len)
            size = in.len;
        put_file(disk, what, (struct slice){in.ptr, size}, (len & 0x8000) != 0);
        in = slice_from(in, size);
    }
}

static struct journal *start(struct sim_disk *disk, struct read *r, struct journal_report *report)
{
    const struct journal_reader reader = {.part = read_part, .batch = read_batch, .arg = r};
    const struct journal_options options = {.fs = sim_disk_fs(disk), .new_id = 1};
    struct journal *j;
    char text[1000];

    *r = (struct read){0};
    j = journal_open(&options, &reader, report);
    CHECK((j != NULL) == (report->status == JOURNAL_OPENED));
    journal_report_text(report, "DIR", text, sizeof text);
    return j;
}

/* The same again: this start has written a segment of its own, and removed what it left out. */
static void start_again(struct sim_disk *disk, const struct journal_report *first)
{
    struct journal_report report;
    struct read r;
    struct journal *j;

    sim_disk_cut_power(disk);
    j = start(disk, &r, &report);
    CHECK(j != NULL && report.last == first->last);
    CHECK(report.snapshot == first->snapshot && report.torn_bytes == 0);
    if (first->last < UINT64_MAX) {
        const struct journal_batch batch = {first->last + 1, slice_str("more")};

        CHECK(journal_append(j, &batch, 1) == 0 && journal_finish(j) == 0);
        journal_close(j);
        j = start(disk, &r, &report);
        CHECK(j != NULL && report.last == first->last + 1);
    }
    journal_close(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sim_disk *disk = sim_disk_new(1);
    struct journal_report report, checked;
    struct journal_reader reader = {.part = read_part, .batch = read_batch, .arg = NULL};
    struct read r = {0}, seen = {0};
    uint64_t before;
    struct journal *j;

    put_files(disk, (struct slice){data, size});
    before = sim_disk_sum(disk);
    reader.arg = &seen;
    journal_check(sim_disk_fs(disk), &reader, &checked);
    CHECK(sim_disk_sum(disk) == before);
    j = start(disk, &r, &report);
    CHECK(report.status == checked.status && r.sum == seen.sum && r.count == seen.count);
    if (j == NULL) {
        CHECK(sim_disk_sum(disk) == before);
    } else {
        journal_close(j);
        start_again(disk, &report);
    }
    sim_disk_free(disk);
    return 0;
}
