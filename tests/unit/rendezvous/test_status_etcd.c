/* How a run of etcd-v2 stands: the same state, in a key of the tree. */
#include "tests/unit/rendezvous/status_json.h"

#include "rdzv/etcd_runs/etcd_runs.h"

#define TRAIN_KEY ETCD_RUN_PREFIX "train"

static const char from_a[] = "10.0.0.1:11", from_b[] = "10.0.0.2:22";

static void put(struct etcd_run *r, const char *value, const char *by, int64_t now_us)
{
    struct slice text = value == NULL ? (struct slice){0} : slice_str(value);

    assert_true(etcd_run_update(r, text, by, now_us));
}

static cJSON *shown_etcd(const struct etcd_run *r, int64_t now_us)
{
    struct run_facts facts;

    etcd_run_facts(r, 3, now_us, &facts);
    return json_of(&facts);
}

static const char *changed(struct scene *s, const char *value,
                           void (*change)(struct scene *, struct torch_state *))
{
    struct torch_state state = scene_state(value);

    change(s, &state);
    return scene_text(s, &state);
}

static void b_leaves(struct scene *s, struct torch_state *st)
{
    (void)s;
    scene_remove(st, "b");
}

static void b_is_pruned(struct scene *s, struct torch_state *st)
{
    scene_beat(st, "a", scene_now_us(s));
    scene_remove(st, "b");
}

static void a_run_of_etcd_v2(void **state)
{
    struct scene *s = *state;
    struct etcd_run r;
    const char *value;
    cJSON *json;

    etcd_run_init(&r, slice_str(TRAIN_KEY));
    assert_true(slice_is(r.view.id, "train"));
    value = scene_joined(s, SENTINEL, "a");
    put(&r, value, from_a, scene_now_us(s));
    value = changed(s, value, b_joins_for_a_last_call);
    put(&r, value, from_b, scene_now_us(s));
    json = shown_etcd(&r, scene_now_us(s));
    assert_string_equal(str(json, "backend"), "etcd-v2");
    assert_string_equal(str(json, "state"), "last_call");
    assert_string_equal(str(item(json, "nodes", 0), "peer"), "10.0.0.1:11");
    assert_string_equal(str(item(json, "nodes", 1), "peer"), "10.0.0.2:22");
    assert_non_null(get(item(json, "nodes", 0), "since"));
    assert_null(get(json, "agents"));
    cJSON_Delete(json);

    value = changed(s, value, it_is_complete);
    put(&r, value, from_a, scene_now_us(s));
    scene_pass(s, 16000);
    json = shown_etcd(&r, scene_now_us(s));
    assert_int_equal(count(json, "missing"), 2); /* neither has sent a heartbeat */
    assert_true(hints_at(json, "all its agents have gone"));
    cJSON_Delete(json);

    put(&r, changed(s, value, b_is_pruned), from_a, scene_now_us(s));
    json = shown_etcd(&r, scene_now_us(s));
    assert_int_equal(num(json, "participants"), 1);
    assert_int_equal(count(json, "missing"), 1);
    assert_int_equal(num(json, "missing_count"), 2);
    assert_string_equal(str(item(json, "missing", 0), "addr"), "b");
    assert_string_equal(str(item(json, "missing", 0), "peer"), "10.0.0.2:22");
    assert_string_equal(str(item(json, "missing", 0), "why"), "silent");
    assert_string_equal(str(item(json, "rounds", 0), "why"),
                        "b (pid 100) was lost: its last heartbeat was 16 s old");
    cJSON_Delete(json);

    put(&r, "not a state", from_a, scene_now_us(s));
    json = shown_etcd(&r, scene_now_us(s));
    assert_string_equal(str(json, "state"), "empty");
    assert_non_null(get(item(json, "rounds", 0), "ended"));
    cJSON_Delete(json);
    etcd_run_fini(&r);
}

/* Over etcd no connection tells that an agent is still there. */
static void a_node_that_leaves_is_missing_when_it_stays_away(void **state)
{
    struct scene *s = *state;
    struct etcd_run r;
    const char *value;
    cJSON *json;

    etcd_run_init(&r, slice_str(TRAIN_KEY));
    value = changed(s, scene_joined(s, SENTINEL, "a"), b_joins_for_a_last_call);
    value = changed(s, value, it_is_complete);
    put(&r, value, NULL, scene_now_us(s));
    put(&r, changed(s, value, b_leaves), from_b, scene_now_us(s));
    json = shown_etcd(&r, scene_now_us(s) + 4 * SECOND);
    assert_int_equal(count(json, "missing"), 0);
    assert_string_equal(str(item(json, "rounds", 0), "why"),
                        "b (pid 100) left the round by itself");
    cJSON_Delete(json);
    json = shown_etcd(&r, scene_now_us(s) + 6 * SECOND);
    assert_string_equal(str(item(json, "missing", 0), "addr"), "b");
    assert_string_equal(str(item(json, "missing", 0), "why"), "left");
    assert_non_null(get(item(json, "missing", 0), "since"));
    cJSON_Delete(json);
    etcd_run_fini(&r);
}

/* The run's key gets a value that is no state, is deleted, and gets a state again. */
static void a_run_of_etcd_v2_is_closed_and_begins_anew(void **state)
{
    struct scene *s = *state;
    struct etcd_run r;
    const char *value;
    cJSON *json;

    etcd_run_init(&r, slice_str(TRAIN_KEY));
    value = scene_joined(s, SENTINEL, "a");
    put(&r, value, from_a, scene_now_us(s));
    put(&r, changed(s, value, a_closes), from_a, scene_now_us(s));
    json = shown_etcd(&r, scene_now_us(s));
    assert_string_equal(str(json, "state"), "closed");
    assert_string_equal(str(item(json, "rounds", 0), "why"),
                        "an agent at 10.0.0.1:11 closed the run");
    assert_true(hints_at(json, "end at once, for a minute"));
    cJSON_Delete(json);

    put(&r, NULL, from_a, scene_now_us(s));
    assert_false(r.view.exists);
    put(&r, value, from_b, scene_now_us(s));
    json = shown_etcd(&r, scene_now_us(s));
    assert_string_equal(str(json, "state"), "joining");
    assert_int_equal(count(json, "rounds"), 2);
    cJSON_Delete(json);
    etcd_run_fini(&r);
}

static void paths_of_runs(void **state)
{
    static const struct {
        const char *path, *id;
    } cases[] = {{"/torch/elastic/rendezvous/job", "job"}, {"/torch/elastic/rendezvous/a/b", "a/b"},
                 {"/torch/elastic/rendezvous/", NULL},     {"/torch/elastic/rendezvous", NULL},
                 {"/torch/elastic/store/x", NULL},         {"/run_x/rdzv/active_version", NULL}};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct slice path = slice_str(cases[i].path);
        struct etcd_run r;

        assert_int_equal(etcd_run_is_key(path), cases[i].id != NULL);
        if (cases[i].id == NULL)
            continue;
        etcd_run_init(&r, path);
        assert_true(slice_is(r.view.id, cases[i].id));
        etcd_run_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_run_of_etcd_v2),
        TEST(a_node_that_leaves_is_missing_when_it_stays_away),
        TEST(a_run_of_etcd_v2_is_closed_and_begins_anew),
        cmocka_unit_test(paths_of_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
