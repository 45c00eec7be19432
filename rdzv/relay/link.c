/* Connections of relays: their frames, and how long sessions may be without a link. See link.h for
 * the contract. */
#include "rdzv/relay/link.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rdzv/engine/log.h"
#include "rdzv/net/input.h"
#include "rdzv/net/listen.h"
#include "rdzv/net/refusal.h"
#include "rdzv/net/tls.h"
#include "rdzv/relay/hello.h"
#include "rdzv/relay/link_session.h"
#include "rdzv/relay/restart.h"
#include "rdzv/relay/upstream.h"
#include "store/session/session.h"

/* What a frame is charged beside the bytes that are copied of it, see iteration.h. */
#define FRAME_COST 64u
#define OPEN_COST  2000u

/* Nanoseconds of detaching one; so many are detached at once. */
#define DETACH_COST      1000u
#define DETACHED_AT_ONCE 256u

/* The most sessions that end in one tick, and that it visits. */
#define ENDED_AT_A_TIME 1000u
#define SWEPT_AT_A_TIME 20000u

/* The most held sessions that resume in one iteration, and that it gives up. */
#define RELEASED_AT_A_TIME 4096u
#define GIVEN_UP_AT_A_TIME 4096u

static struct relay_link *link_of(struct conn *c)
{
    return (struct relay_link *)c->session.aligned;
}

/* --- Hello. --- */

static void link_refuse(struct relay_link *link, const char *why)
{
    const struct relay_frame frame = {.kind = RELAY_REFUSED, .payload = slice_str(why)};

    refusal_note(&link->all->engine->stats, REFUSAL_RELAY, &link->conn->peer, slice_str(why));
    relay_link_put(link, &frame);
    conn_finish(link->conn);
}

/* Finds or makes the space of the link. Returns NULL, or why the link is refused. */
static const char *link_choose_space(struct relay_link *link, const Rdzv__RelayHello *hello,
                                     char why[HELLO_SPACE_WHY_MAX])
{
    if (conn_net(link->conn)->draining)
        return "the store stops";
    if (link->conn->listener->temporary)
        return "this port serves only the workers of one run";
    link->space = hello_space(link->conn, hello->space, why);
    return link->space == NULL ? why : NULL;
}

static void put_welcome(struct relay_link *link, uint32_t version)
{
    const struct config *config = link->all->config;
    Rdzv__RelayWelcome message = RDZV__RELAY_WELCOME__INIT;
    uint8_t payload[CONN_VIA_MAX + HELLO_RELEASE_MAX + HELLO_JOURNAL_MAX + 128];
    struct relay_frame frame = {.kind = RELAY_WELCOME};

    message.version = version;
    message.release = hello_field(RDZV_VERSION);
    message.journal = link->all->journal.name;
    message.journal_cluster = link->all->journal.cluster;
    message.store = link->all->store_name;
    message.session_timeout_ms = config->session_timeout_ms;
    message.value_max = config->limits.value_max;
    message.keeps = true;
    frame.payload = (struct slice){payload, rdzv__relay_welcome__pack(&message, payload)};
    relay_link_put(link, &frame);
}

static void link_welcome(struct relay_link *link, const Rdzv__RelayHello *hello, uint32_t version)
{
    char release[HELLO_RELEASE_MAX];

    put_welcome(link, version);
    log_event(LOG_INFO, "link_opened", log_str("peer", CONN_PEER(link->conn)),
              log_str("relay", relay_link_name(link)), log_str("space", link->space->store->name),
              log_str("release", hello_release(hello->release, release)),
              log_u64("frames", version));
}

void relay_link_unref(struct relay_link *link)
{
    if (--link->refs > 0)
        return;
    blob_unref(link->clients.via);
    account_free(ACCOUNT_SESSIONS, link->clients.label, sizeof *link->clients.label);
    account_free(ACCOUNT_SESSIONS, link, sizeof *link);
}

/* The link has no sessions any more. Detached sessions may still hold references, for its name. */
static void end_link(struct relay_link *link)
{
    table_fini(&link->channels);
    blob_unref(link->kept);
    link->kept = NULL;
    relay_link_unref(link);
}

