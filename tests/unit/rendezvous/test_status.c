/* How a run of c10d stands: keys in, status out. */
#include "tests/unit/rendezvous/status_json.h"

#include <stdio.h>

/* --- c10d: what the policy notes makes the history. --- */

struct play {
    struct scene s;
    struct history history;
};

static void begin(struct play *p)
{
    scene_init(&p->s);
    p->history = (struct history){0};
}

static void end(struct play *p)
{
    history_fini(&p->history);
    scene_fini(&p->s);
}

static void note(struct play *p)
{
    for (size_t i = 0; i < p->s.out.count; i++) {
        const struct policy_output *o = &p->s.out.items[i];

        if (o->kind == POLICY_NOTE)
            history_note(&p->history, &p->s.run, o->note,
                         o->note->agent == NULL ? NULL : " at 10.0.0.7:1", scene_now_us(&p->s));
    }
}

static struct node_facts look(const struct run_facts *f, const struct torch_node *node)
{
    static char peer[] = "10.0.0._:1";
    bool connected = run_agent_of(f->run, node) != NULL;

    peer[7] = (char)node->addr.ptr[0];
    return (struct node_facts){
        .connected = connected, .joined_us = 5, .peer = connected ? peer : NULL};
}

static struct run_facts facts_of(const struct play *p)
{
    return (struct run_facts){.view = &p->s.run.view,
                              .run = &p->s.run,
                              .history = &p->history,
                              .now_us = scene_now_us(&p->s),
                              .expected = p->s.settings.expected_nodes,
                              .look = look};
}

static cJSON *status(const struct play *p)
{
    const struct run_facts facts = facts_of(p);

    return json_of(&facts);
}

/* Agent `i` writes the value that there is, changed. */
static void write_state(struct play *p, size_t i,
                        void (*change)(struct scene *, struct torch_state *))
{
    struct torch_state before = scene_state(scene_get(&p->s, "")), next;
    const char *now = scene_text(&p->s, &before);

    next = scene_state(now);
    change(&p->s, &next);
    scene_cas(&p->s, &p->s.agents[i], now, scene_text(&p->s, &next));
    note(p);
}

static void a_joins(struct scene *s, struct torch_state *st)
{
    scene_beat(st, "a", scene_now_us(s));
    scene_node(st, "a")->participant = true;
}

static void a_leaves(struct scene *s, struct torch_state *st)
{
    (void)s;
    scene_remove(st, "a");
}

static void a_waits(struct scene *s, struct torch_state *st)
{
    scene_beat(st, "a", scene_now_us(s));
    scene_node(st, "a")->waiting = true;
}

static void begin_with(struct play *p, size_t agents)
{
    begin(p);
    for (size_t i = 0; i < agents; i++)
        scene_cas(&p->s, scene_connect(&p->s, true), "", SENTINEL);
    note(p);
}

static void two_of_three_nodes_complete(struct play *p)
{
    begin_with(p, 3);
    scene_pass(&p->s, 1000);
    scene_cas(&p->s, &p->s.agents[0], SENTINEL, scene_joined(&p->s, SENTINEL, "a"));
    note(p);
    scene_pass(&p->s, 2000);
    write_state(p, 1, b_joins_for_a_last_call);
}

