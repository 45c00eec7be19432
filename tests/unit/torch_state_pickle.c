/* Builds pickles of a rendezvous state, counts allocations, and reads. */
#include "tests/unit/torch_state_pickle.h"

size_t allocated;
size_t fail_at = SIZE_MAX;

void *__wrap_malloc(size_t size)
{
    allocated += size;
    return fail_at-- == 0 ? NULL : __real_malloc(size);
}

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
    allocated += count * size;
    return fail_at-- == 0 ? NULL : __real_reallocarray(old, count, size);
}

const struct slice parts[PARTS] = {
    [CLASS] = BYTES(MODULE "\x8c\x10_RendezvousState\x94\x93\x94"), /* 0, 1, 2 */
    [OBJECT] = BYTES(")\x81\x94}\x94("),                            /* 3, 4 */
    [ROUND] = BYTES("\x8c\x05round\x94"),                           /* 5 */
    [ROUND_VALUE] = BYTES("K\x03"),
    [COMPLETE] = BYTES("\x8c\x08"
                       "complete\x94"), /* 6 */
    [COMPLETE_VALUE] = BYTES("\x88"),
    [DEADLINE] = BYTES("\x8c\x08"
                       "deadline\x94"), /* 7 */
    [DEADLINE_VALUE] = BYTES("N"),
    [CLOSED] = BYTES("\x8c\x06"
                     "closed\x94"), /* 8 */
    [CLOSED_VALUE] = BYTES("\x89"),
    [PARTICIPANTS] = BYTES("\x8c\x0cparticipants\x94"),         /* 9 */
    [PARTICIPANTS_DICT] = BYTES("}\x94("),                      /* 10 */
    [NODE_CLASS] = BYTES("h\x00\x8c\x09_NodeDesc\x94\x93\x94"), /* 11, 12 */
    [NODE_OBJECT] = BYTES(")\x81\x94}\x94("),                   /* 13, 14 */
    [NODE_ADDR] = BYTES("\x8c\x04"
                        "addr\x94"),             /* 15 */
    [NODE_ADDR_VALUE] = BYTES("\x8c\x02n1\x94"), /* 16 */
    [NODE_PID] = BYTES("\x8c\x03pid\x94"),       /* 17 */
    [NODE_PID_VALUE] = BYTES("M\x00\x01"),
    [NODE_LOCAL_ID] = BYTES("\x8c\x08local_id\x94"), /* 18 */
    [NODE_LOCAL_ID_VALUE] = BYTES("K\x02"),
    [NODE_BUILD] = BYTES("ub"),
    [NODE_RANK] = BYTES("K\x00"),
    [OTHER_OBJECT] = BYTES("h\x0c)\x81\x94}\x94("), /* 19, 20 */
    [OTHER_ADDR] = BYTES("h\x0f"),
    [OTHER_ADDR_VALUE] = BYTES("\x8c\x02n2\x94"), /* 21 */
    [OTHER_PID] = BYTES("h\x11"),
    [OTHER_PID_VALUE] = BYTES("M\x00\x01"),
    [OTHER_LOCAL_ID] = BYTES("h\x12"),
    [OTHER_LOCAL_ID_VALUE] = BYTES("K\x02"),
    [OTHER_BUILD] = BYTES("ub"),
    [OTHER_RANK] = BYTES("K\x01"),
    [PARTICIPANTS_END] = BYTES("u"),
    [WAIT_LIST] = BYTES("\x8c\x09wait_list\x94"),             /* 22 */
    [WAIT_LIST_SET] = BYTES("\x8f\x94"),                      /* 23 */
    [REDUNDANCY_LIST] = BYTES("\x8c\x0fredundancy_list\x94"), /* 24 */
    [REDUNDANCY_LIST_SET] = BYTES("\x8f\x94"),                /* 25 */
    [LAST_HEARTBEATS] = BYTES("\x8c\x0flast_heartbeats\x94"), /* 26 */
    [LAST_HEARTBEATS_DICT] = BYTES("}\x94("),                 /* 27 */
    [BEAT_NODE] = BYTES("h\x0d"),
    [BEAT_CLASS] = BYTES("\x8c\x08"
                         "datetime\x94\x8c\x08"
                         "datetime\x94\x93\x94"),                             /* 28 to 30 */
    [BEAT_TIME] = BYTES("C\x0a\x07\xea\x0b\x15\x00\x0f\x18\x09\x1e\x85\x94"), /* 31 */
    [BEAT_ZONE] = BYTES("h\x1c\x8c\x08timezone\x94\x93\x94"),                 /* 32, 33 */
    [BEAT_DELTA] = BYTES("h\x1c\x8c\x09timedelta\x94\x93\x94"),               /* 34, 35 */
    [BEAT_ZERO] = BYTES("K\x00K\x00K\x00\x87\x94R\x94"),                      /* 36, 37 */
    [BEAT_UTC] = BYTES("\x85\x94R\x94"),                                      /* 38, 39 */
    [BEAT_BUILD] = BYTES("\x86\x94R\x94"),                                    /* 40, 41 */
    [OTHER_BEAT_NODE] = BYTES("h\x13"),
    [OTHER_BEAT_CLASS] = BYTES("h\x1e"),
    [OTHER_BEAT_TIME] = BYTES("C\x0a\x07\xea\x0b\x15\x00\x0f\x18\x09\x1e\x86\x94"), /* 42 */
    [OTHER_BEAT_ZONE] = BYTES("h\x27"),
    [OTHER_BEAT_BUILD] = BYTES("\x86\x94R\x94"), /* 43, 44 */
    [LAST_HEARTBEATS_END] = BYTES("u"),
    [BUILD] = BYTES("ub"),
    [STOP] = BYTES("."),
};