/* HTTP follows the WELCOME, so this link becomes an HTTP connection of that space. */
static void become_http(struct relay_link *link, const Rdzv__RelayHello *hello, uint32_t version)
{
    struct relay_links *all = link->all;
    const struct protocol *http = &all->http_protocols[hello->http_over_tls != 0];
    const struct slice begins = slice_str("GET"); /* like all HTTP methods, with a capital letter */
    struct protocol_progress progress;
    struct conn *c = link->conn;
    const char *why;

    if (http->begin(http, c, begins, &progress, &why) != PARSE_DONE)
        return; /* memory was short, and the link is lost */
    put_welcome(link, version);
    c->space = link->space;
    c->backend = NULL;
    all->engine->stats.relay_links--;
    end_link(link);
}

/* Answers HELLO, unless this store stands by: refuses the link with a reason, welcomes the relay,
 * or turns the connection into one of HTTP. `link` may be freed then, also if memory was short.
 * Returns NULL then, or why the frame is no HELLO. */
static const char *relay_take_hello(struct relay_link *link, struct slice payload)
{
    char version_why[HELLO_WHY_MAX], space_why[HELLO_SPACE_WHY_MAX], name[CONN_VIA_MAX];
    Rdzv__RelayHello *hello = NULL;
    uint32_t version;
    struct topology_label *label;
    bool has_label;
    const char *why;

    if (payload.len <= RELAY_MESSAGE_MAX)
        hello = rdzv__relay_hello__unpack(NULL, payload.len, payload.ptr);
    if (hello == NULL)
        return "the first frame is not HELLO";
    hello_text(hello->name, "a_relay", name, sizeof name);
    link->clients.via =
        blob_new(ACCOUNT_SESSIONS, (struct slice){(uint8_t *)name, strlen(name) + 1});
    has_label = hello->domain[0] != '\0' || hello->index != 0;
    label = has_label ? account_request(ACCOUNT_SESSIONS, ACCOUNT_SMALL, sizeof *label) : NULL;
    if (label != NULL) {
        hello_text(hello->domain, "", label->domain, sizeof label->domain);
        label->index = hello->index;
    }
    link->clients.label = label;
    link->shares = hello->shares;
    version = hello_version(hello, version_why);
    if (link->clients.via == NULL || (has_label && label == NULL))
        why = "the store has no memory for it, see --memory-limit";
    else
        why = version == 0 ? version_why : link_choose_space(link, hello, space_why);
    if (why != NULL)
        link_refuse(link, why);
    else if (hello->http)
        become_http(link, hello, version);
    else
        link_welcome(link, hello, version);
    rdzv__relay_hello__free_unpacked(hello, NULL);
    return NULL;
}

/* --- A replica that does not lead. --- */

static void link_stop_waiting(struct relay_link *link)
{
    if (link->waits)
        TAILQ_REMOVE(&link->all->waiting, link, entry);
    link->waits = false;
}

static void send_on(struct relay_link *link, const char *why)
{
    const struct relay_frame frame = {
        .kind = RELAY_REFUSED, .flags = RELAY_STANDS_BY, .payload = slice_str(why)};

    link_stop_waiting(link);
    relay_link_put(link, &frame);
    conn_finish(link->conn);
}

static bool asks_to_wait(const struct relay_frame *frame)
{
    Rdzv__RelayHello *hello = NULL;
    bool waits;

    if (frame->kind == RELAY_HELLO && frame->payload.len <= RELAY_MESSAGE_MAX)
        hello = rdzv__relay_hello__unpack(NULL, frame->payload.len, frame->payload.ptr);
    waits = hello != NULL && hello->waits;
    rdzv__relay_hello__free_unpacked(hello, NULL);
    return waits;
}

/* The frame is shown again when this replica leads. */
static enum protocol_result take_on_standby(struct relay_link *link,
                                            const struct relay_frame *frame)
{
    struct relay_links *all = link->all;

    if (!asks_to_wait(frame)) {
        send_on(link, all->stands_by_why);
        return PROTOCOL_ENDED;
    }
    link->waits = true;
    link->since_ms = engine_lived_ms(all->engine);
    TAILQ_INSERT_TAIL(&all->waiting, link, entry);
    return PROTOCOL_PARKED;
}

void relay_links_stand_by(struct relay_links *all)
{
    all->stands_by = true;
    snprintf(all->stands_by_why, sizeof all->stands_by_why, "this replica does not lead");
}

void relay_links_lead(struct relay_links *all, const struct hello_journal *journal)
{
    struct relay_link *link;

    all->stands_by = false;
    all->journal = *journal;
    while ((link = TAILQ_FIRST(&all->waiting)) != NULL) {
        link_stop_waiting(link);
        input_unpark(link->conn);
    }
}