static void a_run_from_nothing_to_a_complete_round(void **state)
{
    struct play p;
    cJSON *json;

    (void)state;
    (void)a_joins;
    begin_with(&p, 2);
    json = status(&p);
    assert_string_equal(str(json, "state"), "empty");
    assert_string_equal(str(json, "id"), "job");
    assert_int_equal(num(json, "agents"), 2);
    assert_int_equal(count(json, "rounds"), 0);
    assert_true(hints_at(json, "none has joined"));
    cJSON_Delete(json);
    end(&p);

    two_of_three_nodes_complete(&p);
    json = status(&p);
    assert_string_equal(str(json, "state"), "last_call");
    assert_int_equal(num(json, "min"), 2);
    assert_int_equal(num(json, "max"), -1);
    assert_int_equal(num(json, "seconds_left"), 30);
    assert_int_equal(num(item(json, "nodes", 1), "rank"), -1);
    cJSON_Delete(json);

    write_state(&p, 0, it_is_complete);
    json = status(&p);
    assert_string_equal(str(json, "state"), "complete");
    assert_string_equal(str(json, "backend"), "c10d");
    assert_int_equal(num(json, "participants"), 2);
    assert_int_equal(num(json, "seconds_left"), -1);
    assert_int_equal(num(json, "missing_count"), 0);
    assert_string_equal(str(item(json, "nodes", 1), "addr"), "b");
    assert_int_equal(num(item(json, "nodes", 1), "rank"), 1);
    assert_int_equal(num(item(json, "nodes", 1), "pid"), 100);
    assert_string_equal(str(item(json, "nodes", 1), "peer"), "10.0.0.b:1");
    assert_string_equal(str(item(json, "nodes", 1), "role"), "participant");
    assert_string_equal(str(item(json, "nodes", 1), "since"), "1970-01-01T00:00:00.000005Z");
    assert_int_equal(num(item(json, "rounds", 0), "nodes"), 2);
    assert_int_equal(num(item(json, "rounds", 0), "seconds"), 2);
    assert_null(get(item(json, "rounds", 0), "why"));
    cJSON_Delete(json);
    end(&p);
}

/* MIN is known when a round is complete without a last call, MAX when a joining node completes it.
 */
static void what_torchrun_was_started_for(void **state)
{
    struct play p;
    cJSON *json;

    (void)state;
    begin(&p);
    scene_meet(&p.s, 3);
    note(&p);
    json = status(&p);
    assert_int_equal(num(json, "min"), 3);
    assert_int_equal(num(json, "max"), 3);
    cJSON_Delete(json);
    end(&p);
}

static void a_lost_node_is_named(void **state)
{
    struct play p;
    cJSON *json;
    const cJSON *lost;

    (void)state;
    two_of_three_nodes_complete(&p);
    write_state(&p, 0, it_is_complete);
    scene_pass(&p.s, 6000);
    scene_disconnect(&p.s, &p.s.agents[1]);
    note(&p);
    json = status(&p);
    assert_int_equal(count(json, "missing"), 1);
    assert_int_equal(num(json, "missing_count"), 1);
    lost = item(json, "missing", 0);
    assert_string_equal(str(lost, "addr"), "b");
    assert_int_equal(num(lost, "rank"), 1);
    assert_string_equal(str(lost, "why"), "disconnected");
    assert_string_equal(str(lost, "peer"), " at 10.0.0.7:1");
    assert_non_null(get(lost, "since"));
    assert_string_equal(str(item(json, "rounds", 0), "why"),
                        "b (pid 100) was lost: its connection ended; rdzvd makes the other nodes "
                        "(1) meet again");
    cJSON_Delete(json);

    scene_disconnect(&p.s, &p.s.agents[0]);
    note(&p);
    json = status(&p);
    assert_int_equal(num(json, "participants"), 0);
    assert_int_equal(count(json, "missing"), 2);
    assert_string_equal(str(item(json, "missing", 0), "addr"), "a");
    cJSON_Delete(json);
    end(&p);
}

static const char *gone(const struct play *p)
{
    static char names[64];
    cJSON *json = status(p);

    names[0] = '\0';
    for (int i = 0; i < count(json, "absent"); i++) {
        strcat(names, str(item(json, "absent", i), "addr"));
        assert_string_equal(str(item(json, "absent", i), "why"), "disconnected");
    }
    assert_int_equal(num(json, "absent_count"), strlen(names));
    assert_int_equal(num(json, "missing_count"), 0);
    cJSON_Delete(json);
    return names;
}

