/* Requests that wait for hashes. See hash_wait.h for the contract. */
#include "rdzv/etcd/hash_wait.h"

#include "rdzv/etcd/hasher.h"
#include "rdzv/http/attempt.h"
#include "rdzv/http/job.h"

/* Of one request: the hash it waits for, and what has come of those before. */
struct hash_wait {
    struct http_job request;
    struct hash_job job;
    const struct http *http;
    struct conn *conn;
    bool waits;                      /* for the present job */
    bool is_new;                     /* that is a new password's */
    bool failed;                     /* it has been computed in vain */
    char checked[PASSWORD_HASH_MAX]; /* the sender's password was compared with that; empty: with
                                        none */
    bool right;
    char made[PASSWORD_HASH_MAX]; /* of the new password; empty: there is none */
};

static struct hash_wait *wait_of(const struct hash_job *job)
{
    return (struct hash_wait *)((uintptr_t)job - offsetof(struct hash_wait, job));
}

/* --- What the hasher calls. --- */

/* The same password may have been right for another request, or others have been wrong. */
static bool is_needed(const struct hash_job *job)
{
    const struct hash_wait *w = wait_of(job);

    return w->is_new ||
           (!http_is_held_off(w->http, &w->conn->peer, conn_space(w->conn)) &&
            !password_is_remembered(slice_str(job->password), slice_str(job->setting)));
}

static void note_checked(struct hash_wait *w)
{
    const struct hash_job *job = &w->job;

    memcpy(w->checked, job->setting, sizeof w->checked);
    w->right = password_hash_is(slice_str(job->made), slice_str(job->setting));
    if (w->right)
        password_remember(slice_str(job->password), slice_str(job->setting));
}

static void on_done(struct hash_job *job, bool computed)
{
    struct hash_wait *w = wait_of(job);

    if (w->is_new)
        memcpy(w->made, job->made, sizeof w->made);
    else if (computed)
        note_checked(w);
    w->failed = w->is_new && w->made[0] == '\0';
    explicit_bzero(job->password, sizeof job->password);
    w->waits = false;
    http_wake_job(w->conn);
}

static void on_free(struct hash_job *job)
{
    struct hash_wait *w = wait_of(job);

    explicit_bzero(w, sizeof *w);
    account_free(ACCOUNT_SESSIONS, w, sizeof *w);
}

static const struct hash_owner owner = {.is_needed = is_needed, .done = on_done, .free = on_free};

/* --- What endpoints call. --- */

static void end(struct http_job *request)
{
    hasher_cancel(&((struct hash_wait *)(void *)request)->job);
}

static enum http_job_state go_on(struct http_job *request, const struct http_request *r)
{
    const struct hash_wait *w = (const struct hash_wait *)(void *)request;

    if (!http_handle_again(r, request))
        return HTTP_JOB_GOES_ON;
    return w->waits ? HTTP_JOB_WAITS : HTTP_JOB_DONE;
}

/* NULL: the request has not waited for any. */
static struct hash_wait *waited(const struct http_request *r)
{
    return r->job == NULL || r->job->run != go_on ? NULL : (struct hash_wait *)(void *)r->job;
}

static struct hash_wait *get_wait(const struct http_request *r)
{
    struct hash_wait *w = waited(r);

    if (w != NULL)
        return w;
    w = account_request_zeroed(ACCOUNT_SESSIONS, conn_class(r->conn), sizeof *w);
    if (w == NULL)
        return NULL;
    w->request = (struct http_job){.run = go_on, .free = end};
    w->job.owner = &owner;
    w->http = r->http;
    w->conn = r->conn;
    return w;
}

/* Frees it, if nobody waits for it. */
static void drop_wait(const struct http_request *r, struct hash_wait *w)
{
    if (waited(r) == NULL)
        on_free(&w->job);
}

/* The job has its setting. */
static void wait_for(const struct http_request *r, struct hash_wait *w, struct slice password)
{
    enum hasher_result result;

    if (password.len > 0)
        memcpy(w->job.password, password.ptr, password.len);
    w->job.password[password.len] = '\0';
    result = hasher_add(r->http->hasher, &w->job, &r->conn->peer, http_is_suspect(r, r->space));
    if (result == HASHER_TAKEN) {
        w->waits = true;
        if (waited(r) == NULL)
            http_start_job(r, &w->request, HTTP_JOB_WAITS);
        return;
    }
    drop_wait(r, w);
    if (result == HASHER_FULL)
        reply_unavailable(r, "rdzvd: too many passwords from this address wait to be checked");
    else
        reply_no_memory(r);
}

enum hash_check hash_wait_check(const struct http_request *r, struct slice password,
                                struct slice hash)
{
    struct hash_wait *w = waited(r);
    char setting[PASSWORD_HASH_MAX];

    if (!password_is_usable(password))
        return HASH_CHECK_WRONG;
    if (!password_setting_of(hash, setting))
        password_setting_of(password_decoy(), setting);
    if (password_is_remembered(password, slice_str(setting)))
        return HASH_CHECK_RIGHT;
    if (w != NULL && strcmp(w->checked, setting) == 0)
        return w->right ? HASH_CHECK_RIGHT : HASH_CHECK_WRONG;
    w = get_wait(r);
    if (w == NULL) {
        reply_no_memory(r);
        return HASH_CHECK_PENDING;
    }
    memcpy(w->job.setting, setting, sizeof w->job.setting);
    w->is_new = false;
    wait_for(r, w, password);
    return HASH_CHECK_PENDING;
}

bool hash_wait_new(const struct http_request *r, struct slice password,
                   char hash[PASSWORD_HASH_MAX])
{
    struct hash_wait *w = get_wait(r);

    if (w == NULL) {
        reply_no_memory(r);
    } else if (w->made[0] != '\0') {
        memcpy(hash, w->made, PASSWORD_HASH_MAX);
        return true;
    } else if (w->failed || !password_new_setting(w->job.setting)) {
        drop_wait(r, w);
        reply_unavailable(r, "rdzvd: the password cannot be hashed");
    } else {
        w->is_new = true;
        wait_for(r, w, password);
    }
    return false;
}