void relay_links_send_on(struct relay_links *all, const char *leader)
{
    snprintf(all->stands_by_why, sizeof all->stands_by_why, "this replica stands by: %.100s leads",
             leader);
    while (!TAILQ_EMPTY(&all->waiting))
        send_on(TAILQ_FIRST(&all->waiting), all->stands_by_why);
}

/* --- A replica that led, and is cut off from the others. --- */

/* Its changes are not committed and its clients get no answers, so a relay that asks whether it is
 * alive must look for the new leader. The sessions of that relay stay, as if the link were lost: it
 * may come back, if no other replica leads. */
static bool is_sent_on(struct relay_link *link, const struct relay_frame *frame)
{
    if ((frame->kind != RELAY_HELLO && frame->kind != RELAY_PING && frame->kind != RELAY_RESTART) ||
        !engine_is_cut_off(link->all->engine))
        return false;
    send_on(link, "this replica is cut off from etcd: another one may lead");
    return true;
}

/* --- Open. --- */

/* NULL: the link has none of that channel. */
static struct relay_session *find_session(struct relay_link *link, uint32_t channel)
{
    struct table_node *node;

    if (link->last != NULL && link->last->channel == channel)
        return link->last;
    node = table_find(&link->channels, (struct slice){(const uint8_t *)&channel, sizeof channel});
    if (node == NULL)
        return NULL;
    link->last = (void *)((uint8_t *)node - offsetof(struct relay_session, by_channel));
    return link->last;
}

static const char *take_open(struct relay_link *link, const struct relay_frame *frame)
{
    Rdzv__RelayOpen *open = NULL;
    bool ok;

    if (frame->payload.len <= RELAY_MESSAGE_MAX)
        open = rdzv__relay_open__unpack(NULL, frame->payload.len, frame->payload.ptr);
    ok = open != NULL && open->session != 0 && open->c10d_version <= C10D_MODERN &&
         frame->channel != 0 && find_session(link, frame->channel) == NULL;
    if (ok)
        relay_session_open(link, frame->channel, open);
    rdzv__relay_open__free_unpacked(open, NULL);
    conn_charge(link->conn, OPEN_COST);
    return ok ? NULL : "an OPEN that no relay sends";
}

/* --- Frames. --- */

static const char *take_request(struct relay_link *link, const struct relay_frame *frame,
                                uint8_t *payload)
{
    struct relay_session *s = find_session(link, frame->channel);

    if (s != NULL)
        return relay_session_feed(s, frame, payload);
    /* The session has ended, and the relay has not read ENDED yet. */
    return frame->channel == 0 ? "a request on no channel" : NULL;
}

/* Relays of a job keep equal requests, and so the store keeps one copy. False: memory is short. */
static bool keep_request(struct relay_link *link, struct slice bytes)
{
    struct relay_links *all = link->all;

    if (all->kept == NULL || !slice_equal(blob_slice(all->kept), bytes)) {
        blob_unref(all->kept);
        all->kept = blob_new(ACCOUNT_INPUT, bytes);
    }
    blob_unref(link->kept);
    link->kept = blob_ref(all->kept);
    return link->kept != NULL;
}

static const char *take_same(struct relay_link *link, const struct relay_frame *frame)
{
    struct relay_frame whole = *frame;
    struct blob *kept;
    const char *wrong;

    if (frame->payload.len != 0 && !keep_request(link, frame->payload)) {
        CONN_DROP_FOR_MEMORY(link->conn, "a request that it keeps"); /* its sessions come back */
        return NULL;
    }
    if (link->kept == NULL)
        return "a request like one that is not kept";
    kept = blob_ref(link->kept); /* this request may end the link */
    whole.payload = blob_slice(kept);
    wrong = take_request(link, &whole, kept->bytes);
    blob_unref(kept);
    return wrong;
}

/* NULL, or why the link must end. `payload` is frame->payload in the connection's own buffer, which
 * parsers may change. A HELLO for HTTP frees `link`: then the connection has another protocol. */