/* The others have met again without it. */
static void a_lost_node_without_which_the_run_goes_on_is_gone(void **state)
{
    struct play p;
    const cJSON *lost;
    cJSON *json;

    (void)state;
    begin(&p);
    scene_meet(&p.s, 4);
    note(&p);
    scene_disconnect(&p.s, &p.s.agents[3]);
    note(&p);
    json = status(&p);
    assert_int_equal(num(json, "missing_count"), 1);
    assert_int_equal(num(json, "absent_count"), 0);
    cJSON_Delete(json);

    scene_next_round(&p.s, 3);
    note(&p);
    assert_string_equal(gone(&p), "d");
    json = status(&p);
    lost = item(json, "absent", 0);
    assert_int_equal(num(lost, "rank"), 3);
    assert_int_equal(num(lost, "pid"), 100);
    assert_non_null(get(lost, "since"));
    assert_string_equal(str(lost, "peer"), " at 10.0.0.7:1");
    cJSON_Delete(json);
    scene_next_round(&p.s, 3);
    note(&p);
    assert_string_equal(gone(&p), "d");

    /* Somebody waits for it: then it is missing. */
    p.s.settings.expected_nodes = 4;
    json = status(&p);
    assert_int_equal(num(json, "missing_count"), 1);
    assert_string_equal(str(item(json, "missing", 0), "addr"), "d");
    assert_string_equal(str(item(json, "missing", 0), "why"), "disconnected");
    assert_int_equal(num(json, "absent_count"), 0);
    cJSON_Delete(json);
    p.s.settings.expected_nodes = 5;
    json = status(&p);
    assert_int_equal(num(json, "missing_count"), 2);
    assert_int_equal(count(json, "missing"), 1);
    cJSON_Delete(json);
    p.s.settings.expected_nodes = 0;

    scene_disconnect(&p.s, &p.s.agents[2]);
    note(&p);
    scene_next_round(&p.s, 2);
    note(&p);
    assert_string_equal(gone(&p), "cd");
    end(&p);
}

static void add_node(struct torch_state *state, const char *addr, int64_t pid, bool participant)
{
    const struct torch_node who = {
        .addr = slice_str(addr), .pid = pid, .participant = participant, .waiting = !participant};
    struct torch_node *at;

    assert_true(torch_state_insert(state, &who, &at));
}

/* MIN nodes are there, and none of them sets a deadline: one agent waits for more of them. */
static void a_round_that_stands_still_has_a_hint(void **state)
{
    struct play p;

    (void)state;
    two_of_three_nodes_complete(&p);
    for (int seconds = 10; seconds <= 20; seconds += 10) {
        cJSON *json;

        scene_pass(&p.s, 10000);
        p.s.run.view.state.has_deadline = false;
        NODES_FOREACH(node, &p.s.run.view.state)
            node->heartbeat_us = scene_now_us(&p.s);
        json = status(&p);
        assert_int_equal(num(json, "missing_count"), 0);
        assert_int_equal(hints_at(json, "do all agents have the same --nnodes?"), seconds == 20);
        cJSON_Delete(json);
    }
    end(&p);
}

/* Before or after the absent node in the order of nodes, and at no other address. */
static void a_newcomer_makes_up_for_one_node_of_its_address(void **state)
{
    static const struct {
        int64_t newcomers[3]; /* pids at address b; 0: no more */
        const char *missing;
    } cases[] = {{{0}, "bbc"}, {{1}, "bc"}, {{7}, "bc"}, {{1, 7}, "c"}, {{1, 4, 7}, "c"}};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct run_view view = {.is_state = true, .has_completed = true};
        struct run_facts facts;
        struct play p;
        cJSON *json;

        begin(&p);
        p.s.run.agent_count = 1; /* else the run is left */
        facts = facts_of(&p);
        facts.view = &view;
        add_node(&view.last_completed, "a", 1, true);
        add_node(&view.last_completed, "b", 3, true);
        add_node(&view.last_completed, "b", 5, true);
        add_node(&view.last_completed, "c", 9, true);
        add_node(&view.state, "a", 1, true);
        add_node(&view.state, "a", 2, false);
        for (size_t k = 0; k < COUNT(cases[i].newcomers) && cases[i].newcomers[k] != 0; k++)
            add_node(&view.state, "b", cases[i].newcomers[k], k % 2 == 0);
        json = json_of(&facts);
        assert_int_equal(count(json, "missing"), strlen(cases[i].missing));
        for (int k = 0; k < count(json, "missing"); k++)
            assert_int_equal(str(item(json, "missing", k), "addr")[0], cases[i].missing[k]);
        cJSON_Delete(json);
        run_view_fini(&view);
        end(&p);
    }
}

