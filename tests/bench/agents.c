/* N of torch's agents, as the model of the simulation has them (tests/sim), which meet in one round
 * (MIN = MAX = N): each is a client like the ranks beside it. See bench.h. */
#include "tests/bench/bench.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/sim/model_agent.h"

#define ADDR_TAIL "-worker-0.training.team-a.svc.cluster.local"
#define ACT_NS    20000000u

enum awaited { AWAITS_NOTHING, AWAITS_WAIT, AWAITS_BLOB, AWAITS_ROLES };

struct agent {
    struct model_agent model;
    struct client *client;
    enum awaited awaited;
    char key[160];
};

static struct {
    struct model_settings how;
    struct agent *all;
    char run_key[64];
    int64_t round; /* that all have to be in */
} meeting;

static uint64_t now_ms(void)
{
    return bench.now_ns / 1000000;
}

static int64_t wall_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void list_grow(struct writer *w, size_t len)
{
    w->cap = len * 2;
    w->ptr = need(realloc(w->ptr, w->cap));
}

/* --- Requests. --- */

static void look(struct agent *a)
{
    uint8_t item[8 + sizeof a->key];
    struct writer w = {.ptr = item, .cap = sizeof item};
    struct c10d_request req = {.op = C10D_WAIT, .count = 1};

    c10d_write_blob(&w, slice_str(a->key));
    req.items = (struct slice){item, w.len};
    ask(a->client, &req);
    a->awaited = AWAITS_WAIT;
}

static void compare_set(struct agent *a)
{
    const struct model_agent *m = &a->model;
    struct c10d_request req = {
        .op = C10D_COMPARE_SET, .key = slice_str(a->key), .value = {m->text, m->text_len}};

    if (m->phase != MODEL_INTRODUCING)
        req.expected = (struct slice){m->token, m->token_len};
    ask(a->client, &req);
    a->awaited = AWAITS_BLOB;
}

static void answer_model(struct agent *a, struct slice value)
{
    model_agent_answer(&a->model, value, now_ms(), wall_us());
    if (a->model.phase == MODEL_FAILED)
        errx(1, "%s: %s", a->model.name, a->model.failure);
}

static void set_round_key(struct agent *a)
{
    ask(a->client, &(struct c10d_request){.op = C10D_SET,
                                          .key = slice_str(a->key),
                                          .value = {a->model.text, a->model.text_len}});
    answer_model(a, slice_str(""));
}

static void put_round_key(struct writer *w, const struct agent *a, const char *name, size_t rank)
{
    char key[sizeof a->key];

    snprintf(key, sizeof key, "%s.%lld/torchelastic/%s/%zu", meeting.run_key,
             (long long)a->model.round, name, rank);
    c10d_write_blob(w, slice_str(key));
}

/* Agent 0 reads the roles of all, and sets the ranks of all workers. */
static void gather_roles(struct agent *a)
{
    struct c10d_request req = {.op = C10D_WAIT, .count = a->model.world_size};
    struct writer w = {.grow = list_grow};

    for (size_t i = 0; i < a->model.world_size; i++)
        put_round_key(&w, a, "role_info", i);
    req.items = (struct slice){w.ptr, w.len};
    ask(a->client, &req);
    free(w.ptr);
    a->awaited = AWAITS_ROLES;
}

static void set_ranks(struct agent *a)
{
    struct c10d_request req = {.op = C10D_MULTI_SET, .count = a->model.world_size};
    struct writer w = {.grow = list_grow};

    for (size_t i = 0; i < a->model.world_size; i++) {
        put_round_key(&w, a, "assigned_ranks", i);
        c10d_write_blob(&w, slice_str("[0, 1, 0, 1]"));
    }
    req.items = (struct slice){w.ptr, w.len};
    ask(a->client, &req);
    free(w.ptr);
    answer_model(a, slice_str(""));
}

