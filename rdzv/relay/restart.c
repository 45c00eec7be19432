/* The relays of a run start and end together. See restart.h for the contract. */
#include "rdzv/relay/restart.h"

#include <inttypes.h>
#include <stdio.h>

#include "proto/c10d_client.h"
#include "rdzv/engine/log.h"
#include "store/memory/xalloc.h"

#define GENERATION_KEY RELAY_KEYS "restart"
#define NOT_THERE      "-" /* COMPARE_SET returns the expected value of a key that has none */
#define ANSWER_MAX     (4u << 20)
#define NODES_A_TICK   128u /* each of N relays reads N lines: the more, the more seldom */
#define NAMES_SHOWN    8u
#define NAME_SHOWN_MAX 60

enum restart_step { ASKS_GENERATION, ASKS_RUNS, ASKS_BEFORE, READS, WAITS };

void restart_init(struct restart *r, struct relay *relay, uint32_t nodes, const char *name)
{
    *r = (struct restart){.relay = relay, .nodes = nodes, .name = name};
    r->names = xcalloc(2 * (size_t)nodes, sizeof *r->names);
}

void restart_fini(struct restart *r)
{
    blob_unref(r->in);
    blob_unref(r->list);
    blob_unref(r->before);
    free(r->names);
    *r = (struct restart){0};
}

/* --- Lists. --- */

struct line {
    uint64_t nodes, id;
    struct slice name;
};

static bool take_word(struct slice *text, uint8_t end, struct slice *out)
{
    const uint8_t *at = text->len == 0 ? NULL : memchr(text->ptr, end, text->len);

    if (at == NULL)
        return false;
    *out = (struct slice){text->ptr, (size_t)(at - text->ptr)};
    *text = slice_from(*text, out->len + 1);
    return true;
}

static bool take_line(struct slice *text, struct line *out)
{
    struct slice nodes, id;

    return take_word(text, ' ', &nodes) && slice_to_u64(nodes, UINT32_MAX, &out->nodes) &&
           take_word(text, ' ', &id) && slice_to_u64(id, UINT64_MAX, &out->id) &&
           take_word(text, '\n', &out->name);
}

static bool has_name(const struct slice *names, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++) {
        if (slice_equal(names[i], name))
            return true;
    }
    return false;
}

/* A list up to the line with the last of the N names, which lie in r->names. */
struct roll {
    size_t names;
    bool has_us;     /* this process, and not only this name */
    bool is_another; /* it is of a run with another N */
};

static struct roll read_roll(const struct restart *r)
{
    struct slice text = blob_slice(r->list);
    struct roll roll = {0};
    struct line line;

    while (roll.names < r->nodes && take_line(&text, &line)) {
        roll.is_another = roll.is_another || (roll.names == 0 && line.nodes != r->nodes);
        roll.has_us = roll.has_us || line.id == r->id;
        if (!has_name(r->names, roll.names, line.name))
            r->names[roll.names++] = line.name;
    }
    return roll;
}

/* --- Requests: one at a time that is answered. --- */

static void drop_session(struct restart *r)
{
    relay_leave(r->session);
    r->session = NULL; /* the end of the iteration begins another one */
}

static void send_request(struct restart *r, const struct c10d_request *req)
{
    uint8_t bytes[1024];
    struct writer w = {.ptr = bytes, .cap = sizeof bytes};
    struct c10d_request own = *req;

    if (r->session == NULL)
        return;
    c10d_write_request(&w, req);
    own.value.ptr = bytes + w.len - own.value.len; /* the value comes last */
    if (w.len > w.cap || relay_take(r->session, &own, bytes, w.len) != RELAY_TAKEN)
        drop_session(r);
}

static void ask(struct restart *r, enum restart_step step, const struct c10d_request *req)
{
    r->step = (uint8_t)step;
    r->op = (uint8_t)req->op;
    send_request(r, req);
}

static struct slice stage_key(char text[64], uint64_t generation, int stage)
{
    static const char *const names[] = {"here", "seen", "runs"};

    snprintf(text, 64, GENERATION_KEY "/%" PRIu64 "/%s", generation, names[stage]);
    return slice_str(text);
}

/* CHECK or WAIT of a key. */
static void ask_key(struct restart *r, enum restart_step step, enum c10d_op op, uint64_t generation,
                    int stage)
{
    char text[64];
    struct slice key = stage_key(text, generation, stage);
    uint8_t items[128];
    struct writer w = {.ptr = items, .cap = sizeof items};

    c10d_write_blob(&w, key);
    ask(r, step, &(struct c10d_request){.op = op, .key = key, .count = 1, .items = {items, w.len}});
}