/* After a start: an agent that is back without a hint may be any of the awaited nodes. */
static void nodes_that_are_awaited_are_told_of(void **state)
{
    struct run_survey survey;
    struct hints hints;
    struct run_facts facts;
    struct play p;

    (void)state;
    begin(&p);
    scene_meet(&p.s, 3);
    note(&p);
    scene_restart(&p.s, true);
    scene_return(&p.s, NULL);
    facts = facts_of(&p);
    facts.agents_unnamed = 1;
    for (int awaited = 0; awaited < 2; awaited++) {
        facts.awaited_ms = awaited ? 29001 : 0;
        run_status_survey(&facts, &survey);
        assert_int_equal(survey.missing_count, 0);
        hints.count = 0;
        run_status_hints(&facts, &survey, &hints);
        assert_int_equal(hints.count, awaited);
    }
    assert_non_null(strstr(hints.texts[0], "rdzvd was started: 2;"));
    assert_non_null(strstr(hints.texts[0], "in 30 s at the latest"));
    facts.agents_unnamed = 3;
    hints.count = 0;
    run_status_hints(&facts, &survey, &hints);
    assert_int_equal(hints.count, 0);
    end(&p);
}

static void nodes_that_are_expected_are_missing(void **state)
{
    struct play p;
    cJSON *json;

    (void)state;
    two_of_three_nodes_complete(&p);
    p.s.settings.expected_nodes = 4;
    json = status(&p);
    assert_int_equal(num(json, "expect"), 4);
    assert_int_equal(num(json, "missing_count"), 2);
    assert_int_equal(count(json, "missing"), 0);
    assert_false(hints_at(json, "nodes that have joined"));
    cJSON_Delete(json);
    end(&p);
}

/* The agent leaves the round and joins again: torch's answer to a worker that failed. */
static void a_failed_worker_is_the_reason(void **state)
{
    struct play p;
    cJSON *json;

    (void)state;
    two_of_three_nodes_complete(&p);
    write_state(&p, 0, it_is_complete);
    write_state(&p, 0, a_leaves);
    json = status(&p);
    assert_string_equal(str(item(json, "rounds", 0), "why"),
                        "a (pid 100) left the round by itself");
    cJSON_Delete(json);
    write_state(&p, 0, a_waits);
    json = status(&p);
    assert_string_equal(
        str(item(json, "rounds", 0), "why"),
        "a worker of a (pid 100) failed: its agent left the round and joined again");
    assert_int_equal(num(json, "waiting"), 1);
    assert_true(hints_at(json, "wait for the next round: 1"));
    cJSON_Delete(json);
    end(&p);
}

/* Round `i` begins at i * 10 s, is complete a second later, and ends so: a worker of rank 1 fails
 * after 4 s. */
static void fail_round(struct play *p, int64_t i, const char *node, bool names_rank)
{
    int64_t now_us = scene_now_us(&p->s) + (i - 10) * 10 * SECOND;

    history_reach(&p->history, i, now_us);
    history_complete(&p->history, 2, true, now_us + SECOND);
    if (names_rank) {
        history_end_worker(&p->history, 1, " at 10.0.0.8:1", now_us + 5 * SECOND);
        history_end_worker(&p->history, 0, " at 10.0.0.7:1", now_us + 5 * SECOND + 1);
    }
    history_leave(&p->history, node, now_us + 5 * SECOND + 2);
    history_end_worker(&p->history, 0, " at 10.0.0.7:1", now_us + 5 * SECOND + 3);
    history_reach(&p->history, i + 1, now_us + 5 * SECOND + 4);
    history_join(&p->history, node, false, 1);
}