static const char *take_frame(struct relay_link *link, const struct relay_frame *frame,
                              uint8_t *payload)
{
    struct relay_session *s;

    if (link->space == NULL)
        return frame->kind == RELAY_HELLO ? relay_take_hello(link, frame->payload)
                                          : "the first frame is not HELLO";
    switch (frame->kind) {
    case RELAY_OPEN:
        return take_open(link, frame);
    case RELAY_REQUEST:
        if (frame->flags & RELAY_SAME)
            return take_same(link, frame);
        return take_request(link, frame, payload);
    case RELAY_CLOSE:
        s = find_session(link, frame->channel);
        if (s != NULL)
            relay_session_close(s);
        return frame->channel == 0 ? "a request on no channel" : NULL;
    case RELAY_PING:
        relay_link_put(link, &(struct relay_frame){.kind = RELAY_PONG, .number = frame->number});
        return NULL;
    case RELAY_RESTART:
        return link_restart_take(link, frame);
    default:
        return "a frame that no relay sends";
    }
}

static enum protocol_result read_frames(struct conn *c, uint8_t *in, size_t len,
                                        struct protocol_progress *progress)
{
    const struct protocol *links = c->protocol;

    while (progress->used < len) {
        struct slice rest = {in + progress->used, len - progress->used};
        struct relay_frame frame;
        const char *wrong = "no frame of a relay";
        enum parse_result parsed;
        size_t size;

        if (!conn_can_reply(c))
            return PROTOCOL_PAUSED;
        if (!conn_has_budget(c))
            return PROTOCOL_DEFERRED;
        parsed = relay_parse(rest, &frame, &size);
        if (parsed == PARSE_MORE) {
            progress->need = progress->used + size;
            return PROTOCOL_MORE;
        }
        if (parsed == PARSE_DONE && link_of(c)->all->stands_by)
            return take_on_standby(link_of(c), &frame);
        if (parsed == PARSE_DONE && is_sent_on(link_of(c), &frame))
            return PROTOCOL_ENDED;
        if (parsed == PARSE_DONE)
            wrong =
                take_frame(link_of(c), &frame, in + progress->used + (size - frame.payload.len));
        progress->used += size;
        if (wrong != NULL && c->protocol != NULL)
            conn_drop(c, DROP_MALFORMED, wrong, (struct slice){0});
        if (!conn_is_open(c))
            return PROTOCOL_ENDED;
        if (c->protocol != links)
            return progress->used < len ? PROTOCOL_DEFERRED : PROTOCOL_MORE;
        conn_charge(c, FRAME_COST);
    }
    return PROTOCOL_MORE;
}

/* --- Lost links. A link may have 65,536 sessions, so they are detached in slices. --- */

static void free_lost_link(struct relay_link *link)
{
    TAILQ_REMOVE(&link->all->lost, link, entry);
    end_link(link);
}

/* The first session goes, and then the link: false. */
static bool detach_one(struct relay_link *link)
{
    struct relay_session *s = TAILQ_FIRST(&link->sessions);

    if (s != NULL)
        relay_session_detach(s);
    else
        free_lost_link(link);
    return s != NULL;
}

/* The link's connection ends. Later lost links wait behind earlier ones, so that sessions are
 * detached in the order of the losses. */
static void lose_link(struct relay_link *link)
{
    struct relay_links *all = link->all;
    bool at_once = TAILQ_EMPTY(&all->lost) && link->channels.count <= DETACHED_AT_ONCE;

    link_restart_leave(link);
    link->peer_left = link->conn->peer_left;
    link->since_ms = engine_lived_ms(all->engine);
    link->conn = NULL;
    TAILQ_INSERT_TAIL(&all->lost, link, entry);
    if (!at_once)
        return;
    while (detach_one(link))
        net_spend(all->net, DETACH_COST);
}

/* --- The protocol. --- */

static int send_link(struct conn *c, size_t max)
{
    struct relay_link *link = link_of(c);
    int err = conn_send(c, max);

    if (!TAILQ_EMPTY(&link->blocked) && c->out.bytes <= RELAY_LINK_QUEUE_MAX / 2)
        relay_link_continue(link);
    return err;
}

static const struct backend_functions functions = {.send = send_link};

/* Of a link's own connection: looks in when that has sent something. */
static const struct conn_backend own_backend = {.functions = &functions};

static enum parse_result link_begin(const struct protocol *p, struct conn *c, struct slice in,
                                    struct protocol_progress *progress, const char **)
{
    struct relay_links *all = p->arg;
    enum parse_result result = relay_detect(in, &progress->need);
    struct relay_link *link;

