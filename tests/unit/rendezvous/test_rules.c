/* The rules of a run about its failures: each case is a history. */
#include "tests/unit/rendezvous/scene.h"

#include "rdzv/admin/status.h"

static struct history h;
static struct run_rules rules;
static int64_t now_us, rounds;

static int set_up(void **state)
{
    (void)state;
    h = (struct history){0};
    TAILQ_INIT(&h.rounds);
    TAILQ_INIT(&h.losses);
    rules = (struct run_rules){0};
    now_us = 1000 * SECOND;
    rounds = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    history_fini(&h);
    return 0;
}

static void begin_round(int64_t lasts_us)
{
    history_reach(&h, rounds++, now_us);
    history_complete(&h, 2, true, now_us);
    now_us += lasts_us;
}

static void end_round(void)
{
    history_reach(&h, rounds, now_us);
    if (h.is_unjudged)
        run_rules_judge(&h, &rules, &(struct run_past){0}, now_us);
}

/* A worker of that rank and host fails first; NULL: its store is not here. */
static void fail_at(uint32_t rank, const char *at, const char *node)
{
    begin_round(10 * SECOND);
    if (at != NULL)
        history_end_worker(&h, rank, at, now_us);
    history_leave(&h, node, now_us + 1000);
    end_round();
}

static void lose(const char *node)
{
    begin_round(10 * SECOND);
    history_lose(&h, node, LOSS_DISCONNECTED, NULL, now_us);
    goodput_enter(&h.goodput, GOODPUT_LOST, now_us);
    end_round();
}

static void the_failure_after_the_last_one_allowed_closes_the_run(void **state)
{
    (void)state;
    rules.restart_budget = (struct rule_limit){2, 3600000};
    fail_at(3, " on b (pid 7)", "a/1/0");
    lose("a/1/0");
    assert_null(h.stop);
    fail_at(3, " (inferred from its pid) on b (pid 9)", "b/1/0");
    assert_string_equal(h.stop, "restart budget of 2 in 1h is used up: first to fail was rank 3 on "
                                "node b in 2 of 3 rounds");
}

/* The begin of such a round is not known; its end is, with the reason. */
static void the_failure_of_a_round_from_before_a_start_counts(void **state)
{
    const struct history_round *r;
    char why[HISTORY_WHY_MAX];

    (void)state;
    rules.restart_budget = (struct rule_limit){1, 3600000};
    history_resume(&h, rounds++, 2, now_us);
    history_end_worker(&h, 1, " on b (pid 3)", now_us + SECOND);
    history_leave(&h, "b/1/0", now_us + SECOND + 1000);
    assert_true(h.fault_us != 0); /* the next complete round is a recovery */
    end_round();
    r = TAILQ_NEXT(TAILQ_FIRST(&h.rounds), entry);
    assert_true(history_is_failure(r) && r->began_us == 0 && r->nodes == 2);
    assert_non_null(strstr(history_why(r, r->why, why), "rank 1 on b (pid 3) ended first"));
    assert_null(h.stop);
    fail_at(1, " on b (pid 4)", "b/2/0");
    assert_non_null(h.stop);
}

static void old_failures_do_not_count(void **state)
{
    (void)state;
    rules.restart_budget = (struct rule_limit){1, 15000};
    for (int i = 0; i < 9; i++) {
        fail_at(0, NULL, "a/1/0");
        now_us += 10 * SECOND;
    }
    assert_null(h.stop);
    fail_at(0, NULL, "a/1/0");
    fail_at(0, NULL, "a/1/0");
    assert_string_equal(h.stop, "restart budget of 1 in 15s is used up: first to fail was node a "
                                "in 2 of 2 rounds");
}

/* A new node, an order, a start of rdzvd, a lost node that comes back, an open round. */
static void other_ends_are_no_failures(void **state)
{
    static const enum goodput_part parts[] = {GOODPUT_NEWCOMER, GOODPUT_ORDER, GOODPUT_STORE};

    (void)state;
    rules.restart_budget = (struct rule_limit){0, 3600000};
    for (size_t i = 0; i < COUNT(parts); i++) {
        begin_round(SECOND);
        goodput_enter(&h.goodput, parts[i], now_us);
        history_leave(&h, "a/1/0", now_us);
        end_round();
    }
    begin_round(SECOND);
    goodput_enter(&h.goodput, GOODPUT_LOST, now_us);
    goodput_enter(&h.goodput, GOODPUT_TRAINS, now_us);
    goodput_enter(&h.goodput, GOODPUT_NEWCOMER, now_us);
    end_round();
    history_leave(&h, "b/1/0", now_us);
    rounds++;
    end_round();
    assert_null(h.stop);
    assert_false(h.is_unjudged);
    lose("a/1/0");
    assert_string_equal(h.stop, "restart budget of 0 in 1h is used up");
}