static void a_loop_of_failures_names_who_was_first(void **state)
{
    struct play p;
    cJSON *json;

    (void)state;
    begin_with(&p, 2);
    scene_cas(&p.s, &p.s.agents[0], SENTINEL, scene_joined(&p.s, SENTINEL, "a"));
    for (int64_t i = 0; i < 3; i++) {
        json = status(&p);
        assert_false(hints_at(json, "restart loop"));
        cJSON_Delete(json);
        fail_round(&p, i, i == 1 ? "a/100/0" : "b/100/0", i != 1);
    }
    json = status(&p);
    assert_true(hints_at(
        json, "in each of the last 3 rounds a worker failed, 4.0 s after the begin: read the "
              "log of the worker that ended first, rank 1 at 10.0.0.8:1 (2 of 3)"));
    cJSON_Delete(json);
    fail_round(&p, 3, "a/100/0", false);
    json = status(&p);
    assert_true(hints_at(json, "the log of a (pid 100), whose agent left first (2 of 4)"));
    cJSON_Delete(json);
    fail_round(&p, 4, "b/100/0", true);
    fail_round(&p, 5, "c/100/0", true); /* another node has rank 1 now */
    json = status(&p);
    assert_true(hints_at(json, "the worker that ended first, rank 1 at 10.0.0.8:1 (3 of 6)"));
    cJSON_Delete(json);

    history_complete(&p.history, 2, true, scene_now_us(&p.s));
    history_leave(&p.history, "b/100/0", scene_now_us(&p.s));
    history_reach(&p.history, 7, scene_now_us(&p.s)); /* its agent has not joined again yet */
    json = status(&p);
    assert_true(hints_at(json, "in each of the last 6 rounds a worker failed"));
    cJSON_Delete(json);
    end(&p);
}

/* A round that lasts, or ends for another reason, is no part of a loop. */
static void a_loop_ends_with_a_round_that_lasts(void **state)
{
    struct play p;
    cJSON *json;

    (void)state;
    begin_with(&p, 2);
    scene_cas(&p.s, &p.s.agents[0], SENTINEL, scene_joined(&p.s, SENTINEL, "a"));
    for (int64_t i = -60; i < -57; i++)
        fail_round(&p, i, "b/100/0", true);
    json = status(&p);
    assert_false(hints_at(json, "restart loop"));
    cJSON_Delete(json);
    history_lose(&p.history, "c/1/0", LOSS_DISCONNECTED, NULL, scene_now_us(&p.s) - 5 * SECOND);
    history_reach(&p.history, -56, scene_now_us(&p.s) - 5 * SECOND);
    json = status(&p);
    assert_false(hints_at(json, "restart loop"));
    cJSON_Delete(json);
    end(&p);
}

static void a_node_that_comes_is_the_reason(void **state)
{
    struct play p;
    cJSON *json;

    (void)state;
    two_of_three_nodes_complete(&p);
    write_state(&p, 0, it_is_complete);
    history_join(&p.history, "c/7/0", true, 1);
    json = status(&p);
    assert_string_equal(str(item(json, "rounds", 0), "why"),
                        "c (pid 7) came, and the others meet again to admit it");
    cJSON_Delete(json);
    end(&p);
}

/* A cancelled job is not broken. */
static void a_run_that_all_agents_have_left(void **state)
{
    struct run_facts facts;
    struct play p;
    cJSON *json;

    (void)state;
    two_of_three_nodes_complete(&p);
    write_state(&p, 0, it_is_complete);
    p.s.settings.expected_nodes = 9;
    for (size_t i = 0; i < 3; i++)
        scene_disconnect(&p.s, &p.s.agents[i]);
    note(&p);
    facts = facts_of(&p);
    facts.left_us = 1000 * SECOND;
    json = json_of(&facts);
    assert_string_equal(str(json, "state"), "left");
    assert_string_equal(str(json, "since"), "1970-01-01T00:16:40Z");
    assert_int_equal(num(json, "missing_count"), 0);
    assert_true(hints_at(json, "all its agents have gone"));
    cJSON_Delete(json);
    p.s.run.start = START_AWAITED; /* its agents may come back */
    json = status(&p);
    assert_string_equal(str(json, "state"), "joining");
    cJSON_Delete(json);
    p.s.run.start = START_OVER;
    end(&p);
}