static void ask_compare(struct restart *r, enum restart_step step, struct slice key,
                        const char *expected, const char *desired)
{
    ask(r, step,
        &(struct c10d_request){.op = C10D_COMPARE_SET,
                               .key = key,
                               .expected = slice_str(expected),
                               .value = slice_str(desired)});
}

static void append_line(struct restart *r)
{
    char key[64], line[512];

    snprintf(line, sizeof line, "%" PRIu32 " %" PRIu64 " %.400s\n", r->nodes, r->id, r->name);
    send_request(r, &(struct c10d_request){.op = C10D_APPEND,
                                           .key = stage_key(key, r->generation, r->stage),
                                           .value = slice_str(line)});
}

/* --- Steps. --- */

/* A store that has lost its state gets the generation back from the relays that run. */
static void find_generation(struct restart *r)
{
    char own[24];

    r->stage = r->stage == RESTART_RUNS ? RESTART_RUNS : RESTART_HERE;
    snprintf(own, sizeof own, "%" PRIu64, r->generation == 0 ? 1 : r->generation);
    ask_compare(r, ASKS_GENERATION, slice_str(GENERATION_KEY), "", own);
}

static void begin_generation(struct restart *r)
{
    char now[24], next[24];

    r->stage = RESTART_HERE;
    snprintf(now, sizeof now, "%" PRIu64, r->generation);
    snprintf(next, sizeof next, "%" PRIu64, r->generation + 1);
    ask_compare(r, ASKS_GENERATION, slice_str(GENERATION_KEY), now, next);
}

/* Nothing waits here, not even if the store has lost the list. */
static void read_list(struct restart *r, enum restart_step step, uint64_t generation, int stage)
{
    char key[64];

    ask_compare(r, step, stage_key(key, generation, stage), NOT_THERE, NOT_THERE);
}

/* The lists before are read no more: those of the newest two generations stay. */
static void run_generation(struct restart *r)
{
    char key[64];

    if (r->stage != RESTART_RUNS)
        log_event(LOG_INFO, "restart_started", log_u64("generation", r->generation),
                  log_u64("nodes", r->nodes), log_str("node", r->name));
    r->stage = RESTART_RUNS;
    append_line(r);
    for (int stage = RESTART_HERE; r->generation > 1 && stage < RESTART_RUNS; stage++)
        send_request(r, &(struct c10d_request){.op = C10D_SET,
                                               .key = stage_key(key, r->generation - 1, stage)});
    ask_key(r, WAITS, C10D_WAIT, r->generation + 1, RESTART_HERE);
}

static void on_generation(struct restart *r, struct slice value)
{
    uint64_t generation = 0;

    slice_to_u64(value, UINT64_MAX - 1, &generation);
    if (r->stage == RESTART_RUNS && generation != r->generation) {
        r->is_due = true;
    } else if (r->stage == RESTART_RUNS) {
        run_generation(r);
    } else if (generation == r->generation) { /* it may run by now, with this relay */
        read_list(r, READS, generation, r->stage);
    } else {
        r->generation = generation;
        ask_key(r, ASKS_RUNS, C10D_CHECK, generation, RESTART_RUNS);
    }
}

static void on_list(struct restart *r)
{
    struct roll roll = read_roll(r);
    bool is_complete = roll.names == r->nodes;

    if (roll.is_another || (is_complete && r->stage == RESTART_SEEN && !roll.has_us)) {
        begin_generation(r);
    } else if (!is_complete && roll.has_us) {
        ask_key(r, WAITS, C10D_WAIT, r->generation, r->stage + 1);
    } else if (is_complete && r->stage == RESTART_SEEN) {
        run_generation(r);
    } else {
        if (!is_complete) {
            append_line(r);
        } else {
            blob_unref(r->before);
            r->before = blob_ref(r->list);
            r->stage = RESTART_SEEN;
        }
        read_list(r, READS, r->generation, r->stage);
    }
}

static void keep_list(struct blob **to, struct slice value)
{
    blob_unref(*to);
    *to = slice_is(value, NOT_THERE) ? NULL : blob_new(ACCOUNT_ANSWERS, value);
}

static void on_answer(struct restart *r, const struct c10d_reply *reply)
{
    switch ((enum restart_step)r->step) {
    case ASKS_GENERATION:
        on_generation(r, reply->value);
        break;
    case ASKS_RUNS:
        if (reply->number == C10D_READY)
            begin_generation(r);
        else
            read_list(r, ASKS_BEFORE, r->generation - 1, RESTART_SEEN);
        break;
    case ASKS_BEFORE:
        keep_list(&r->before, reply->value);
        read_list(r, READS, r->generation, r->stage);
        break;
    case READS:
        keep_list(&r->list, reply->value);
        on_list(r);
        break;
    case WAITS:
        r->is_due = r->stage == RESTART_RUNS;
        if (!r->is_due)
            read_list(r, READS, r->generation, r->stage);
        break;
    }
}

