/* The relays of a run start and end together. See restart.h for the contract. */
#include "rdzv/relay/restart.h"

#include <inttypes.h>
#include <stdio.h>

#include "proto/c10d_client.h"
#include "rdzv/engine/log.h"
#include "store/memory/xalloc.h"

#define GENERATION_KEY RELAY_KEYS "restart"
#define NOT_THERE      "-" /* what COMPARE_SET returns for a key without a value */
#define ANSWER_MAX     (4u << 20)
#define NAMES_SHOWN    8u

/* Relays that start again and again lengthen a list: beyond this many lines for each node, the next
 * generation begins with an empty one. */
#define LINES_A_NODE 8u

enum restart_step { ASKS_GENERATION, ASKS_RUNS, ASKS_BEFORE, READS, WAITS, DELETES };

void restart_init(struct restart *r, struct relay *relay, uint32_t nodes, const char *name)
{
    *r = (struct restart){.relay = relay, .nodes = nodes};
    snprintf(r->name, sizeof r->name, "%.*s", (int)strcspn(name, "\r\n"), name);
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

/* A list up to the line with the last of the N names. */
struct roll {
    size_t names;
    bool has_us; /* this process, and not only this name */
    bool fits;   /* false: it is of a run with another N, or too long */
};

/* The names are in r->names, and lie in the list. */
static struct roll read_roll(const struct restart *r, const struct blob *list)
{
    struct slice text = blob_slice(list);
    struct roll roll = {.fits = true};
    struct line line;
    size_t lines = 0;

    while (roll.names < r->nodes && take_line(&text, &line)) {
        if (line.nodes == r->nodes && !has_name(r->names, roll.names, line.name))
            r->names[roll.names++] = line.name;
        roll.has_us = roll.has_us || line.id == r->id;
        roll.fits = roll.fits && lines++ < (size_t)r->nodes * LINES_A_NODE &&
                    (roll.names > 0 || line.nodes == r->nodes);
    }
    return roll;
}

/* --- Requests of its own session: one at a time. --- */

static void restart_forget_session(struct restart *r)
{
    blob_unref(r->in);
    r->in = NULL;
    r->session = NULL;
}

static struct slice stage_key(char text[64], uint64_t generation, enum restart_stage stage)
{
    static const char *const names[] = {"here", "seen", "runs"};

    snprintf(text, 64, GENERATION_KEY "/%" PRIu64 "/%s", generation, names[stage]);
    return slice_str(text);
}

static void restart_send(struct restart *r, const struct c10d_request *req)
{
    uint8_t bytes[1024];
    struct writer w = {.ptr = bytes, .cap = sizeof bytes};
    struct c10d_progress progress = {0};
    struct c10d_refusal refusal;
    struct c10d_request own; /* its slices lie in `bytes` */
    size_t size;

    c10d_write_request(&w, req);
    if (r->session == NULL)
        return; /* the next iteration begins again */
    if (c10d_parse((struct slice){bytes, w.len}, C10D_MODERN, &r->relay->limits, &progress, &own,
                   &size, &refusal) == PARSE_DONE &&
        relay_take(r->session, &own, bytes, size) == RELAY_TAKEN)
        return;
    relay_leave(r->session);
    restart_forget_session(r);
}

static void restart_ask(struct restart *r, enum restart_step step, const struct c10d_request *req)
{
    r->step = (uint8_t)step;
    r->op = (uint8_t)req->op;
    restart_send(r, req);
}

/* Of one key, such as the list of a stage. */
static void ask_key(struct restart *r, enum restart_step step, enum c10d_op op, struct slice key)
{
    uint8_t items[128];
    struct writer w = {.ptr = items, .cap = sizeof items};

    c10d_write_blob(&w, key);
    restart_ask(r, step,
                &(struct c10d_request){.op = op, .key = key, .count = 1, .items = {items, w.len}});
}

static void ask_compare(struct restart *r, enum restart_step step, struct slice key,
                        const char *expected, const char *desired)
{
    restart_ask(r, step,
                &(struct c10d_request){.op = C10D_COMPARE_SET,
                                       .key = key,
                                       .expected = slice_str(expected),
                                       .value = slice_str(desired)});
}

static void append_line(struct restart *r, enum restart_stage stage)
{
    char key[64], line[256];

    snprintf(line, sizeof line, "%" PRIu32 " %" PRIu64 " %s\n", r->nodes, r->id, r->name);
    restart_send(r, &(struct c10d_request){.op = C10D_APPEND,
                                           .key = stage_key(key, r->generation, stage),
                                           .value = slice_str(line)});
}

/* --- Steps. --- */

/* A store that has lost its state gets the generation of the relays that run. */
static void find_generation(struct restart *r)
{
    char own[24];

    snprintf(own, sizeof own, "%" PRIu64, r->generation == 0 ? 1 : r->generation);
    ask_compare(r, ASKS_GENERATION, slice_str(GENERATION_KEY), "", own);
}

static void begin_generation(struct restart *r)
{
    char now[24], next[24];

    r->stage = RESTART_HERE;
    r->has_line[RESTART_HERE] = r->has_line[RESTART_SEEN] = false;
    snprintf(now, sizeof now, "%" PRIu64, r->generation);
    snprintf(next, sizeof next, "%" PRIu64, r->generation + 1);
    ask_compare(r, ASKS_GENERATION, slice_str(GENERATION_KEY), now, next);
}

static void read_list(struct restart *r)
{
    char key[64];

    if (!r->has_line[r->stage])
        append_line(r, (enum restart_stage)r->stage);
    r->has_line[r->stage] = true;
    ask_key(r, READS, C10D_GET, stage_key(key, r->generation, (enum restart_stage)r->stage));
}

/* The key of the next stage appears when all are in this one. */
static void wait_for_next_stage(struct restart *r)
{
    bool runs = r->stage == RESTART_RUNS;
    char key[64];

    ask_key(r, WAITS, C10D_WAIT,
            stage_key(key, r->generation + runs,
                      runs ? RESTART_HERE : (enum restart_stage)(r->stage + 1)));
}

/* Relays of generation G wait for the first key of G + 1, and those that join G + 1 read the names
 * of G. So when G runs, the keys of G - 1 go, from stage `next` on. */
static void delete_before(struct restart *r, enum restart_stage next)
{
    char key[64];

    r->deletes = (uint8_t)next;
    if (r->generation == 1 || next > RESTART_RUNS)
        wait_for_next_stage(r);
    else
        ask_key(r, DELETES, C10D_DELETE_KEY, stage_key(key, r->generation - 1, next));
}

static void run_generation(struct restart *r)
{
    if (r->stage != RESTART_RUNS)
        log_event(LOG_INFO, "restart_started", log_u64("generation", r->generation),
                  log_u64("nodes", r->nodes), log_str("node", r->name));
    r->stage = RESTART_RUNS;
    append_line(r, RESTART_RUNS);
    delete_before(r, RESTART_HERE);
}

static void on_list(struct restart *r)
{
    struct roll roll = read_roll(r, r->list);

    if (!roll.fits || (r->stage == RESTART_SEEN && roll.names == r->nodes && !roll.has_us)) {
        begin_generation(r);
    } else if (roll.names < r->nodes) {
        wait_for_next_stage(r);
    } else if (r->stage == RESTART_HERE) {
        blob_unref(r->before);
        r->before = blob_ref(r->list);
        r->stage = RESTART_SEEN;
        read_list(r);
    } else {
        run_generation(r);
    }
}

static void restart_exit(struct restart *r)
{
    r->is_due = true;
    log_event(LOG_INFO, "restart_due", log_u64("generation", r->generation),
              log_str("node", r->name), log_str("reason", "the relay of a node has started again"));
}

static void on_generation(struct restart *r, struct slice value)
{
    uint64_t generation = 0;
    char key[64];

    slice_to_u64(value, UINT64_MAX - 1, &generation);
    if (r->stage == RESTART_RUNS && generation == r->generation) {
        run_generation(r);
    } else if (r->stage == RESTART_RUNS) {
        restart_exit(r);
    } else {
        r->generation = generation;
        ask_key(r, ASKS_RUNS, C10D_CHECK, stage_key(key, generation, RESTART_RUNS));
    }
}

/* Nothing waits here: for a key without a value, COMPARE_SET returns the expected one. */
static void ask_before(struct restart *r)
{
    char key[64];

    ask_compare(r, ASKS_BEFORE, stage_key(key, r->generation - 1, RESTART_SEEN), NOT_THERE,
                NOT_THERE);
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
            ask_before(r);
        break;
    case ASKS_BEFORE:
        keep_list(&r->before, reply->value);
        read_list(r);
        break;
    case READS:
        keep_list(&r->list, reply->value);
        on_list(r);
        break;
    case WAITS:
        if (r->stage == RESTART_RUNS)
            restart_exit(r);
        else
            read_list(r);
        break;
    case DELETES:
        delete_before(r, (enum restart_stage)(r->deletes + 1));
        break;
    }
}