static void a_closed_run(void **state)
{
    struct play p;
    cJSON *json;

    (void)state;
    two_of_three_nodes_complete(&p);
    write_state(&p, 0, it_is_complete);
    p.s.settings.expected_nodes = 9;
    scene_finish(&p.s, 0);
    write_state(&p, 0, a_closes);
    scene_disconnect(&p.s, &p.s.agents[0]);
    scene_disconnect(&p.s, &p.s.agents[1]);
    scene_disconnect(&p.s, &p.s.agents[2]);
    note(&p);
    json = status(&p);
    assert_string_equal(str(json, "state"), "closed");
    assert_int_equal(num(json, "missing_count"), 0);
    assert_string_equal(str(item(json, "rounds", 0), "why"),
                        "a (pid 100) closed the run: its workers have ended well");
    assert_non_null(get(item(json, "rounds", 0), "ended"));
    assert_true(hints_at(json, "keys of an earlier run: it is closed"));
    cJSON_Delete(json);
    end(&p);
}

/* The failed node's agent has ended, and the other agents still run. */
static void a_failed_run(void **state)
{
    struct play p;
    cJSON *json;

    (void)state;
    for (int torchs_way = 0; torchs_way < 2; torchs_way++) {
        two_of_three_nodes_complete(&p);
        p.s.settings.end_failed_runs = !torchs_way;
        write_state(&p, 0, it_is_complete);
        write_state(&p, 0, a_closes);
        scene_disconnect(&p.s, &p.s.agents[0]);
        json = status(&p);
        assert_string_equal(str(json, "state"), "failed");
        assert_string_equal(str(json, "failed_node"), "a/100/0");
        assert_int_equal(num(json, "participants"), 1);
        assert_int_equal(count(json, "nodes"), 1);
        assert_string_equal(str(item(json, "nodes", 0), "addr"), "b");
        assert_string_equal(str(item(json, "rounds", 0), "why"),
                            "workers of a (pid 100) failed, and its agent had no restart left");
        assert_true(hints_at(json, "workers of a (pid 100) failed"));
        assert_int_equal(hints_at(json, "--end-failed-runs=off"), torchs_way);
        cJSON_Delete(json);
        end(&p);
    }
}

static void rounds_are_the_newest_first_and_no_more_than_a_hundred(void **state)
{
    struct play p;
    cJSON *json;

    (void)state;
    begin(&p);
    for (int64_t round = 0; round < 250; round++)
        history_reach(&p.history, round, round + 1);
    assert_int_equal(p.history.count, HISTORY_ROUNDS);
    json = status(&p);
    assert_int_equal(count(json, "rounds"), 100);
    assert_int_equal(num(item(json, "rounds", 0), "round"), 249);
    assert_int_equal(num(item(json, "rounds", 99), "round"), 150);
    cJSON_Delete(json);
    for (int i = 0; i < 1000; i++)
        history_lose(&p.history, "a/1/0", LOSS_SILENT, "peer", i);
    assert_int_equal(p.history.loss_count, HISTORY_LOSSES);
    assert_int_equal(TAILQ_FIRST(&p.history.losses)->at_us, 999);
    end(&p);
}

/* Reasons are as many as fit, and what came first stays. */
static void a_reason_has_an_end(void **state)
{
    struct play p;

    (void)state;
    begin(&p);
    history_reach(&p.history, 0, 1);
    history_complete(&p.history, 9, false, 2);
    for (int i = 0; i < 1000; i++)
        history_add_reason(&p.history, REASON_ALSO, "reason number %d", i);
    assert_int_equal(strlen(TAILQ_FIRST(&p.history.rounds)->why), HISTORY_TEXT_MAX - 1);
    assert_memory_equal(TAILQ_FIRST(&p.history.rounds)->why, "reason number 0; reason number 1; ",
                        34);
    end(&p);
}

