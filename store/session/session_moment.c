/* Sessions in a snapshot. See session.h for the contract. */
#include "store/disk/snapshot_ahead.h"
#include "store/session/session.h"

void session_moment_begin(struct session_moment *m, struct sessions *s,
                          struct snapshot_ahead *ahead, const char *name, uint32_t snapshot)
{
    *m = (struct session_moment){.sessions = s,
                                 .ahead = ahead,
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

static struct change state_of(const struct session *session)
{
    return (struct change){
        .kind = CHANGE_SNAPSHOT_SESSION,
        .session_state = {.id = session->id,
                          .number = session->number,
                          .flags = session->flags,
                          .is_worker = session->is_worker,
                          .worker_store = session->worker_store,
                          .answer = {session->answer, session->answer_len},
                          .memo = session->memo != NULL ? blob_slice(session->memo)
                                                        : (struct slice){0}},
    };
}

/* The key of the barrier in which it stands, or the element of its answer; false: neither. */
static bool holds(const struct session *session, struct change *out)
{
    struct slice barrier = session_barrier(session);

    *out = (struct change){
        .kind = CHANGE_SNAPSHOT_HELD,
        .put = {.key = session->node.key,
                .value = session->popped != NULL ? blob_slice(session->popped) : barrier},
    };
    return session->popped != NULL || !session_passed(session);
}

/* --- Ahead of its turn. --- */

/* A copy of a key is a value of the snapshot's own: it may be longer than what is encoded at once.
 */
static void keep_held(struct session_moment *m, const struct session *session,
                      const struct change *held)
{
    struct blob *value = session->popped != NULL ? blob_ref(session->popped)
                                                 : blob_new(ACCOUNT_SNAPSHOT, held->put.value);

    if (value == NULL)
        m->ahead->failed = true;
    else
        ahead_put(m->ahead, m->name, held, value, false);
    blob_unref(value);
}

void session_moment_changes(struct session_moment *m, struct session *session)
{
    const struct change state = state_of(session);
    struct change held;

    if (session->snapshot == m->snapshot || m->ahead->failed)
        return;
    session->snapshot = m->snapshot;
    ahead_put(m->ahead, m->name, &state, NULL, false);
    if (holds(session, &held))
        keep_held(m, session, &held);
}

void session_moment_loses(struct session_moment *m, struct session *session)
{
    session_moment_changes(m, session);
    if (m->next == session)
        m->next = TAILQ_NEXT(session, order);
}

/* --- In its turn. --- */

static bool write_session(const struct session_moment *m, const struct session *session,
                          struct batch *out)
{
    const struct change state = state_of(session);
    struct change held;

    return batch_add(out, m->name, &state) &&
           (!holds(session, &held) || batch_add(out, m->name, &held));
}

/* What passing over one that is written already counts for: it takes a cache miss. */
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