/* --- The session. --- */

/* Called while frames arrive: the step follows at the end of the iteration. */
static void restart_on_bytes(void *client, struct slice bytes)
{
    struct restart *r = client;
    struct slice old = blob_slice(r->in);
    struct blob *in =
        old.len + bytes.len > ANSWER_MAX ? NULL : blob_alloc(ACCOUNT_ANSWERS, old.len + bytes.len);

    if (in != NULL && old.len > 0)
        memcpy(in->bytes, old.ptr, old.len);
    if (in != NULL && bytes.len > 0)
        memcpy(in->bytes + old.len, bytes.ptr, bytes.len);
    blob_unref(r->in);
    r->in = in;
    r->is_broken = r->is_broken || in == NULL;
}

static void restart_on_blob(void *client, struct blob *piece)
{
    restart_on_bytes(client, blob_slice(piece));
}

static void restart_go_on(void *)
{
}

/* The store has lost what this session has written, or memory was short. */
static void restart_on_end(void *client, enum drop_reason, const char *)
{
    struct restart *r = client;

    restart_forget_session(r);
    r->has_line[RESTART_HERE] = r->has_line[RESTART_SEEN] = false;
    if (r->stage == RESTART_SEEN)
        r->stage = RESTART_HERE;
}

static const struct relay_calls restart_calls = {.answer = restart_on_bytes,
                                                 .answer_blob = restart_on_blob,
                                                 .go_on = restart_go_on,
                                                 .end = restart_on_end};