/* --- What is counted. --- */

static uint64_t count_of(const struct durations *d)
{
    uint64_t sum = 0;

    for (int i = 0; i <= DURATIONS_BOUNDS; i++)
        sum += d->counts[i];
    return sum;
}

/* From the first loss to the next complete round; what is lost while the first round forms, or
 * after the run was closed, is no fault that a round makes good. */
static void a_recovery_lasts_from_the_loss_to_the_round(void **state)
{
    struct stats stats = {0};
    struct history h = {.stats = &stats};

    (void)state;
    history_reach(&h, 0, 1 * SECOND);
    history_lose(&h, "c/1/0", LOSS_DISCONNECTED, NULL, 2 * SECOND);
    history_complete(&h, 2, false, 4 * SECOND);
    assert_int_equal(count_of(&stats.rounds), 1);
    assert_int_equal(stats.rounds.sum_ns, 3000000000);
    assert_int_equal(count_of(&stats.recoveries), 0);

    history_lose(&h, "a/1/0", LOSS_SILENT, NULL, 10 * SECOND);
    history_lose(&h, "b/1/0", LOSS_DISCONNECTED, NULL, 11 * SECOND);
    history_reach(&h, 1, 12 * SECOND);
    history_complete(&h, 2, false, 17 * SECOND);
    assert_int_equal(count_of(&stats.recoveries), 1);
    assert_int_equal(stats.recoveries.sum_ns, 7000000000);
    assert_int_equal(stats.recoveries.counts[4], 1); /* up to 8 s */

    history_leave(&h, "a/1/0", 20 * SECOND); /* its worker has failed */
    history_reach(&h, 2, 20 * SECOND);
    history_complete(&h, 2, false, 21 * SECOND);
    assert_int_equal(stats.recoveries.sum_ns, 8000000000);

    history_lose(&h, "a/1/0", LOSS_SILENT, NULL, 30 * SECOND);
    history_end(&h, "b closed the run", 31 * SECOND);
    history_lose(&h, "b/1/0", LOSS_DISCONNECTED, NULL, 32 * SECOND);
    history_reach(&h, 3, 40 * SECOND);
    history_complete(&h, 2, false, 41 * SECOND);
    assert_int_equal(count_of(&stats.recoveries), 2);
    assert_int_equal(count_of(&stats.rounds), 4);
    history_fini(&h);
}

static void goodput_has_the_first_cause_of_each_wait(void **state)
{
    static const int64_t seconds[GOODPUT_PARTS] = {[GOODPUT_TRAINS] = 16 + 9 + 7,
                                                   [GOODPUT_FIRST] = 3,
                                                   [GOODPUT_LEFT] = 1,
                                                   [GOODPUT_NEWCOMER] = 3};
    struct history h = {0};
    struct goodput again = {0};
    char text[GOODPUT_TEXT_MAX];

    (void)state;
    history_reach(&h, 0, 1 * SECOND);
    history_complete(&h, 2, false, 4 * SECOND);
    history_leave(&h, "a/1/0", 20 * SECOND);
    history_join(&h, "a/1/0", true, 20 * SECOND + 1);
    history_reach(&h, 1, 20 * SECOND + 2);
    history_complete(&h, 2, false, 21 * SECOND);
    history_join(&h, "c/1/0", true, 30 * SECOND);
    history_complete(&h, 3, false, 33 * SECOND);
    assert_int_equal(goodput_spent_us(&h.goodput, GOODPUT_TRAINS, 34 * SECOND), 26 * SECOND);
    goodput_skip(&h.goodput, 35 * SECOND, 95 * SECOND); /* nobody was there */
    history_end(&h, "b closed the run", 100 * SECOND);
    history_lose(&h, "b/1/0", LOSS_DISCONNECTED, NULL, 101 * SECOND);
    for (enum goodput_part part = 0; part < GOODPUT_PARTS; part++)
        assert_int_equal(goodput_spent_us(&h.goodput, part, 200 * SECOND), seconds[part] * SECOND);

    goodput_save(&h.goodput, text);
    goodput_load(&again, slice_str(text));
    assert_memory_equal(&again, &h.goodput, sizeof again);
    goodput_load(&again, slice_str("1 2 x"));
    assert_int_equal(again.times[GOODPUT_TRAINS], 3);
    history_fini(&h);
}

