/* How sessions are kept, changed, ended, and written to a snapshot. See session.h. */
#include "store/session/session.h"

#include <assert.h>

#include "store/disk/cow_buffer.h"
#include "store/keymap/worker_store.h"

void sessions_init(struct sessions *s, struct keymap *keys, struct worker_stores *worker_stores,
                   struct reserve *reserve, uint64_t seed, struct quota *quota)
{
    *s = (struct sessions){
        .keys = keys, .worker_stores = worker_stores, .reserve = reserve, .quota = quota};
    table_init(&s->table, ACCOUNT_SESSIONS, seed, reserve);
    TAILQ_INIT(&s->list);
}

void sessions_fini(struct sessions *s)
{
    struct session *session;

    while ((session = TAILQ_FIRST(&s->list)) != NULL)
        session_end(s, session);
    table_fini(&s->table);
    account_free(ACCOUNT_SESSIONS, s->spare.block, s->spare.len);
    account_free(ACCOUNT_SESSIONS, s->spare_arrival.block, s->spare_arrival.len);
    account_free(ACCOUNT_WAITERS, s->spare_key.block, s->spare_key.len);
}

static struct slice key_of(const uint64_t *id)
{
    return (struct slice){(const uint8_t *)id, sizeof *id};
}

struct session *session_find(const struct sessions *s, uint64_t id)
{
    return (struct session *)table_find(&s->table, key_of(&id)); /* node is the first member */
}

bool session_passed(const struct session *session)
{
    return session->flags != RELAY_ARRIVED || session->arrival == NULL;
}

struct slice session_barrier(const struct session *session)
{
    return session_passed(session) ? (struct slice){0}
                                   : awaited_key(session->arrival->arrival.link.at);
}

/* The keys that the session is bound to. */
static struct keymap *keys_of(const struct sessions *s, const struct session *session)
{
    return worker_stores_keys(s->worker_stores, s->keys, session->worker_store);
}

/* --- One moment, in a snapshot. --- */

void session_moment_begin(struct session_moment *m, struct sessions *s, struct cow_buffer *cow,
                          const char *name, uint32_t snapshot)
{
    *m = (struct session_moment){.sessions = s,
                                 .cow = cow,
                                 .name = name,
                                 .snapshot = snapshot,
                                 .next = TAILQ_FIRST(&s->list)};
    s->moment = m;
}

void session_moment_end(struct session_moment *m)
{
    if (m->sessions != NULL)
        m->sessions->moment = NULL;
    m->sessions = NULL;
    m->next = NULL;
}

static struct change session_state_of(const struct session *session)
{
    return (struct change){
        .kind = CHANGE_SNAPSHOT_SESSION,
        .session_state = {.id = session->id,
                          .number = session->number,
                          .flags = session->flags,
                          .is_worker = session->is_worker,
                          .worker_store = session->worker_store,
                          .answer = {session->answer, session->answer_len},
                          .hint = blob_slice(session->hint)},
    };
}

/* Finds the session's barrier key, or the element of its last answer; false: neither. */
static bool session_holds(const struct session *session, struct change *out)
{
    struct slice barrier = session_barrier(session);

    *out = (struct change){
        .kind = CHANGE_SNAPSHOT_HELD,
        .put = {.key = key_of(&session->id),
                .value = session->popped != NULL ? blob_slice(session->popped) : barrier},
    };
    return session->popped != NULL || !session_passed(session);
}

/* The snapshot holds the key's copy as a value of its own, because the key may be longer than the
 * values that it encodes at once.
 */
static void session_moment_keep_held(struct session_moment *m, const struct session *session,
                                     const struct change *held)
{
    struct blob *value = session->popped != NULL ? blob_ref(session->popped)
                                                 : blob_new(ACCOUNT_SNAPSHOT, held->put.value);

    if (value == NULL)
        m->cow->failed = true;
    else
        cow_put(m->cow, m->name, held, value, false);
    blob_unref(value);
}

/* It is going to change. */
static void session_moment_keep(struct session_moment *m, struct session *session)
{
    const struct change state = session_state_of(session);
    struct change held;

    if (session->snapshot == m->snapshot || m->cow->failed)
        return;
    session->snapshot = m->snapshot;
    cow_put(m->cow, m->name, &state, NULL, false);
    if (session_holds(session, &held))
        session_moment_keep_held(m, session, &held);
}

static bool write_session(const struct session_moment *m, const struct session *session,
                          struct batch *out)
{
    const struct change state = session_state_of(session);
    struct change held;

    return batch_add(out, m->name, &state) &&
           (!session_holds(session, &held) || batch_add(out, m->name, &held));
}

/* The cost, in bytes, of passing over a session that is already in the snapshot: one cache miss. */
#define PASSED_SIZE 8u

bool session_moment_write(struct session_moment *m, struct batch *out, size_t bytes)
{
    size_t passed = 0;

    for (; m->next != NULL && out->len + passed < bytes; m->next = TAILQ_NEXT(m->next, order)) {
        if (m->next->snapshot == m->snapshot) {
            passed += PASSED_SIZE;
            continue;
        }
        if (!write_session(m, m->next, out))
            return false;
        m->next->snapshot = m->snapshot;
    }
    return true;
}

