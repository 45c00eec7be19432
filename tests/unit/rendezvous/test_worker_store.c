/* Where workers find their store: what agents read, ports, and a new store in each round. */
#include "tests/unit/rendezvous/scene.h"

static void say_where(struct scene *s, struct agent *a, int64_t round, const char *port)
{
    assert_true(scene_set(s, a, round, "MASTER_ADDR", "agent-0.example"));
    assert_int_equal(scene_count(s, POLICY_PROBE), 0);
    scene_set(s, a, round, "MASTER_PORT", port);
}

static void answer_probe(struct scene *s, bool refused)
{
    scene_step(s, (struct policy_event){.kind = RUN_PROBED, .refused = refused});
}

/* Agent 0 hosts a store, so workers use ours. */
static void settle(struct scene *s)
{
    say_where(s, &s->agents[0], 0, "1234");
    assert_int_equal(scene_output(s, POLICY_PROBE)->port, 1234);
    assert_null(scene_get(s, ".0/MASTER_PORT"));
    answer_probe(s, false);
}

static void workers_use_rdzvd_when_agent_0_hosts_a_store(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    assert_int_equal(scene_count(s, POLICY_SHARE_PORT), 1);
    assert_int_equal(s->open_stores[0], 1);
    settle(s);
    assert_string_equal(scene_get(s, ".0/MASTER_ADDR"), "10.0.0.1");
    assert_string_equal(scene_get(s, ".0/MASTER_PORT"), "29400");
    assert_string_equal(scene_note(s, NOTE_WORKER_STORE_ASSIGNED)->text, "10.0.0.1");
    assert_true(scene_set(s, &s->agents[0], 0, "MASTER_ADDR", "again")); /* swallowed as well */
    assert_string_equal(scene_get(s, ".0/MASTER_ADDR"), "10.0.0.1");
    /* The next round has a store of its own, and the same endpoint at once. */
    scene_next_round(s, 2);
    assert_string_equal(scene_get(s, ".1/MASTER_ADDR"), "10.0.0.1");
    assert_int_equal(s->record.worker_store, 2);
    assert_int_equal(s->record.round, 1);
    assert_int_equal(scene_output(s, POLICY_DROP_WORKER_STORE)->worker_store, 1);
}

static void workers_use_worker_0_when_no_process_listens(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    say_where(s, &s->agents[0], 0, "1234");
    answer_probe(s, true);
    assert_string_equal(scene_get(s, ".0/MASTER_ADDR"), "agent-0.example");
    assert_string_equal(scene_get(s, ".0/MASTER_PORT"), "1234");
    assert_int_equal(s->record.placement, WORKER_STORE_WORKER0);
    assert_int_equal(s->open_stores[0], 0);
    assert_int_equal(s->share, PORT_IS_FREE);
    assert_non_null(scene_note(s, NOTE_WORKER_STORE_EXTERNAL));
    scene_next_round(s, 2);
    assert_int_equal(scene_count(s, POLICY_OPEN_WORKER_STORE), 0);
    assert_false(scene_set(s, &s->agents[0], 1, "MASTER_ADDR", "x"));
}

static void an_invalid_port_of_agent_0_is_stored_unchanged(void **state)
{
    struct scene *s = *state;
    static const char *const ports[] = {"", "0", "65536", "29500x", "-1"};

    for (size_t i = 0; i < COUNT(ports); i++) {
        scene_meet(s, 2);
        say_where(s, &s->agents[0], 0, ports[i]);
        assert_int_equal(scene_count(s, POLICY_PROBE), 0);
        assert_string_equal(scene_get(s, ".0/MASTER_PORT"), ports[i]);
        assert_string_equal(scene_get(s, ".0/MASTER_ADDR"), "agent-0.example");
        scene_renew(s);
    }
}

static void agents_without_ping_get_plain_keys(void **state)
{
    struct scene *s = *state;

    scene_connect(s, false);
    scene_cas(s, &s->agents[0], "", SENTINEL);
    {
        struct torch_state st = scene_state(scene_joined(s, SENTINEL, "a"));

        scene_complete(&st);
        scene_cas(s, &s->agents[0], SENTINEL, scene_text(s, &st));
    }
    assert_int_equal(s->out.counters.rounds_completed, 1);
    assert_int_equal(scene_count(s, POLICY_OPEN_WORKER_STORE), 0);
    assert_false(s->has_record);
    assert_false(scene_set(s, &s->agents[0], 0, "MASTER_ADDR", "worker-0"));
}

