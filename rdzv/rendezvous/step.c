/* Outputs of the policy, and the commands among them, which change the view as well. See step.h. */
#include "rdzv/rendezvous/step.h"

#include <stdlib.h>

/* Memory that lives as long as the outputs of a step. */
struct policy_text {
    struct policy_text *next;
    uint8_t *bytes;
};

struct torch_state *step_edit(struct step *s)
{
    const struct run_view *v = &s->run->view;

    return v->is_state && !v->unread ? step_edit_copy(s, &v->state) : NULL;
}

struct torch_state *step_edit_copy(struct step *s, const struct torch_state *state)
{
    torch_state_free(&s->edited);
    s->next = &s->edited;
    return torch_state_copy(state, &s->edited) ? &s->edited : NULL;
}

/* --- Outputs. --- */

static bool make_room(struct policy_out *out)
{
    size_t cap = out->cap * 2 + 8;
    struct policy_output *items = realloc(out->items, cap * sizeof *items);

    if (items == NULL)
        return false;
    out->items = items;
    out->cap = cap;
    return true;
}

struct policy_output *step_emit(struct step *s, enum policy_output_kind kind)
{
    struct policy_out *out = s->out;

    if (out->count == out->cap && !make_room(out)) {
        out->failed = true;
        out->lost = (struct policy_output){.kind = kind};
        return &out->lost;
    }
    out->items[out->count] = (struct policy_output){.kind = kind};
    return &out->items[out->count++];
}

struct policy_output *step_agent(struct step *s, enum policy_output_kind kind, struct agent *a)
{
    struct policy_output *o = step_emit(s, kind);

    o->agent = a;
    return o;
}

void step_close(struct step *s, struct agent *a, const char *reason, struct slice about)
{
    struct policy_output *o = step_agent(s, POLICY_CLOSE, a);

    o->reason = reason;
    o->value = about;
}

bool step_own_text(struct step *s, uint8_t *text)
{
    struct policy_text *t = malloc(sizeof *t);

    if (t == NULL) {
        free(text);
        return false;
    }
    *t = (struct policy_text){.next = s->out->texts, .bytes = text};
    s->out->texts = t;
    return true;
}

uint8_t *step_alloc(struct step *s, size_t len)
{
    uint8_t *bytes = malloc(len + 1);

    return bytes != NULL && step_own_text(s, bytes) ? bytes : NULL;
}

void policy_out_clear(struct policy_out *out)
{
    while (out->texts != NULL) {
        struct policy_text *next = out->texts->next;

        free(out->texts->bytes);
        free(out->texts);
        out->texts = next;
    }
    free(out->items);
    *out = (struct policy_out){0};
}

/* --- Commands. --- */

static void take_room(struct step *s, size_t before, size_t after)
{
    if (s->room != SIZE_MAX)
        s->room = s->room + before - after;
}

/* False: the space is full. */
static bool put_text(struct step *s, struct slice value)
{
    const struct run_view *v = &s->run->view;
    size_t before = s->value.ptr == NULL ? 0 : s->value.len;
    size_t after = value.len + (s->value.ptr == NULL ? s->now->key_cost + v->node.key.len : 0);
    struct policy_output *put;

    s->is_full = after > before && after - before > s->room;
    if (s->is_full)
        return false;
    take_room(s, before, after);
    put = step_emit(s, POLICY_PUT);
    put->key = v->node.key;
    put->value = value;
    s->value = value.ptr == NULL ? slice_str("") : value;
    return true;
}

bool step_put_round_key(struct step *s, enum policy_output_kind kind, int64_t round,
                        const char *name, struct slice value)
{
    const struct run_view *v = &s->run->view;
    uint8_t *key = step_alloc(s, v->node.key.len + TORCH_KEY_ROOM);
    uint8_t *copy = step_alloc(s, value.len);
    struct policy_output *put;
    size_t len, cost;

    if (key == NULL || copy == NULL)
        return false;
    memcpy(copy, value.ptr, value.len);
    len = torch_key_write(v->node.key, round, name, key);
    cost = s->now->key_cost + len + value.len;
    if (cost > s->room)
        return false;
    take_room(s, 0, cost);
    put = step_emit(s, kind);
    put->key = (struct slice){key, len};
    put->value = (struct slice){copy, value.len};
    return true;
}