/* --- Memory. --- */

/* With a length that differs, the old block is freed. */
static bool spare_hold(struct session_spare *s, enum account_kind kind, size_t len)
{
    if (s->block == NULL || s->len != len) {
        account_free(kind, s->block, s->len);
        *s = (struct session_spare){account_alloc(kind, len), len};
    }
    return s->block != NULL;
}

bool session_hold_memory(struct sessions *s, bool is_new, const struct slice *barrier)
{
    return (!is_new || spare_hold(&s->spare, ACCOUNT_SESSIONS, sizeof(struct session))) &&
           (barrier == NULL ||
            (spare_hold(&s->spare_arrival, ACCOUNT_SESSIONS, sizeof(struct session_arrival)) &&
             spare_hold(&s->spare_key, ACCOUNT_WAITERS, awaited_size(*barrier))));
}

enum store_status session_prepare(struct sessions *s, uint64_t id, const struct slice *barrier)
{
    bool is_new = session_find(s, id) == NULL;

    if (is_new && !quota_has_room(s->quota, 0, SESSION_COST))
        return STORE_FULL;
    return session_hold_memory(s, is_new, barrier) ? STORE_OK : STORE_NO_MEMORY;
}

/* Before each change of a session. */
static void session_note_change(struct sessions *s, struct session *session)
{
    if (s->moment != NULL)
        session_moment_keep(s->moment, session);
}

/* The session, made if there is none. */
static struct session *session_get_or_create(struct sessions *s, uint64_t id)
{
    struct session *session = session_find(s, id);

    if (session != NULL)
        return session;
    session = s->spare.block;
    s->spare.block = NULL;
    *session = (struct session){.id = id};
    session->node.near = TABLE_NEAR(sizeof session->node, sizeof session->id);
    session->snapshot = s->moment == NULL ? 0 : s->moment->snapshot;
    TAILQ_INSERT_TAIL(&s->list, session, order);
    table_add(&s->table, (struct table_node *)&session->node);
    quota_keep(s->quota, &s->bytes, SESSION_COST, 0);
    return session;
}

/* --- Barriers. --- */

/* The barrier opens. */
static void session_pass(struct arrival *arrival)
{
    struct session_arrival *a = (struct session_arrival *)arrival;

    session_note_change(a->home, a->session);
    a->session->arrival = NULL;
    account_free(ACCOUNT_SESSIONS, a, sizeof *a);
}

/* The session, with RELAY_ARRIVED, stands in the barrier from now on. */
static void session_arrive(struct sessions *s, struct session *session, struct slice key)
{
    struct session_arrival *a = s->spare_arrival.block;

    s->spare_arrival.block = NULL;
    *a = (struct session_arrival){{.passes = session_pass}, s, session};
    session->arrival = a;
    keymap_arrive(keys_of(s, session), key, &a->arrival, &s->spare_key.block);
}

/* Leaves the barrier, if it stands in one. */
static void session_depart(struct sessions *s, struct session *session)
{
    if (session_passed(session))
        return;
    keymap_depart(keys_of(s, session), &session->arrival->arrival);
    account_free(ACCOUNT_SESSIONS, session->arrival, sizeof *session->arrival);
    session->arrival = NULL;
}

/* --- Changes. --- */

static size_t cost_of(const struct blob *b)
{
    return b == NULL ? 0 : sizeof *b + b->len;
}

/* `b`, whose reference it takes, replaces the session's element or hint. */
static void session_replace(struct sessions *s, struct blob **kept, struct blob *b)
{
    quota_keep(s->quota, &s->bytes, cost_of(b), cost_of(*kept));
    blob_leave(*kept, ACCOUNT_ANSWERS);
    *kept = b;
    if (b != NULL)
        blob_hold(b, ACCOUNT_SESSIONS);
}

static void set_answer(struct session *session, struct slice answer)
{
    assert(answer.len <= SESSION_ANSWER_MAX);
    session->answer_len = (uint8_t)answer.len;
    session->arrival = NULL;
    slice_copy(session->answer, answer);
}

/* True if a session can have these flags with an answer of this length. */
static bool are_flags(uint8_t flags, size_t answer_len)
{
    bool answered = (flags & RELAY_ANSWERED) != 0;

    return flags == (flags & (RELAY_ANSWERED | RELAY_TOOK)) && answered == (answer_len != 0) &&
           answer_len <= SESSION_ANSWER_MAX;
}

bool session_can_be_done(struct sessions *s, const struct session_done *c)
{
    const struct session *session = session_find(s, c->id);
    const struct keymap *keys = session == NULL ? s->keys : keys_of(s, session);
    bool arrived = c->flags == RELAY_ARRIVED;

    if (c->number <= (session == NULL ? 0 : session->number) ||
        !session_hold_memory(s, session == NULL, arrived ? &c->answer : NULL))
        return false;
    if (arrived)
        return !c->popped;
    return are_flags(c->flags, c->answer.len) &&
           (!c->popped || (c->answer.len != 0 && (c->blob != NULL || keys->popped != NULL)));
}