    if (result != PARSE_DONE)
        return result;
    link = account_request_zeroed(ACCOUNT_SESSIONS, ACCOUNT_SMALL, sizeof *link);
    if (link == NULL) {
        CONN_DROP_FOR_MEMORY(c, "a relay");
        return PARSE_BAD;
    }
    link->clients.functions = &relay_session_functions;
    link->conn = c;
    link->refs = 1;
    link->all = all;
    table_init(&link->channels, ACCOUNT_SESSIONS, all->engine->options.seed, NULL);
    TAILQ_INIT(&link->sessions);
    TAILQ_INIT(&link->blocked);
    all->engine->stats.relay_links++;
    c->protocol = p;
    c->backend = &own_backend;
    c->session.aligned = link;
    progress->used = RELAY_MAGIC_SIZE;
    return PARSE_DONE;
}

static void link_end(struct conn *c)
{
    struct relay_link *link = link_of(c);
    struct relay_links *all = link->all;

    if (link->space != NULL)
        log_event(LOG_INFO, "link_closed", log_str("peer", CONN_PEER(c)),
                  log_str("relay", relay_link_name(link)),
                  log_str("space", link->space->store->name),
                  log_u64("sessions", link->channels.count));
    link_stop_waiting(link);
    lose_link(link);
    all->engine->stats.relay_links--;
    c->backend = NULL;
}

struct protocol relay_link_protocol(struct relay_links *all)
{
    return (struct protocol){.name = "relay",
                             .pipelines = true,
                             .arg = all,
                             .begin = link_begin,
                             .read = read_frames,
                             .end = link_end};
}

/* --- Time. --- */

/* How much one tick may do. */
struct sweep_budget {
    size_t ends, looks;
};

/* Ends sessions that recovery has loaded and no relay has opened, and sessions whose end the
 * journal refused before. True if the space has no further sessions. */
static bool sweep_space(struct relay_links *all, struct engine_space *space,
                        struct sweep_budget *left)
{
    struct session *s = session_find(&space->store->sessions, all->sweep.session), *next;

    if (s == NULL) /* that one has ended meanwhile: from the first of its space */
        s = engine_session_next(space, NULL);
    for (; s != NULL; s = next) {
        bool is_here = relay_session_of_id(all, space, s->id) != NULL;

        next = engine_session_next(space, s);
        all->sweep.session = s->id;
        if (left->looks-- == 0 || left->ends == 0)
            return false;
        if (is_here)
            continue;
        if (!engine_session_end(all->engine, space, s->id))
            return false; /* the journal takes no changes at present: later, from here */
        all->engine->stats.sessions_timed_out++;
        left->ends--;
    }
    all->sweep.session = 0;
    return true;
}

/* True: no space has further sessions. */
static bool sweep_sessions(struct relay_links *all)
{
    struct sweep_budget left = {.ends = ENDED_AT_A_TIME, .looks = SWEPT_AT_A_TIME};
    struct engine_space *space = all->sweep.space;

    if (space == NULL)
        space = TAILQ_FIRST(&all->engine->spaces);
    for (; space != NULL; space = TAILQ_NEXT(space, entry)) {
        all->sweep.space = space;
        if (!sweep_space(all, space, &left))
            return false;
    }
    all->sweep.space = NULL;
    return true;
}

/* Reports spaces whose sessions from before the restart have all returned or ended; `all_of_them`:
 * the missing ones will not return. */
static void note_returned(struct relay_links *all, bool all_of_them)
{
    TAILQ_EACH(struct engine_space, space, &all->engine->spaces, entry) {
        if (!space->misses_sessions || (space->sessions_missing > 0 && !all_of_them))
            continue;
        space->misses_sessions = false;
        c10d_note_returned(all->c10d, space);
    }
}

/* For how long somebody could have come back since then. */
static uint64_t away_from_link_ms(const struct relay_links *all, uint64_t since_ms, uint64_t now)
{
    return clock_elapsed_ms(since_ms > all->cut_off_ms ? since_ms : all->cut_off_ms, now);
}

/* All agents of a relay that has closed its link are given up in one iteration, since a machine has
 * fewer than GIVEN_UP_AT_A_TIME: so the other agents of the run hear of the loss once. */