/* --- The session. --- */

/* Called while frames arrive: the step follows at the end of the iteration. */
static void on_bytes(void *client, struct slice bytes)
{
    struct restart *r = client;
    struct blob *old = r->in;
    size_t len = blob_slice(old).len;

    r->in = len + bytes.len > ANSWER_MAX ? NULL : blob_alloc(ACCOUNT_ANSWERS, len + bytes.len);
    if (r->in == NULL) {
        r->step = WAITS; /* the tick reads again */
    } else {
        struct writer w = {.ptr = r->in->bytes, .cap = r->in->len};

        writer_slice(&w, blob_slice(old));
        writer_slice(&w, bytes);
    }
    blob_unref(old);
}

static void on_piece(void *client, struct blob *piece)
{
    on_bytes(client, blob_slice(piece));
}

/* The store has lost what this session has written, or memory was short. */
static void on_session_end(void *client, enum drop_reason, const char *)
{
    struct restart *r = client;

    r->session = NULL;
}

static const struct relay_calls restart_calls = {
    .answer = on_bytes, .answer_blob = on_piece, .end = on_session_end};

static bool begin_session(struct restart *r)
{
    const struct peer none = {0};

    blob_unref(r->in);
    r->in = NULL;
    r->session = relay_client_new(r->relay, C10D_MODERN, &none, &none, r);
    if (r->session == NULL)
        return false;
    r->session->calls = &restart_calls;
    r->id = r->id == 0 ? r->session->id : r->id;
    return true;
}

void restart_flush(struct restart *r)
{
    const struct c10d_reply_limits limits = {.value_max = ANSWER_MAX, .reply_max = ANSWER_MAX};
    struct c10d_progress progress = {0};
    struct blob *in = r->in;
    struct c10d_reply reply;
    size_t size;

    if (r->relay == NULL || r->has_left || r->is_due)
        return;
    if (r->session == NULL) {
        if (begin_session(r))
            find_generation(r);
    } else if (in != NULL && c10d_parse_reply(blob_slice(in), (enum c10d_op)r->op, 1, &limits,
                                              &progress, &reply, &size) == PARSE_DONE) {
        r->in = NULL;
        on_answer(r, &reply);
        blob_unref(in);
    }
}

/* A relay that waits for others looks again, so that /startz names those that are missing now, and
 * that a store without its state gets the lists back. The new session leaves the WAIT behind. */
void restart_tick(struct restart *r)
{
    if (r->relay == NULL || r->session == NULL || r->step != WAITS || r->stage == RESTART_RUNS ||
        !r->relay->link || ++r->ticks <= r->nodes / NODES_A_TICK)
        return;
    r->ticks = 0;
    relay_leave(r->session);
    if (begin_session(r))
        find_generation(r);
}

void restart_leave(struct restart *r)
{
    if (r->session != NULL)
        relay_abandon(r->session, DROP_UPSTREAM, "the relay stops");
    r->has_left = true;
}

/* --- /startz. --- */

/* The names of the list before that are not among the first `here` of r->names. */
static size_t find_missing(const struct restart *r, size_t here)
{
    struct slice rest = blob_slice(r->before), *missing = r->names + r->nodes;
    struct line line;
    size_t count = 0;

    while (count < r->nodes && take_line(&rest, &line)) {
        if (!has_name(r->names, here, line.name) && !has_name(missing, count, line.name))
            missing[count++] = line.name;
    }
    return count;
}

bool restart_has_started(const struct restart *r, char text[RESTART_SAYS_MAX])
{
    size_t here = read_roll(r).names, missing = find_missing(r, here);
    const struct slice *names = missing > 0 ? r->names + r->nodes : r->names;
    size_t count = missing > 0 ? missing : here, len;

    if (r->stage == RESTART_RUNS) {
        snprintf(text, RESTART_SAYS_MAX, "generation %" PRIu64 " has started", r->generation);
        return !r->is_due;
    }
    len = (size_t)snprintf(text, RESTART_SAYS_MAX, "%zu of %" PRIu32 " relays of the run are here",
                           here, r->nodes);
    for (size_t i = 0; i < count && i < NAMES_SHOWN; i++)
        len += (size_t)snprintf(
            text + len, RESTART_SAYS_MAX - len, "%s%.*s",
            i > 0         ? ", "
            : missing > 0 ? "; missing: "
                          : ": ",
            (int)(names[i].len < NAME_SHOWN_MAX ? names[i].len : NAME_SHOWN_MAX), names[i].ptr);
    if (count > NAMES_SHOWN)
        snprintf(text + len, RESTART_SAYS_MAX - len, " and %zu more", count - NAMES_SHOWN);
    return false;
}