/* Lets it go on until it waits for an answer or for time. */
static void act(struct agent *a)
{
    struct model_agent *m = &a->model;

    while (a->awaited == AWAITS_NOTHING) {
        model_agent_act(m, now_ms(), wall_us());
        if (m->request == REQUEST_NONE)
            return;
        if (m->request == REQUEST_SET || m->request == REQUEST_READ)
            snprintf(a->key, sizeof a->key, "%s.%lld/%s", meeting.run_key, (long long)m->round,
                     m->name_of_key);
        else
            snprintf(a->key, sizeof a->key, "%s", meeting.run_key);
        if (m->request == REQUEST_SET)
            set_round_key(a);
        else if (m->request == REQUEST_GATHER)
            gather_roles(a);
        else if (m->request == REQUEST_RANK)
            set_ranks(a);
        else if (m->request == REQUEST_COMPARE_SET)
            compare_set(a);
        else
            look(a);
    }
}

void agent_answered(struct client *c, struct slice answer)
{
    struct agent *a = c->agent;
    enum awaited was = a->awaited;

    a->awaited = AWAITS_NOTHING;
    if (was == AWAITS_WAIT) {
        ask(c, &(struct c10d_request){.op = C10D_GET, .key = slice_str(a->key)});
        a->awaited = AWAITS_BLOB;
    } else if (was == AWAITS_ROLES) {
        answer_model(a, slice_str(""));
    } else if (was == AWAITS_BLOB) {
        answer_model(a, slice_from(answer, 8));
    } else {
        errx(1, "%s: an answer that was not asked for", a->model.name);
    }
    act(a);
}

/* --- Phases. --- */

void agents_act(void)
{
    static uint64_t next_ns;

    if (meeting.all == NULL || bench.now_ns < next_ns)
        return;
    next_ns = bench.now_ns + ACT_NS;
    for (unsigned i = 0; i < bench.agent_count; i++) {
        struct agent *a = &meeting.all[i];

        if (a->awaited != AWAITS_NOTHING || model_agent_next_ms(&a->model) > now_ms())
            continue;
        act(a);
        wire_flush(a->client->wire);
    }
}

bool agents_train(void)
{
    static uint64_t next_ns;

    if (bench.now_ns < next_ns)
        return false;
    next_ns = bench.now_ns + ACT_NS / 2;
    for (unsigned i = 0; i < bench.agent_count; i++) {
        const struct model_agent *m = &meeting.all[i].model;

        if (m->phase != MODEL_TRAINING || m->round < meeting.round)
            return false;
    }
    return true;
}

void agents_start(void)
{
    char name[sizeof meeting.all->model.name];

    meeting.how = (struct model_settings){.min_nodes = bench.options.agents,
                                          .max_nodes = bench.options.agents,
                                          .last_call_ms = 30000,
                                          .monitor_ms = 1000,
                                          .max_restarts = 100,
                                          .sharing = SHARING_ONCE};
    snprintf(meeting.run_key, sizeof meeting.run_key, "/torch.rendezvous.job-%u",
             bench.options.agents);
    meeting.all = need(calloc(bench.agent_count + 1, sizeof *meeting.all));
    for (unsigned i = 0; i < bench.agent_count; i++) {
        struct agent *a = &meeting.all[i];

        a->client = &bench.agents[i];
        a->client->agent = a;
        snprintf(name, sizeof name, "node-%05u" ADDR_TAIL, a->client->index);
        model_agent_start(&a->model, &meeting.how, name, 100, 0, now_ms());
    }
}

void agents_again(void)
{
    meeting.round++;
    for (unsigned i = 0; i < bench.agent_count; i++) {
        struct model_agent *m = &meeting.all[i].model;

        if (i == 0)
            meeting.round = m->round + 1;
        m->workers_failed = bench.process == 0 && i == 0;
        m->next_ms = m->workers_failed ? now_ms() : m->next_ms;
    }
}