static void give_up_absent(struct relay_links *all, uint64_t now)
{
    struct relay_session *s;

    _Static_assert(RELAY_RETURN_MS >= 2 * (UPSTREAM_RETRY_MOST_MS + UPSTREAM_RETRY_MOST_MS / 4),
                   "see link.h");
    for (size_t i = 0; i < GIVEN_UP_AT_A_TIME; i++) {
        s = TAILQ_FIRST(&all->awaited);
        all->gives_up = s != NULL && away_from_link_ms(all, s->detached_ms, now) >= RELAY_RETURN_MS;
        if (!all->gives_up)
            return;
        relay_session_give_up(s);
    }
}

bool relay_links_continue(struct relay_links *all)
{
    struct conn_list *held = &all->net->held;

    for (size_t i = 0; i < RELEASED_AT_A_TIME && !TAILQ_EMPTY(held); i++)
        conn_set_input(TAILQ_FIRST(held), INPUT_DEFERRED);
    return relay_links_hold_some(all);
}

bool relay_links_work(struct relay_links *all)
{
    struct budget *b = &all->net->budget;

    budget_begin_part(b, BUDGET_SMALL_NS);
    while (!b->over && !TAILQ_EMPTY(&all->lost)) {
        detach_one(TAILQ_FIRST(&all->lost));
        budget_spend(b, DETACH_COST);
    }
    if (all->gives_up)
        give_up_absent(all, engine_lived_ms(all->engine));
    return relay_links_have_work(all);
}

void relay_links_tick(struct relay_links *all)
{
    uint64_t now = engine_lived_ms(all->engine), timeout = all->config->session_timeout_ms;
    struct relay_session *s;
    struct relay_link *link;

    if (engine_is_cut_off(all->engine))
        all->cut_off_ms = now;
    while ((link = TAILQ_FIRST(&all->waiting)) != NULL &&
           clock_elapsed_ms(link->since_ms, now) >= RELAY_STANDBY_MS)
        send_on(link, all->stands_by_why);
    link_restart_tick(all->engine);
    give_up_absent(all, now);

    for (size_t i = 0; i < ENDED_AT_A_TIME && (s = TAILQ_FIRST(&all->detached)) != NULL; i++) {
        if (away_from_link_ms(all, s->detached_ms, now) < timeout)
            break;
        relay_session_time_out(s);
    }
    relay_dropped_tick(all, now);
    if (all->sweeps && away_from_link_ms(all, all->started_ms, now) >= timeout)
        all->sweeps = !sweep_sessions(all);
    note_returned(all, !all->sweeps);
}

/* --- Beginning and end. --- */

void relay_links_init(struct relay_links *all, const struct config *config, struct engine *engine,
                      struct net *net, const struct protocol *c10d, const struct http *http)
{
    *all = (struct relay_links){.config = config,
                                .engine = engine,
                                .net = net,
                                .c10d = c10d,
                                .clients_max = RELAY_CLIENTS_MAX,
                                .sweeps = true};
    TAILQ_INIT(&all->waiting);
    TAILQ_INIT(&all->detached);
    TAILQ_INIT(&all->awaited);
    TAILQ_INIT(&all->dropped);
    TAILQ_INIT(&all->lost);
    table_init(&all->sessions, ACCOUNT_SESSIONS, engine->options.seed, NULL);
    if (gethostname(all->store_name, sizeof all->store_name - 1) < 0)
        strcpy(all->store_name, "rdzvd");
    all->started_ms = engine_lived_ms(engine);
    for (int over_tls = 0; over_tls < 2; over_tls++) {
        all->http[over_tls] = *http;
        all->http[over_tls].behind_relay = true;
        all->http[over_tls].of_tls_clients = over_tls;
        all->http_protocols[over_tls] = http_protocol(&all->http[over_tls]);
    }
}

void relay_links_start(struct relay_links *all)
{
    all->started_ms = engine_lived_ms(all->engine);
    relay_links_restart_sweep(all);
    TAILQ_EACH(struct engine_space, space, &all->engine->spaces, entry) {
        const struct session *s;

        for (s = engine_session_next(space, NULL); s != NULL; s = engine_session_next(space, s))
            space->sessions_missing++;
        space->misses_sessions = space->sessions_missing > 0;
    }
}

void relay_links_fini(struct relay_links *all)
{
    while (!TAILQ_EMPTY(&all->dropped))
        relay_session_free(TAILQ_FIRST(&all->dropped));
    while (!TAILQ_EMPTY(&all->lost))
        free_lost_link(TAILQ_FIRST(&all->lost));
    table_fini(&all->sessions);
    blob_unref(all->kept);
    link_restart_fini(all->engine);
}