void pickle_add(struct pickle *p, const void *bytes, size_t len)
{
    p->bytes = realloc(p->bytes, p->len + len + 1);
    assert_non_null(p->bytes);
    if (len > 0)
        memcpy(p->bytes + p->len, bytes, len);
    p->len += len;
}

/* Puts all from `start` into a frame. */
void pickle_add_frame(struct pickle *p, size_t start)
{
    uint8_t header[9] = {0x95};
    size_t len = p->len - start;

    bytes_put_u64(header + 1, len);
    pickle_add(p, header, sizeof header);
    memmove(p->bytes + start + sizeof header, p->bytes + start, len);
    memcpy(p->bytes + start, header, sizeof header);
}

void pickle_add_parts(struct pickle *p, int from, int to)
{
    for (int i = from; i < to; i++)
        pickle_add(p, parts[i].ptr, parts[i].len);
}

/* The state with `instead` in the place of the parts from `first` to `last`, of which there may be
 * none. */
struct pickle pickle_exchanged(int first, int last, struct slice instead)
{
    struct pickle p = {0};

    pickle_add(&p, "\x80\x04", 2);
    pickle_add_parts(&p, 0, first);
    pickle_add(&p, instead.ptr, instead.len);
    pickle_add_parts(&p, last + 1, PARTS);
    pickle_add_frame(&p, 2);
    return p;
}

struct pickle pickle_intact(void)
{
    return pickle_exchanged(0, -1, (struct slice){0});
}

struct slice pickle_text(struct slice pickle)
{
    uint8_t *text = __real_malloc(base64_size(pickle.len) + 1);

    assert_non_null(text);
    base64_encode(pickle, text);
    return (struct slice){text, base64_size(pickle.len)};
}

/* Reads an exact copy, and looks that nothing is out of proportion. */
enum torch_state_status read_text(struct slice text, struct torch_state *s)
{
    struct slice copy = exact(text.ptr, text.len);
    enum torch_state_status status;

    memset(s, 0x5a, sizeof *s); /* what is not the state's own nobody may use */
    allocated = 0;
    status = torch_state_read(copy, s);
    if (allocated > 12 * text.len + 2048)
        fail_msg("%zu bytes for a value of %zu", allocated, text.len);
    if (status != TORCH_STATE_OK && ((uint8_t *)s)[0] != 0x5a)
        fail_msg("the state is touched without success");
    exact_free(copy);
    return status;
}

enum torch_state_status pickle_read(struct slice pickle, struct torch_state *s)
{
    struct slice text = pickle_text(pickle);
    enum torch_state_status status = read_text(text, s);

    exact_free(text);
    return status;
}

void pickle_read_well(struct pickle *p, struct torch_state *s)
{
    enum torch_state_status status = pickle_read((struct slice){p->bytes, p->len}, s);

    free(p->bytes);
    assert_int_equal(status, TORCH_STATE_OK);
}

bool pickle_is_state(struct slice pickle)
{
    struct torch_state s;
    enum torch_state_status status = pickle_read(pickle, &s);

    assert_int_not_equal(status, TORCH_STATE_NO_MEMORY);
    if (status == TORCH_STATE_OK)
        torch_state_free(&s);
    return status == TORCH_STATE_OK;
}

/* Fails when the pickle is taken for a state. Frees it. */
void pickle_refuse(struct pickle p, const char *why, size_t n)
{
    bool taken = pickle_is_state((struct slice){p.bytes, p.len});

    if (taken)
        fail_msg("%s (%zu) is taken for a state", why, n);
    free(p.bytes);
}
