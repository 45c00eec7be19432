/* Intents at random. Whatever an agent writes that is shown an open round, it joins or changes
 * nothing. And an agent that follows torch's rules comes to the same state by views and intents as
 * it does with the value itself and torch's literal compare-and-set. */
#include "tests/sim/model_agent.h"
#include "tests/support/sanitized.h"
#include "tests/unit/rendezvous/scene.h"

#include <stdio.h>

#define SILENT_US (20 * SECOND)

/* --- Whatever it writes. --- */

static uint64_t random_state;

static uint64_t draw(uint64_t n)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u; /* splitmix64 */

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % n;
}

static void garble_node(struct scene *s, struct torch_node *node)
{
    switch (draw(6)) {
    case 0:
        node->participant = !node->participant;
        break;
    case 1:
        node->waiting = !node->waiting;
        break;
    case 2:
        node->redundant = !node->redundant;
        break;
    case 3:
        node->rank = (int64_t)draw(9) - 4;
        break;
    default:
        node->has_heartbeat = !node->has_heartbeat;
        node->heartbeat_us = scene_now_us(s) - (int64_t)draw(100) * SECOND;
        break;
    }
}

static void garble(struct scene *s, struct torch_state *st)
{
    static const char *const others[] = {"a", "d", "-rdzvd.a-node", "rdzvd.a-node-is-lost"};

    switch (draw(6)) {
    case 0:
        st->round += (int64_t)draw(3) - 1;
        break;
    case 1:
        st->complete = !st->complete;
        break;
    case 2:
        st->closed = !st->closed;
        break;
    case 3:
        *st = scene_with_deadline(*st, scene_now_us(s) + (int64_t)draw(60) * SECOND);
        break;
    case 4:
        scene_node(st, others[draw(COUNT(others))])->participant = true;
        break;
    default:
        garble_node(s, &st->nodes[draw(st->count)]);
        break;
    }
}

/* That "c" has joined, and perhaps a deadline, and perhaps that the round is complete: no more. */
static void only_c_has_joined(const struct torch_state *before, const struct torch_state *after,
                              const struct torch_state *said)
{
    const struct torch_node who = {.addr = slice_str("c"), .pid = 100};
    const struct torch_node *c = torch_state_find(after, &who);

    assert_int_equal(after->count, before->count + 1);
    assert_non_null(c);
    assert_true(c->participant && c->has_heartbeat && !c->waiting && !c->redundant);
    assert_true(after->complete || c->rank == 0);
    for (size_t i = 0; i < before->count; i++) {
        const struct torch_node *was = &before->nodes[i], *is = torch_state_find(after, was);

        assert_non_null(is);
        assert_true(is->participant && !is->waiting && !is->redundant);
        assert_int_equal(is->heartbeat_us, was->heartbeat_us);
    }
    assert_int_equal(after->complete, said->complete);
    assert_int_equal(torch_state_participants(after), torch_state_participants(said));
    for (size_t i = 0; after->complete && i < after->count; i++)
        assert_int_equal(after->nodes[i].rank, i);
}

static void a_garbled_write_is_a_join_or_nothing(void **state)
{
    struct scene *s = *state;
    size_t joins = 0, refused = 0;

    for (random_state = 1; joins + refused < SANITIZED_OR(600, 3000);) {
        struct torch_state before, after, said;
        const char *seen, *text;

        scene_begin_crowd(s, 3);
        before = scene_state_now(s);
        seen = scene_poll(s, &s->agents[2]);
        said =
            scene_state(draw(2) == 0 ? scene_completed(s, seen, "c") : scene_joined(s, seen, "c"));
        for (uint64_t n = draw(4); n > 0; n--)
            garble(s, &said);
        text = scene_text(s, &said);
        scene_cas(s, &s->agents[2], seen, text);
        after = scene_state_now(s);
        said = scene_state(text);
        assert_false(after.closed);
        assert_int_equal(after.round, before.round);
        if (torch_state_participants(&after) > torch_state_participants(&before)) {
            only_c_has_joined(&before, &after, &said);
            joins++;
        } else {
            assert_int_equal(after.count, before.count);
            refused++;
        }
        torch_state_free(&before);
        torch_state_free(&after);
        torch_state_free(&said);
        scene_renew(s);
    }
    assert_true(joins > SANITIZED_OR(100, 500) && refused > SANITIZED_OR(100, 500));
}

/* --- An agent that follows torch's rules comes to the same state with views as without. --- */

#define NODES_MOST 24

/* The same run twice: in one of them the agent has a view, in the other one it reads the value. */
struct side {
    struct scene scene;
    struct agent *agent;
    struct model_agent model;
    const char *change; /* the state is this when it writes; NULL: no other one */
    bool has_view;
    size_t numbers; /* how often it joined by one */
};