static void other_keys_of_a_round_are_plain(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    assert_false(scene_set(s, &s->agents[0], 0, "MASTER_ADDRESS", "x"));
    assert_false(scene_set(s, &s->agents[0], 0, "MASTER_ADDR/x", "x"));
    assert_false(scene_set(s, &s->agents[0], 0, "torchelastic/role_info/0", "x"));
    assert_false(scene_set(s, &s->agents[0], 5, "MASTER_ADDR", "of another round"));
}

/* --- Agent 0 is lost before it has said anything. --- */

/* "b" has read rdzvd's place, and meets "c" in the next round, whose agent 0 is "b" in torch's
 * order. */
static struct agent *lose_agent_0(struct scene *s)
{
    struct agent *c;
    const char *now;

    s->settings.rank_order = RANKS_TORCH;
    scene_meet(s, 2);
    scene_disconnect(s, &s->agents[0]);
    assert_string_equal(scene_get(s, ".0/MASTER_ADDR"), "10.0.0.1");
    assert_false(s->has_record && s->record.placement != WORKER_STORE_UNKNOWN);
    c = scene_connect(s, true);
    scene_cas(s, c, "", SENTINEL);
    scene_leave(s, 1);
    scene_join(s, 1);
    now = scene_get(s, "");
    scene_cas(s, c, now, scene_completed(s, now, "c"));
    assert_true(s->run.view.state.complete && s->run.view.state.round == 1);
    assert_int_equal(scene_node_now(s, "b").rank, 0);
    assert_null(scene_get(s, ".1/MASTER_ADDR"));
    return c;
}

static void an_agent_0_that_knows_a_place_shares_it(void **state)
{
    struct scene *s = *state;
    struct agent *c;

    c = lose_agent_0(s);
    scene_set(s, c, 1, "torchelastic/role_info/1", "x"); /* of another rank */
    assert_null(scene_get(s, ".1/MASTER_ADDR"));
    assert_false(scene_set(s, &s->agents[1], 1, "torchelastic/role_info/0", "x"));
    assert_string_equal(scene_get(s, ".1/MASTER_ADDR"), "10.0.0.1");
    assert_string_equal(scene_get(s, ".1/MASTER_PORT"), "29400");
    assert_int_equal(s->record.placement, WORKER_STORE_RDZVD);
    scene_renew(s);

    c = lose_agent_0(s); /* TORCH_ELASTIC_WORKER_IDENTICAL=1: it sets no key */
    scene_pass(s, 2900);
    scene_event(s, RUN_TICK, NULL);
    assert_null(scene_get(s, ".1/MASTER_ADDR"));
    scene_pass(s, 200);
    scene_event(s, RUN_TICK, NULL);
    assert_string_equal(scene_get(s, ".1/MASTER_ADDR"), "10.0.0.1");
}

/* Its workers host the store: it says so in each round. */
static void an_agent_0_that_knows_none_says_where(void **state)
{
    struct scene *s = *state;

    for (int listens = 0; listens < 2; listens++) {
        lose_agent_0(s);
        say_where(s, &s->agents[1], 1, "1234");
        scene_set(s, &s->agents[1], 1, "torchelastic/role_info/0", "x");
        scene_pass(s, 4000);
        scene_event(s, RUN_TICK, NULL);
        assert_null(scene_get(s, ".1/MASTER_ADDR"));
        answer_probe(s, !listens);
        assert_string_equal(scene_get(s, ".1/MASTER_ADDR"),
                            listens ? "10.0.0.1" : "agent-0.example");
        scene_renew(s);
    }
}

/* --- Endpoints. --- */

static void the_endpoint_is_what_is_advertised_or_guessed(void **state)
{
    struct scene *s = *state;
    static const struct {
        const char *host;
        uint16_t port;
        const char *local[2]; /* by which address the agents came */
        const char *expected, *expected_port;
    } cases[] = {
        {"job.example", 77, {"10.0.0.1", "10.0.0.1"}, "job.example", "77"},
        {"job.example", 0, {"10.0.0.1", "10.0.0.1"}, "job.example", "29400"},
        {NULL, 0, {"127.0.0.1", "10.0.0.2"}, "10.0.0.2", "29400"},
        {NULL, 0, {"::1", "127.0.0.1"}, "::1", "29400"},
        {NULL, 0, {NULL, NULL}, "agent-0.example", "1234"}, /* unknown: left alone */
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        s->settings.advertise_host = cases[i].host;
        s->settings.advertise_port = cases[i].port;
        scene_meet(s, 2);
        for (size_t k = 0; k < 2; k++)
            s->agents[k].local_host = cases[i].local[k];
        settle(s);
        assert_string_equal(scene_get(s, ".0/MASTER_ADDR"), cases[i].expected);
        assert_string_equal(scene_get(s, ".0/MASTER_PORT"), cases[i].expected_port);
        scene_renew(s);
    }
}