static void assert_cordon(const char *host)
{
    if (host == NULL)
        assert_null(h.cordon);
    else
        assert_string_equal(h.cordon, host);
    account_heap_free(ACCOUNT_RUNS, h.cordon);
    h.cordon = NULL;
}

/* A host that is let back has no strikes. */
static void a_host_whose_workers_fail_first_again_and_again_is_cordoned(void **state)
{
    (void)state;
    rules.cordon_after = (struct rule_limit){2, 60000};
    for (int i = 0; i < 2; i++) {
        fail_at(3, " on b (pid 7)", "a/1/0");
        lose("b/1/0");
        fail_at(1, " on c (pid 7)", "a/1/0");
        assert_cordon(NULL);
        fail_at(2, " on b (pid 9)", "c/1/0");
        assert_cordon("b");
    }
    fail_at(2, " on b (pid 9)", "c/1/0");
    now_us += 60 * SECOND;
    fail_at(2, " on b (pid 9)", "c/1/0");
    assert_cordon(NULL);
}

static void runs_of_that_id_that_failed_before_count(void **state)
{
    (void)state;
    rules.restart_budget = (struct rule_limit){2, 3600000};
    rules.cordon_after = (struct rule_limit){3, 3600000};
    fail_at(1, " on b (pid 7)", "b/1/0");
    run_rules_judge(&h, &rules, &(struct run_past){.runs = 1, .of_host = 1}, now_us);
    assert_null(h.stop);
    assert_null(h.cordon);
    run_rules_judge(&h, &rules, &(struct run_past){.runs = 2, .of_host = 2}, now_us);
    assert_string_equal(h.stop, "restart budget of 2 in 1h is used up: first to fail was rank 1 on "
                                "node b in 1 of 1 rounds");
    assert_string_equal(h.cordon, "b");
}

/* A round of 10 s in which workers have set rdzvd/progress to that number; 0: they have not. */
static void fail_with(uint64_t number)
{
    begin_round(10 * SECOND);
    if (number > h.progress)
        h.progress = TAILQ_FIRST(&h.rounds)->progress = number;
    history_leave(&h, "b/1/0", now_us);
    end_round();
}

static void a_run_without_progress_is_closed(void **state)
{
    (void)state;
    rules.no_progress = (struct rule_limit){2, 11000};
    fail_with(5);
    fail_with(5);
    fail_with(7);
    fail_with(0);
    assert_int_equal(h.vain, 1);
    begin_round(11 * SECOND); /* a long one, for a new node */
    goodput_enter(&h.goodput, GOODPUT_NEWCOMER, now_us);
    end_round();
    fail_with(0);
    assert_null(h.stop);
    begin_round(SECOND); /* a short one is no failure */
    goodput_enter(&h.goodput, GOODPUT_ORDER, now_us);
    end_round();
    fail_with(3);
    assert_string_equal(h.stop, "no progress: each of the last 2 rounds failed within 11s, none "
                                "raised rdzvd/progress");
}

/* Runs of that id that have failed before count, also with the number that they have reached. */
static void progress_of_a_run_before_is_none(void **state)
{
    static const uint64_t numbers[] = {0, 57, 58};

    for (size_t i = 0; i < COUNT(numbers); i++) {
        tear_down(state);
        set_up(state);
        rules.no_progress = (struct rule_limit){2, 11000};
        begin_round(SECOND);
        h.progress = TAILQ_FIRST(&h.rounds)->progress = numbers[i];
        history_leave(&h, "b/1/0", now_us);
        history_reach(&h, rounds, now_us);
        run_rules_judge(&h, &rules, &(struct run_past){.vain = 1, .progress = 57}, now_us);
        assert_int_equal(h.vain, numbers[i] == 58 ? 0 : 2);
        assert_int_equal(h.progress, numbers[i] == 58 ? 58 : 57);
        assert_int_equal(h.stop != NULL, numbers[i] != 58);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_failure_after_the_last_one_allowed_closes_the_run),
        CASE(the_failure_of_a_round_from_before_a_start_counts),
        CASE(old_failures_do_not_count),
        CASE(other_ends_are_no_failures),
        CASE(a_host_whose_workers_fail_first_again_and_again_is_cordoned),
        CASE(runs_of_that_id_that_failed_before_count),
        CASE(a_run_without_progress_is_closed),
        CASE(progress_of_a_run_before_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