struct pair {
    struct model_settings settings;
    struct side with, without;
};

static void serve(struct side *side)
{
    struct model_agent *m = &side->model;
    struct scene *s = &side->scene;
    const char *answer;

    if (!side->has_view)
        side->agent->origin = ORIGIN_TOOL; /* as a tool */
    if (m->request == REQUEST_LOOK) {
        answer = scene_poll(s, side->agent);
    } else if (m->phase == MODEL_INTRODUCING) {
        answer = scene_cas(s, side->agent, "", SENTINEL);
    } else {
        struct slice token = {m->token, m->token_len}, text = {m->text, m->text_len};
        char expected[16384], desired[16384];

        assert_true(token.len < sizeof expected && text.len < sizeof desired);
        memcpy(expected, token.ptr, token.len);
        expected[token.len] = '\0';
        memcpy(desired, text.ptr, text.len);
        desired[text.len] = '\0';
        if (side->change != NULL) {
            scene_change(s, side->change);
            side->change = NULL;
        }
        answer = scene_cas(s, side->agent, expected, desired);
    }
    assert_non_null(answer);
    side->numbers += side->agent->number != 0;
    model_agent_answer(m, slice_str(answer), s->now.ms, scene_now_us(s));
}

/* Runs one side until its agent is in a complete round, at most for `ms`. */
static void run_side(struct side *side, uint64_t ms)
{
    struct scene *s = &side->scene;
    uint64_t end_ms = s->now.ms + ms;

    while (side->model.phase <= MODEL_JOINING && s->now.ms < end_ms) {
        model_agent_act(&side->model, s->now.ms, scene_now_us(s));
        if (side->model.request != REQUEST_NONE && side->model.phase <= MODEL_JOINING)
            serve(side);
        else
            scene_pass(s, 100);
    }
}

static void begin_side(struct side *side, const struct pair *p, bool has_view, const char *name,
                       const char *value)
{
    struct scene *s = &side->scene;

    *side = (struct side){.has_view = has_view};
    scene_init(&side->scene);
    scene_change(s, value);
    side->agent = scene_connect(s, true);
    scene_event(s, RUN_TICK, NULL);
    model_agent_start(&side->model, &p->settings, name, 100, 0, s->now.ms);
}

/* Silent nodes are looked for once a second. */
static void change_both(struct pair *p, const char *value)
{
    struct side *sides[] = {&p->with, &p->without};

    for (size_t i = 0; i < COUNT(sides); i++) {
        scene_change(&sides[i]->scene, value);
        scene_pass(&sides[i]->scene, 1000);
        scene_event(&sides[i]->scene, RUN_TICK, NULL);
    }
}

/* The two sides may differ in silent nodes: each agent that reads the state presumes them dead. */
static bool counts(const struct scene *s, const struct torch_node *node)
{
    return node_role(node) != NULL && node->heartbeat_us > scene_now_us(s) - 15 * SECOND;
}

static void includes(const struct side *a, const struct side *b)
{
    const struct torch_state *x = &a->scene.run.view.state, *y = &b->scene.run.view.state;

    for (size_t i = 0; i < x->count; i++) {
        const struct torch_node *is = torch_state_find(y, &x->nodes[i]);

        if (!counts(&a->scene, &x->nodes[i]))
            continue;
        assert_non_null(is);
        assert_int_equal(is->participant, x->nodes[i].participant);
        assert_int_equal(is->waiting, x->nodes[i].waiting);
        assert_int_equal(is->redundant, x->nodes[i].redundant);
        if (x->complete)
            assert_int_equal(is->rank, x->nodes[i].rank);
    }
}

static void same_outcome(const struct pair *p)
{
    const struct torch_state *x = &p->with.scene.run.view.state;
    const struct torch_state *y = &p->without.scene.run.view.state;

    assert_int_equal(x->round, y->round);
    assert_int_equal(x->complete, y->complete);
    assert_int_equal(x->closed, y->closed);
    assert_int_equal(x->has_deadline, y->has_deadline);
    if (x->has_deadline)
        assert_int_equal(x->deadline_us, y->deadline_us);
    includes(&p->with, &p->without);
    includes(&p->without, &p->with);
    assert_int_equal(p->with.model.phase, p->without.model.phase);
    if (p->with.model.phase <= MODEL_JOINING)
        return;
    assert_int_equal(p->with.model.rank, p->without.model.rank);
    assert_int_equal(torch_state_participants(&p->with.model.state),
                     torch_state_participants(&p->without.model.state));
}

static const char *node_name(uint64_t i)
{
    static char name[8];

    snprintf(name, sizeof name, "n%02u", (unsigned)(i % 100));
    return name;
}

