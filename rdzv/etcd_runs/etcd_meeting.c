/* Lets the nodes of a round over `etcd-v2` end their workers in the same moment, as meeting.c does
 * it over c10d. Here every agent reads and writes the whole state, so no node can be hidden: the
 * write by which a node begins to wait is held, and the next read of each participant, until all of
 * them read. Then the write is carried out, and all reads are answered.
 *
 * An agent sends no heartbeat while its read is held, and nothing else can tell the others that it
 * lives, so the hold is shorter than over c10d: agents with a --monitor-interval of more than 5 s
 * are not waited for. An agent that has not written since rdzvd was started is not waited for
 * either. Nothing is held if the state has more than 16 KiB.
 *
 * Upstream: EtcdRendezvousBackend (rendezvous/etcd_rendezvous_backend.py), 1.13 to 2.14. */
#include "rdzv/etcd_runs/etcd_runs.h"

#include "rdzv/http/session.h"

/* An agent presumes another one dead 15 s after its last heartbeat, and sends its own each 5 s. */
#define HOLD_MOST_MS 8000
#define SLACK_MS     2000
/* From the release of a write on: its client may have to read the state and write once more. */
#define WRITE_MS 1000

/* A request that is handled again when its connection is woken. */
struct held_request {
    struct http_job job; /* the first member */
    TAILQ_ENTRY(held_request) entry;
    struct etcd_run *run; /* pinned */
    struct conn *conn;
    bool is_write;
    bool released;
};

static struct held_request *held_of(struct http_job *job)
{
    return (struct held_request *)(void *)job; /* its first member */
}

#define MEMBERS_FOREACH(m, run) FOREACH(struct etcd_member, m, (run)->members, (run)->member_count)

static uint64_t now_ms(const struct etcd_run *run)
{
    return engine_now_ms(run->runs->home->engine);
}

/* --- Holding a request. --- */

static enum http_job_state run_job(struct http_job *job, const struct http_request *r)
{
    if (!held_of(job)->released)
        return HTTP_JOB_WAITS;
    return http_handle_again(r, job) ? HTTP_JOB_DONE : HTTP_JOB_CONTINUES;
}

/* Nobody would read the answer, and a write of an agent that has ended must not be carried out. */
static void eof(struct http_job *job)
{
    conn_close(held_of(job)->conn, "the client left before its request was carried out");
}

/* If this was the last held write of the run, its held reads have no reason to wait. */
static void free_job(struct http_job *job)
{
    struct held_request *h = held_of(job);
    struct etcd_run *run = h->run;

    TAILQ_REMOVE(&run->meeting.requests, h, entry);
    run->meeting.writes -= h->is_write;
    MEMBERS_FOREACH(m, run) {
        if (m->held == h)
            m->held = NULL;
    }
    if (!h->released)
        etcd_meeting_check(run);
    run->view.pins--; /* if it has ended, the next tick frees it */
    account_free(ACCOUNT_SESSIONS, h, sizeof *h);
}

/* False: no memory; the request is carried out. */
static bool hold(struct etcd_run *run, const struct http_request *r, struct etcd_member *member)
{
    struct held_request *h =
        account_request_zeroed(ACCOUNT_SESSIONS, conn_class(r->conn), sizeof *h);

    if (h == NULL)
        return false;
    h->job = (struct http_job){.run = run_job, .free = free_job, .eof = eof};
    h->run = run;
    h->conn = r->conn;
    h->is_write = member == NULL;
    run->view.pins++;
    TAILQ_INSERT_TAIL(&run->meeting.requests, h, entry);
    run->meeting.writes += h->is_write;
    if (member != NULL)
        member->held = h;
    http_start_job(r, &h->job, HTTP_JOB_WAITS);
    return true;
}

static void release(struct etcd_run *run, bool writes)
{
    TAILQ_EACH(struct held_request, h, &run->meeting.requests, entry) {
        if (h->is_write != writes || h->released)
            continue;
        http_wake_job(h->conn);
        h->released = true;
    }
}

/* --- Who polls. --- */

/* The node is a participant of the state, and has been seen to write. */
static bool takes_part(const struct etcd_run *run, const struct etcd_member *m)
{
    return run->view.state.nodes[m - run->members].participant && m->peer[0] != '\0';
}

/* The participant that has written by this connection last. A client has several connections: if no
 * participant has written by this one, the only participant from the same host. NULL: none. */
static struct etcd_member *participant_of_conn(const struct etcd_run *run, const struct conn *c)
{
    struct etcd_member *found = NULL;
    char peer[CONN_PEER_MAX], host[PEER_HOST_MAX];
    size_t same_host = 0, len;

    conn_peer(c, peer);
    len = strlen(peer_host(&c->peer, host));
    MEMBERS_FOREACH(m, run) {
        if (!takes_part(run, m))
            continue;
        if (strcmp(m->peer, peer) == 0)
            return m;
        if (strncmp(m->peer, host, len) != 0 || m->peer[len] != ':')
            continue;
        found = m;
        same_host++;
    }
    return same_host == 1 ? found : NULL;
}