/* --- Ports. --- */

static void open_port(struct scene *s, uint16_t port)
{
    assert_int_equal(scene_count(s, POLICY_OPEN_PORT), 1);
    assert_int_equal(scene_count(s, POLICY_OPEN_WORKER_STORE), 0);
    scene_step(s, (struct policy_event){.kind = RUN_PORT_OPENED, .port = port});
}

static void a_run_has_a_port_of_its_own(void **state)
{
    struct scene *s = *state;

    for (int own = 0; own < 2; own++) { /* --worker-ports, or another run has the agents' */
        s->settings.worker_port_low = own == 1 ? 31000 : 0;
        s->share = own == 1 ? PORT_IS_FREE : PORT_IS_TAKEN;
        scene_meet(s, 2);
        open_port(s, 31000);
        settle(s);
        assert_string_equal(scene_get(s, ".0/MASTER_PORT"), "31000");
        scene_next_round(s, 2);
        assert_int_equal(scene_count(s, POLICY_OPEN_PORT), 0); /* it keeps it */
        assert_string_equal(scene_get(s, ".1/MASTER_PORT"), "31000");
        scene_event(s, RUN_FORGET, NULL);
        assert_int_equal(scene_count(s, POLICY_CLOSE_PORT), 1);
        scene_renew(s);
    }
}

/* All agents and their workers have left: the next round uses the same port again. */
static void a_run_that_is_left_gives_its_port_back(void **state)
{
    struct scene *s = *state;
    struct agent *c;
    const char *now;

    s->settings.worker_port_low = 31000;
    scene_meet(s, 2);
    open_port(s, 31000);
    settle(s);
    s->now.own_port_in_use = true;
    scene_disconnect(s, &s->agents[0]);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_CLOSE_PORT), 0); /* an agent is left */
    scene_disconnect(s, &s->agents[1]);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_CLOSE_PORT), 0); /* a worker is */
    assert_int_equal(run_due_ms(&s->run), 0);
    s->now.own_port_in_use = false;
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_CLOSE_PORT), 1);
    assert_int_not_equal(run_due_ms(&s->run), 0);
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(scene_count(s, POLICY_CLOSE_PORT), 0); /* once */

    c = scene_connect(s, true);
    now = scene_cas(s, c, "", SENTINEL);
    scene_cas(s, c, now, scene_completed(s, now, "c"));
    assert_int_equal(scene_output(s, POLICY_OPEN_PORT)->port, 31000);
    open_port(s, 31001); /* another process has that by now */
    assert_string_equal(scene_get(s, ".1/MASTER_PORT"), "31001");
}

static void without_a_port_worker_0_hosts_the_store(void **state)
{
    struct scene *s = *state;

    s->settings.worker_port_low = 31000;
    scene_meet(s, 2);
    open_port(s, 0);
    assert_int_equal(s->record.placement, WORKER_STORE_WORKER0);
    assert_non_null(scene_note(s, NOTE_WORKER_STORE_EXTERNAL));
}

/* All agents of the run were away for a while, and another run began meanwhile. */
static void a_run_that_lost_the_port_gets_one_of_its_own(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    settle(s);
    s->share = PORT_IS_TAKEN;
    scene_next_round(s, 2);
    assert_null(scene_get(s, ".1/MASTER_PORT"));
    open_port(s, 31000);
    assert_string_equal(scene_get(s, ".1/MASTER_PORT"), "31000");
    assert_int_equal(s->record.port, 31000);
}

/* --- A full space. --- */