static bool restart_connect(struct restart *r)
{
    const struct peer none = {0};

    r->session = relay_client_new(r->relay, C10D_MODERN, &none, &none, r);
    if (r->session == NULL)
        return false;
    r->session->calls = &restart_calls;
    r->id = r->id == 0 ? r->session->id : r->id;
    r->links = r->relay->stats.links;
    return true;
}

static void take_answer(struct restart *r)
{
    const struct c10d_reply_limits limits = {.value_max = ANSWER_MAX, .reply_max = ANSWER_MAX};
    struct c10d_progress progress = {0};
    struct blob *in = r->in;
    struct c10d_reply reply;
    size_t size;

    if (r->is_broken) {
        relay_leave(r->session);
        restart_forget_session(r);
        return;
    }
    if (in == NULL || c10d_parse_reply(blob_slice(in), (enum c10d_op)r->op, 1, &limits, &progress,
                                       &reply, &size) != PARSE_DONE)
        return;
    r->in = NULL;
    on_answer(r, &reply);
    blob_unref(in);
}

void restart_flush(struct restart *r)
{
    if (r->relay == NULL || r->has_left || r->is_due)
        return;
    if (r->session != NULL)
        take_answer(r);
    else if (!r->is_broken && restart_connect(r))
        find_generation(r);
}

/* A relay that waits reads the list again, so that /startz names the nodes that are missing now.
 * One that runs asks for the generation again when it has another link: what it waits for may have
 * come and gone meanwhile. */
void restart_tick(struct restart *r)
{
    bool runs = r->stage == RESTART_RUNS;

    r->is_broken = r->is_broken && r->session != NULL;
    if (r->relay == NULL || r->session == NULL || r->is_due || r->step != WAITS ||
        !r->relay->link || (runs && r->links == r->relay->stats.links))
        return;
    relay_leave(r->session);
    restart_forget_session(r);
    if (!restart_connect(r))
        return;
    if (runs)
        find_generation(r);
    else
        read_list(r);
}

void restart_leave(struct restart *r)
{
    if (r->session != NULL)
        relay_abandon(r->session, DROP_UPSTREAM, "the relay stops");
    r->has_left = true;
}

/* --- /startz. --- */

/* Collects the names of the list before that are not among the first `here` of r->names. */
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
    size_t here = read_roll(r, r->list).names, missing = find_missing(r, here);
    const struct slice *names = missing > 0 ? r->names + r->nodes : r->names;
    size_t count = missing > 0 ? missing : here, len;

    if (r->stage == RESTART_RUNS) {
        snprintf(text, RESTART_SAYS_MAX, "generation %" PRIu64 " of the run has started",
                 r->generation);
        return !r->is_due;
    }
    len = (size_t)snprintf(text, RESTART_SAYS_MAX,
                           "%zu of %" PRIu32 " relays of the run are here%s", here, r->nodes,
                           missing > 0 ? "; missing: "
                           : count > 0 ? ": "
                                       : "");
    for (size_t i = 0; i < count && i < NAMES_SHOWN; i++)
        len += (size_t)snprintf(text + len, RESTART_SAYS_MAX - len, "%s%.*s", i > 0 ? ", " : "",
                                (int)(names[i].len < 60 ? names[i].len : 60), names[i].ptr);
    if (count > NAMES_SHOWN)
        snprintf(text + len, RESTART_SAYS_MAX - len, " and %zu more", count - NAMES_SHOWN);
    return false;
}