/* The thread that polls the workers waits, as pace.c says it. */
static bool does_member_poll(const struct etcd_member *m, uint64_t ms)
{
    const struct agent_pace *p = &m->pace;
    uint64_t usual_ms = p->interval_ms != 0 ? p->interval_ms : TORCH_HEARTBEAT_MS;

    return m->held != NULL && (!p->may_beat || clock_elapsed_ms(m->held_ms, ms) >= usual_ms);
}

static bool do_all_participants_poll(const struct etcd_run *run)
{
    uint64_t ms = now_ms(run);

    return !ANY(MEMBERS_FOREACH(m, run), takes_part(run, m) && !does_member_poll(m, ms));
}

static void note_poll(struct agent_pace *p, uint64_t ms)
{
    if (p->polled_ms != 0)
        pace_note_interval(p, clock_elapsed_ms(p->polled_ms, ms));
    p->polled_ms = ms;
    if (p->wrote_ms == 0)
        p->wrote_ms = ms;
}

static uint64_t longest_hold_ms(const struct etcd_run *run)
{
    uint64_t usual_ms = 0, wait_ms;

    MEMBERS_FOREACH(m, run) {
        if (takes_part(run, m) && usual_ms < m->pace.interval_ms)
            usual_ms = m->pace.interval_ms;
    }
    wait_ms = usual_ms + usual_ms / 2 + SLACK_MS;
    return usual_ms != 0 && wait_ms < HOLD_MOST_MS ? wait_ms : HOLD_MOST_MS;
}

/* --- The meeting. --- */

/* A node that waits would make the participants meet. */
static bool may_meet(const struct etcd_run *run)
{
    const struct run_view *v = &run->view;

    return v->is_state && v->state.complete && !v->state.closed && v->waiting == 0 &&
           v->participants > 0;
}

void etcd_meeting_check(struct etcd_run *run)
{
    struct etcd_meeting *m = &run->meeting;
    bool gathers = m->phase == ETCD_MEETING_GATHERS, is_over = now_ms(run) >= m->until_ms;

    if (m->phase == ETCD_MEETING_NONE)
        return;
    if (!may_meet(run) || (gathers ? m->writes == 0 : is_over)) {
        m->phase = ETCD_MEETING_NONE;
        release(run, true);
        release(run, false);
    } else if (gathers && (is_over || do_all_participants_poll(run))) {
        m->phase = ETCD_MEETING_WRITES;
        m->until_ms = now_ms(run) + WRITE_MS;
        release(run, true);
    }
}

static bool holds_poll(struct etcd_run *run, const struct http_request *r)
{
    struct etcd_member *m = may_meet(run) ? participant_of_conn(run, r->conn) : NULL;

    if (m == NULL || m->held != NULL)
        return false;
    note_poll(&m->pace, now_ms(run));
    if (run->meeting.phase == ETCD_MEETING_NONE || !hold(run, r, m))
        return false;
    m->held_ms = now_ms(run);
    m->pace.may_beat = pace_may_beat(&m->pace, m->held_ms);
    etcd_meeting_check(run);
    return true;
}

/* It makes a node wait that others have to meet for. */
static bool begins_to_wait(const struct etcd_run *run, struct slice value)
{
    struct torch_state next;
    bool begins;

    if (!may_meet(run) || value.len > ETCD_RUN_READ_AT_ONCE)
        return false;
    run->runs->home->engine->work += value.len;
    if (torch_state_read(value, &next) != TORCH_STATE_OK)
        return false;
    begins = next.complete && !next.closed && next.round == run->view.state.round &&
             torch_state_participants(&next) > 0 && torch_state_waiting(&next) > 0;
    torch_state_free(&next);
    return begins;
}

static bool holds_write(struct etcd_run *run, const struct http_request *r, struct slice value,
                        uint64_t prev_index)
{
    struct etcd_meeting *m = &run->meeting;
    struct etcd_member *member = participant_of_conn(run, r->conn);

    if (member != NULL)
        member->pace.wrote_ms = now_ms(run);
    if (prev_index != run->modified || m->phase == ETCD_MEETING_WRITES ||
        !begins_to_wait(run, value) || do_all_participants_poll(run))
        return false;
    if (m->phase == ETCD_MEETING_NONE)
        m->until_ms = now_ms(run) + longest_hold_ms(run);
    if (!hold(run, r, NULL))
        return false;
    m->phase = ETCD_MEETING_GATHERS;
    return true;
}

bool etcd_meeting_holds(struct etcd_run *run, const struct http_request *r, struct slice value,
                        uint64_t prev_index)
{
    if (!run->view.exists || (r->job != NULL && r->job->run == run_job))
        return false;
    return value.ptr == NULL ? holds_poll(run, r) : holds_write(run, r, value, prev_index);
}