/* So many participants, with even numbers. */
static struct torch_state any_state(struct scene *s, size_t nodes, int64_t round, bool has_silent)
{
    struct torch_state st = scene_state(NULL);

    st.round = round;
    for (size_t i = 0; i < nodes; i++) {
        int64_t ago_us = (int64_t)draw(7000) * 1000;

        scene_node(&st, node_name(2 * i))->participant = true;
        scene_beat(&st, node_name(2 * i),
                   scene_now_us(s) - (has_silent && draw(4) == 0 ? SILENT_US : ago_us));
    }
    if (draw(4) == 0) {
        scene_node(&st, node_name(90))->redundant = true;
        scene_beat(&st, node_name(90), scene_now_us(s));
    }
    for (uint64_t i = draw(3); i > 0; i--) {
        scene_node(&st, node_name(90 + i))->waiting = true;
        scene_beat(&st, node_name(90 + i), scene_now_us(s));
    }
    return st;
}

/* A last call begins with the MIN-th and is over soon, or late. */
static const char *any_text(struct pair *p, size_t nodes, int64_t round, bool has_silent)
{
    struct scene *s = &p->with.scene;
    struct torch_state st = any_state(s, nodes, round, has_silent);

    if (nodes >= p->settings.min_nodes)
        st = scene_with_deadline(st, scene_now_us(s) + (int64_t)draw(5000) * 1000 + 2 * SECOND);
    if (nodes == p->settings.max_nodes)
        scene_complete(&st);
    return scene_text(s, &st);
}

/* `name` waits for the round after this one, which has the nodes of the next. */
static void wait_first(struct pair *p, size_t nodes)
{
    const char *name = p->with.model.name;
    struct torch_state st;

    run_side(&p->with, 2000);
    run_side(&p->without, 2000);
    assert_true(agent_has_node(p->with.agent) && agent_has_node(p->without.agent));
    st = scene_state(any_text(p, nodes, p->with.scene.run.view.state.round + 1, draw(8) == 0));
    scene_node(&st, name)->waiting = true;
    scene_beat(&st, name, scene_node_now(&p->with.scene, name).heartbeat_us);
    change_both(p, scene_text(&p->with.scene, &st));
}

static void draw_settings(struct model_settings *settings, size_t nodes)
{
    size_t next;

    settings->min_nodes = 1 + draw(nodes + 3);
    settings->last_call_ms = 3000;
    next = nodes + 1 > settings->min_nodes ? nodes + 1 : settings->min_nodes;
    settings->max_nodes = next + draw(3);
}

/* What the two begin with. */
static const char *first_text(struct pair *p, struct scene *clock, size_t nodes, bool complete)
{
    struct torch_state st = any_state(clock, nodes, (int64_t)draw(3), draw(8) == 0);

    if (complete)
        scene_complete(&st);
    else if (nodes >= p->settings.min_nodes)
        st = scene_with_deadline(st, scene_now_us(clock) + (int64_t)draw(5000) * 1000 + SECOND);
    return scene_text(clock, &st);
}

static void begin_pair(struct pair *p, struct scene *clock)
{
    size_t nodes = 1 + draw(NODES_MOST - 2);
    bool waits = draw(3) == 0;
    const char *value, *name;

    draw_settings(&p->settings, nodes);
    value = first_text(p, clock, nodes, waits);
    name = scene_copy(node_name(2 * draw(nodes + 1) + 1)); /* any place among them */
    begin_side(&p->with, p, true, name, value);
    begin_side(&p->without, p, false, name, value);
    if (waits)
        wait_first(p, nodes);
    if (draw(2) == 0)
        p->with.change = p->without.change =
            any_text(p, nodes + draw(3) - 1, p->with.scene.run.view.state.round, false);
}

/* True: it was given a number. */
static bool run_pair(uint64_t seed)
{
    struct scene clock;
    struct pair p;

    random_state = seed;
    scene_init(&clock);
    begin_pair(&p, &clock);
    run_side(&p.with, 7500); /* longer than a last call, and no node is silent by then */
    run_side(&p.without, 7500);
    same_outcome(&p);
    assert_int_equal(p.without.numbers, 0);
    model_agent_stop(&p.with.model);
    model_agent_stop(&p.without.model);
    scene_fini(&p.with.scene);
    scene_fini(&p.without.scene);
    scene_fini(&clock);
    return p.with.numbers > 0;
}

static void it_comes_to_the_same_with_views_as_without(void **state)
{
    size_t numbers = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SANITIZED_OR(150, 500); seed++)
        numbers += run_pair(seed);
    assert_true(numbers > SANITIZED_OR(60, 200));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_garbled_write_is_a_join_or_nothing),
        cmocka_unit_test(it_comes_to_the_same_with_views_as_without),
    };

    return cmocka_run_group_tests_name("intent_any", tests, NULL, NULL);
}