/* --- Many nodes. --- */

static void many_nodes_are_a_letter_each(void **state)
{
    const struct status_form form = {.streamed = true, .rounds = 1, .nodes = STATUS_NODES_LISTED};
    struct run_view view = {.is_state = true, .state = {.complete = true}};
    struct history history = {0};
    struct play p;
    struct run_facts facts;
    char name[16] = "n0000"; /* all are as long */
    cJSON *json;

    (void)state;
    begin(&p);
    p.s.run.agent_count = 1; /* else the run is left */
    facts = facts_of(&p);
    for (int i = 0; i < 1000; i++) {
        struct torch_node who = {.addr = slice_str(name),
                                 .participant = i != 3,
                                 .waiting = i == 3,
                                 .rank = 999 - i,
                                 .has_heartbeat = true,
                                 .heartbeat_us = facts.now_us - (i == 5 ? 16 : 1) * SECOND};
        struct torch_node *at;

        snprintf(name, sizeof name, "n%04d", i);
        assert_true(torch_state_insert(&view.state, &who, &at));
    }
    facts.view = &view;
    facts.history = &history;
    json = cJSON_Parse(text_of(&facts, &form));
    assert_non_null(json);
    assert_int_equal(count(json, "nodes"), 2);
    assert_int_equal(num(json, "nodes_left_out"), 998);
    assert_int_equal(strlen(str(json, "node_map")), 1000);
    assert_int_equal(strspn(str(json, "node_map"), "p"), 994); /* by rank */
    assert_string_equal(str(json, "node_map") + 994, "sppppw");
    assert_string_equal(str(item(json, "nodes", 1), "addr"), "n0003");
    assert_true(cJSON_IsTrue(get(item(json, "nodes", 0), "silent")));
    assert_null(get(item(json, "nodes", 0), "heartbeat"));
    assert_int_equal(num(json, "participants"), 998);
    assert_string_equal(str(item(json, "missing", 0), "why"), "silent");
    cJSON_Delete(json);
    run_view_fini(&view);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_from_nothing_to_a_complete_round),
        cmocka_unit_test(what_torchrun_was_started_for),
        cmocka_unit_test(a_lost_node_is_named),
        cmocka_unit_test(a_lost_node_without_which_the_run_goes_on_is_gone),
        cmocka_unit_test(a_round_that_stands_still_has_a_hint),
        cmocka_unit_test(a_newcomer_makes_up_for_one_node_of_its_address),
        cmocka_unit_test(nodes_that_are_awaited_are_told_of),
        cmocka_unit_test(nodes_that_are_expected_are_missing),
        cmocka_unit_test(a_failed_worker_is_the_reason),
        cmocka_unit_test(a_loop_of_failures_names_who_was_first),
        cmocka_unit_test(a_loop_ends_with_a_round_that_lasts),
        cmocka_unit_test(a_node_that_comes_is_the_reason),
        cmocka_unit_test(a_run_that_all_agents_have_left),
        cmocka_unit_test(a_closed_run),
        cmocka_unit_test(a_failed_run),
        cmocka_unit_test(rounds_are_the_newest_first_and_no_more_than_a_hundred),
        cmocka_unit_test(a_reason_has_an_end),
        cmocka_unit_test(a_recovery_lasts_from_the_loss_to_the_round),
        cmocka_unit_test(goodput_has_the_first_cause_of_each_wait),
        cmocka_unit_test(many_nodes_are_a_letter_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