static void what_a_full_space_could_not_take_is_put_later(void **state)
{
    struct scene *s = *state;
    static const bool results[] = {false, true};

    for (size_t i = 0; i < COUNT(results); i++) {
        scene_meet(s, 2);
        say_where(s, &s->agents[0], 0, "1234");
        s->room = 150; /* for one of the two keys */
        answer_probe(s, results[i]);
        assert_non_null(scene_note(s, NOTE_WORKER_STORE_FAILED));
        assert_null(scene_get(s, ".0/MASTER_ADDR"));
        assert_null(scene_get(s, ".0/MASTER_PORT"));
        scene_event(s, RUN_TICK, NULL);
        assert_null(scene_note(s, NOTE_WORKER_STORE_FAILED)); /* said once */
        s->room = SIZE_MAX;
        scene_event(s, RUN_TICK, NULL);
        assert_string_equal(scene_get(s, ".0/MASTER_PORT"), i == 0 ? "29400" : "1234");
        scene_renew(s);
    }
}

static void a_store_that_could_not_be_opened_is_opened_later(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    settle(s);
    s->room = 150;
    scene_next_round(s, 2);
    assert_non_null(scene_note(s, NOTE_WORKER_STORE_FAILED));
    assert_int_equal(s->record.worker_store, 1);
    s->room = SIZE_MAX;
    scene_event(s, RUN_TICK, NULL);
    assert_int_equal(s->record.worker_store, 2);
    assert_string_equal(scene_get(s, ".1/MASTER_PORT"), "29400");
}

static void a_run_that_ends_cancels_its_probe(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    say_where(s, &s->agents[0], 0, "1234");
    scene_event(s, RUN_FORGET, NULL);
    assert_int_equal(scene_count(s, POLICY_CANCEL_PROBE), 1);
}

/* It was away between its two writes, and another round has been completed since. */
static void an_old_round_has_our_place_too(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    assert_true(scene_set(s, &s->agents[0], 0, "MASTER_ADDR", "agent-0"));
    assert_true(scene_set(s, &s->agents[0], 0, "MASTER_PORT", "1234"));
    scene_step(s, (struct policy_event){.kind = RUN_PROBED});
    assert_string_equal(scene_get(s, ".0/MASTER_PORT"), "29400");
    scene_next_round(s, 2);
    assert_true(scene_set(s, &s->agents[0], 0, "MASTER_PORT", "1234"));
    assert_string_equal(scene_get(s, ".0/MASTER_PORT"), "29400");
}

/* Nothing listens where it says, since its process has ended: that tells nothing. */
static void an_agent_0_that_is_gone_is_no_answer(void **state)
{
    struct scene *s = *state;

    scene_meet(s, 2);
    scene_set(s, &s->agents[0], 0, "MASTER_ADDR", "agent-0");
    scene_set(s, &s->agents[0], 0, "MASTER_PORT", "1234");
    scene_disconnect(s, &s->agents[0]);
    scene_step(s, (struct policy_event){.kind = RUN_PROBED, .refused = true});
    assert_int_equal(s->run.view.record.placement, WORKER_STORE_RDZVD);
    scene_renew(s);

    scene_meet(s, 1);
    scene_set(s, &s->agents[0], 0, "MASTER_ADDR", "agent-0");
    scene_set(s, &s->agents[0], 0, "MASTER_PORT", "1234");
    scene_disconnect(s, &s->agents[0]);
    scene_step(s, (struct policy_event){.kind = RUN_PROBED});
    assert_int_equal(s->run.view.record.placement, WORKER_STORE_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(workers_use_rdzvd_when_agent_0_hosts_a_store),
        TEST(workers_use_worker_0_when_no_process_listens),
        TEST(an_invalid_port_of_agent_0_is_stored_unchanged),
        TEST(agents_without_ping_get_plain_keys),
        TEST(other_keys_of_a_round_are_plain),
        TEST(an_agent_0_that_knows_a_place_shares_it),
        TEST(an_agent_0_that_knows_none_says_where),
        TEST(the_endpoint_is_what_is_advertised_or_guessed),
        TEST(a_run_has_a_port_of_its_own),
        TEST(a_run_that_is_left_gives_its_port_back),
        TEST(without_a_port_worker_0_hosts_the_store),
        TEST(a_run_that_lost_the_port_gets_one_of_its_own),
        TEST(what_a_full_space_could_not_take_is_put_later),
        TEST(a_store_that_could_not_be_opened_is_opened_later),
        TEST(a_run_that_ends_cancels_its_probe),
        TEST(an_old_round_has_our_place_too),
        TEST(an_agent_0_that_is_gone_is_no_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