void session_do(struct sessions *s, const struct session_done *c)
{
    struct session *session = session_get_or_create(s, c->id);
    struct keymap *keys = keys_of(s, session);
    bool arrived = c->flags == RELAY_ARRIVED;

    session_note_change(s, session);
    session_depart(s, session);
    session_replace(s, &session->popped,
                    !c->popped        ? NULL
                    : c->blob != NULL ? blob_ref(c->blob)
                                      : keymap_take_popped(keys));
    set_answer(session, arrived ? (struct slice){0} : c->answer);
    session->number = c->number;
    session->flags = c->flags;
    if (arrived && keymap_get(keys, c->answer) != NULL)
        session_arrive(s, session, c->answer);
}

/* One session more or less uses a worker store. */
static void count_use(const struct sessions *s, const struct session *session, bool more)
{
    struct worker_store *store = session->worker_store == 0
                                     ? NULL
                                     : worker_stores_find(s->worker_stores, session->worker_store);

    if (store != NULL)
        store->sessions += more ? 1 : UINT64_MAX;
}

enum store_status session_check_bind(const struct sessions *s, const struct session_bind *c)
{
    const struct session *session = session_find(s, c->id);

    if (worker_stores_keys(s->worker_stores, s->keys, c->worker_store) == NULL)
        return STORE_ABSENT;
    return session != NULL && !session_passed(session) && session->worker_store != c->worker_store
               ? STORE_IN_USE
               : STORE_OK;
}

void session_bind(struct sessions *s, const struct session_bind *c)
{
    struct session *session = session_get_or_create(s, c->id);

    session_note_change(s, session);
    count_use(s, session, false);
    session->is_worker = c->is_worker;
    session->worker_store = c->worker_store;
    count_use(s, session, true);
}

bool session_hint_fits(const struct sessions *s, const struct session_hint *c)
{
    const struct session *session = session_find(s, c->id);

    return session != NULL &&
           quota_has_room(s->quota, cost_of(session->hint), sizeof(struct blob) + c->bytes.len);
}

/* NULL: it is empty. */
static struct blob *hint_blob(const struct sessions *s, struct slice bytes)
{
    return bytes.len == 0 ? NULL : reserve_blob(s->reserve, ACCOUNT_SESSIONS, bytes);
}

void session_set_hint(struct sessions *s, const struct session_hint *c)
{
    struct session *session = session_find(s, c->id);

    session_note_change(s, session);
    session_replace(s, &session->hint, hint_blob(s, c->bytes));
}

void session_end(struct sessions *s, struct session *session)
{
    if (s->moment != NULL) {
        session_moment_keep(s->moment, session);
        if (s->moment->next == session)
            s->moment->next = TAILQ_NEXT(session, order);
    }
    session_depart(s, session);
    session_replace(s, &session->popped, NULL);
    session_replace(s, &session->hint, NULL);
    count_use(s, session, false);
    quota_keep(s->quota, &s->bytes, 0, SESSION_COST);
    TAILQ_REMOVE(&s->list, session, order);
    table_remove(&s->table, (struct table_node *)&session->node);
    account_free(ACCOUNT_SESSIONS, session, sizeof *session);
}

/* --- Snapshots. --- */

bool session_load(struct sessions *s, const struct session_state *state)
{
    const struct session_bind bind = {state->id, state->is_worker, state->worker_store};
    bool arrived = state->flags == RELAY_ARRIVED;
    struct session *session;

    if (session_find(s, state->id) != NULL || session_check_bind(s, &bind) != STORE_OK ||
        (arrived ? state->answer.len != 0 : !are_flags(state->flags, state->answer.len)) ||
        state->hint.len > SESSION_HINT_MAX || !session_hold_memory(s, true, NULL) ||
        !reserve_hold(s->reserve, reserve_blob_cost(state->hint.len)))
        return false;
    session_bind(s, &bind);
    session = session_find(s, state->id);
    session->number = state->number;
    session->flags = state->flags;
    set_answer(session, state->answer);
    session_replace(s, &session->hint, hint_blob(s, state->hint));
    reserve_settle(s->reserve);
    return true;
}

bool session_load_held(struct sessions *s, const struct key_put *held)
{
    struct session *session = session_find(s, bytes_get_u64(held->key.ptr));
    bool arrived;

    if (session == NULL || session->popped != NULL || !session_passed(session))
        return false;
    arrived = session->flags == RELAY_ARRIVED;
    if ((!arrived && session->answer_len == 0) ||
        !(arrived ? session_hold_memory(s, false, &held->value)
                  : reserve_hold(s->reserve, reserve_blob_cost(held->value.len))))
        return false;
    if (arrived)
        session_arrive(s, session, held->value);
    else
        session_replace(s, &session->popped,
                        reserve_blob(s->reserve, ACCOUNT_SESSIONS, held->value));
    reserve_settle(s->reserve);
    return true;
}