bool step_put_value(struct step *s, struct slice value)
{
    if (!put_text(s, value))
        return false;
    run_view_update(&s->run->view, value);
    return true;
}

/* No text may have more bytes than this beside its sources, so no agent makes us write more than
 * agents send. No state of torch grows like that: see TORCH_STATE_GROWTH. */
#define STATE_SLACK 4096 /* a node more, and a few times, and what the order of nodes may cost */

/* False: no memory, or the text is longer than that. */
static bool write_edited(struct step *s, size_t sources, struct slice *text)
{
    uint8_t *bytes;
    size_t len;

    if (!torch_state_write(&s->edited, &bytes, &len))
        return false;
    *text = (struct slice){bytes, len};
    if (len <= sources + STATE_SLACK)
        return step_own_text(s, bytes);
    free(bytes);
    return false;
}

bool step_put_edited(struct step *s, size_t sent)
{
    struct slice text;
    size_t sources = s->value.len + s->run->view.late * STATE_SLACK + sent;
    bool ok = write_edited(s, sources, &text) && put_text(s, text);

    if (ok)
        run_view_adopt(&s->run->view, text, &s->edited);
    torch_state_free(&s->edited);
    return ok;
}

/* --- Late texts. --- */

#define LATE_LEAST    64
#define LATE_NAME_MAX 1024 /* bytes: the node then takes less than STATE_SLACK */

/* A text of an agent, or one with new ranks, may grow by more than the change. Until a text is put,
 * other keys may take room. */
static bool may_be_late(const struct step *s, const struct torch_node *node)
{
    const struct run_view *v = &s->run->view;
    size_t least = s->run->settings->late_text;

    return least != 0 && s->value.len >= least && s->value.len < TORCH_STATE_MAX / 2 &&
           (v->late < LATE_LEAST || v->late < v->state.count / 16) && v->is_ours && !v->unread &&
           !v->state.closed && node->addr.len <= LATE_NAME_MAX &&
           s->room / 2 > (LATE_LEAST + v->late) * STATE_SLACK;
}

struct torch_state *step_edit_node(struct step *s, const struct torch_node *node, bool may)
{
    struct run_view *v = &s->run->view;
    const struct torch_node *is = torch_state_find(&v->state, node);
    struct torch_node was = {.addr = node->addr, .pid = node->pid, .local_id = node->local_id}, *at;

    was = is == NULL ? was : *is;
    if (!may || !may_be_late(s, node))
        return step_edit(s);
    torch_state_free(&v->before);
    v->before = (struct torch_state){.round = v->state.round,
                                     .deadline_us = v->state.deadline_us,
                                     .complete = v->state.complete,
                                     .has_deadline = v->state.has_deadline,
                                     .unnamed = v->participants - was.participant,
                                     .is_part = true};
    if (!torch_state_insert(&v->before, &was, &at))
        return step_edit(s);
    return s->next = &v->state;
}

bool step_put_late(struct step *s, size_t sent)
{
    struct run_view *v = &s->run->view;

    if (s->next != &v->state)
        return step_put_edited(s, TORCH_STATE_GROWTH(s->value.len) + sent);
    if (!run_view_advance(v))
        step_catch_up(s);
    return true;
}

/* --- Heartbeats. --- */

void step_note_beat(struct step *s, const struct torch_node *node, int64_t us)
{
    struct run_view *v = &s->run->view;

    v->state.nodes[node - v->state.nodes].heartbeat_us = us;
    if (!v->is_ahead)
        s->run->beats_since_ms = s->now->ms;
    v->is_ahead = true;
}

/* No change: `before` stays as it was. */
void step_catch_up(struct step *s)
{
    struct run_view *v = &s->run->view;
    struct torch_state before = v->before;

    if (!v->is_ahead || step_edit(s) == NULL)
        return;
    v->before = (struct torch_state){0};
    step_put_edited(s, 0);
    torch_state_free(&v->before);
    v->before = before;
}
