/* The journal's connection to etcd: its calls, the login, and faults. See
 * journal_etcd_internal.h. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "rdzv/config/config_file.h"
#include "rdzv/engine/log.h"
#include "rdzv/etcd3/journal_etcd_internal.h"

#define PENDING_MAX  ((size_t)64 << 20)
#define UNCLEAR_MOST 3u
#define PASSWORD_MAX 1024u

uint64_t lease_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- States. --- */

void journal_enter(struct journal_etcd *j, enum journal_state next)
{
    static const unsigned legal[] = {
        [JOURNAL_FOLLOWS] = 1u << JOURNAL_LOADS | 1u << JOURNAL_ASKS | 1u << JOURNAL_ENDED,
        [JOURNAL_LOADS] = 1u << JOURNAL_FOLLOWS | 1u << JOURNAL_ENDED,
        [JOURNAL_ASKS] = 1u << JOURNAL_STANDS | 1u << JOURNAL_FOLLOWS | 1u << JOURNAL_ENDED,
        [JOURNAL_STANDS] = 1u << JOURNAL_CATCHES_UP | 1u << JOURNAL_FOLLOWS | 1u << JOURNAL_ENDED,
        [JOURNAL_CATCHES_UP] = 1u << JOURNAL_LOADS | 1u << JOURNAL_BEGINS | 1u << JOURNAL_ENDED,
        [JOURNAL_BEGINS] = 1u << JOURNAL_LEADS | 1u << JOURNAL_ENDED,
        [JOURNAL_LEADS] = 1u << JOURNAL_ENDED,
        [JOURNAL_ENDED] = 0,
    };

    assert(legal[j->state] & 1u << next);
    j->state = next;
    j->stats.leads = next == JOURNAL_LEADS;
}

void journal_end(struct journal_etcd *j)
{
    if (j->state == JOURNAL_ENDED)
        return;
    journal_enter(j, JOURNAL_ENDED);
    journal_note_reason(j);
    j->options.ended(j->options.arg);
}

/* --- What is wrong. --- */

#define SHOWN_MAX (ETCD_REASON_MAX + ETCD_HINT_MAX + 100)

/* The last failure, its remedy, and how many members share it: the member that was asked last may
 * be the healthy one. */
static const char *show_fault(const struct journal_etcd *j, char out[SHOWN_MAX])
{
    unsigned unreached = j->connection.grpc == NULL ? 0 : grpc_status(j->connection.grpc).unreached;
    size_t count = j->options.config->endpoint_count;
    char others[120] = "";

    if (unreached > 0 && count > 1)
        snprintf(others, sizeof others, "; %u of etcd's %zu endpoints cannot be reached%s",
                 unreached, count, unreached * 2 >= count ? ": etcd may have no majority" : "");
    snprintf(out, SHOWN_MAX, "%s%s%s%s",
             j->fault.failure[0] != '\0' ? j->fault.failure : "it has not answered yet", others,
             j->fault.hint[0] != '\0' ? "; " : "", j->fault.hint);
    return out;
}

/* When a member of etcd fails, its others need some seconds: meanwhile changes are taken, and
 * answers wait. */
static void find_reason(struct journal_etcd *j)
{
    char shown[SHOWN_MAX];
    char *out = j->fault.reason;

    out[0] = '\0';
    if (j->state != JOURNAL_LEADS && j->fault.failure[0] != '\0')
        snprintf(out, REASON_MAX, "this replica does not lead: %s", show_fault(j, shown));
    else if (j->state != JOURNAL_LEADS && j->log.leader[0] != '\0')
        snprintf(out, REASON_MAX, "this replica stands by: %.200s leads", j->log.leader);
    else if (j->state != JOURNAL_LEADS)
        snprintf(out, REASON_MAX, "this replica does not lead");
    else if (j->commit.refused ||
             (j->commit.open &&
              clock_elapsed_ms(j->commit.began_ms, journal_now_ms(j)) > PATIENCE_MS))
        snprintf(out, REASON_MAX, "etcd does not take changes: %s", show_fault(j, shown));
    else if (lease_now_ms() > j->lease.valid_ms + PATIENCE_MS)
        snprintf(out, REASON_MAX, "etcd does not renew the lease: %s", show_fault(j, shown));
    else if (j->stats.pending_bytes > PENDING_MAX)
        snprintf(out, REASON_MAX, "etcd is too slow: %zu bytes of changes wait to be committed",
                 j->stats.pending_bytes);
    else if (j->commit.spare == NULL)
        snprintf(out, REASON_MAX, "memory for changes is short");
}

void journal_note_reason(struct journal_etcd *j)
{
    pending_keep_spare(&j->commit.spare);
    find_reason(j);
    engine_refuse(j->engine, j->fault.reason[0] == '\0' ? NULL : j->fault.reason);
    if (j->state == JOURNAL_LEADS)
        engine_log_refusal(j->engine, log_str("journal", j->options.config->url));
}

/* Faults of the account are separate from all others: rdzvd logs in once more. etcd may have had no
 * users when the connection began. */
static bool is_about_login(const struct grpc_answer *a)
{
    return a->code == 16 ||
           (a->code == 3 && (strstr(a->text, "revision of auth store is old") != NULL ||
                             strstr(a->text, "user name is empty") != NULL));
}

bool journal_is_refusal(const struct grpc_answer *a)
{
    return a->code == 3 || a->code == 5 || a->code == 7 || a->code == 11 || a->code == 16 ||
           (a->code == 8 && (strstr(a->text, "space exceeded") != NULL ||
                             strstr(a->text, "larger than max") != NULL)) ||
           (a->code == 2 && strstr(a->text, "too many requests") != NULL);
}

bool journal_shrink(struct journal_etcd *j, const struct grpc_answer *a, size_t bytes)
{
    if (strstr(a->text, "too large") == NULL && strstr(a->text, "larger than max") == NULL)
        return false;
    if (bytes <= ENTRY_MIN)
        return false;
    j->fault.entry_max = bytes / 2;
    log_event(LOG_WARN, "journal_smaller", log_str("journal", j->options.config->url),
              log_u64("bytes", j->fault.entry_max), log_str("reason", a->text),
              log_str("hint", "etcd's --max-request-bytes is below its default of 1.5 MiB"));
    return true;
}

/* A served request proves that the fault is over. */
static void note_fault(struct journal_etcd *j, const char *where, int code, const char *reason)
{
    const struct etcd_fault fault = {
        .reason = reason, .code = code, .has_answered = j->log.whole_ms != 0};

    snprintf(j->fault.failure, sizeof j->fault.failure, "%.*s", (int)sizeof j->fault.failure - 1,
             reason);
    etcd_hint_write(j->options.config, &fault, j->fault.hint);
    if (!etcd_reason_is_news(&j->fault.reasons, j->fault.failure, journal_now_ms(j)))
        return;
    log_limited(LOG_WARN, "etcd_failed", log_str("endpoint", where),
                log_if(code != GRPC_UNCLEAR, log_i64("code", code)),
                log_str("reason", j->fault.failure), log_str("hint", j->fault.hint));
}

/* A try that is lost says nothing yet: the next one has another endpoint. */
bool journal_note_failure(struct journal_etcd *j, const struct grpc_answer *a)
{
    bool clear = journal_is_refusal(a);

    j->stats.failures++;
    /* Some members answer, but cannot serve: a member without a leader, a learner, or a proxy whose
     * member is away. */
    if (!clear && a->code != GRPC_UNCLEAR && ++j->connection.unclear >= UNCLEAR_MOST) {
        j->connection.unclear = 0;
        grpc_leave(j->connection.grpc, "cannot serve");
    }
    if (is_about_login(a) && j->options.config->user != NULL) {
        j->connection.up = false;
        grpc_set_token(j->connection.grpc, NULL);
        return true;
    }
    if (a->code == 2 && clear)
        return true;
    note_fault(j, grpc_status(j->connection.grpc).where, a->code, a->text);
    return clear;
}

void journal_note_clear(struct journal_etcd *j)
{
    j->connection.unclear = 0;
}

void journal_note_success(struct journal_etcd *j)
{
    j->fault.failure[0] = j->fault.hint[0] = '\0';
    journal_note_clear(j);
}

void journal_note_unusable(struct journal_etcd *j, const char *why)
{
    snprintf(j->fault.failure, sizeof j->fault.failure, "%s", why);
    j->fault.hint[0] = '\0';
}

/* --- Calls. --- */

static void on_call_ended(void *arg, const struct grpc_answer *a)
{
    static const struct grpc_answer unreadable = {
        .code = 13, .text = "its answer cannot be read, or memory is short"};
    struct journal_call *call = arg;
    struct journal_etcd *j = call->journal;
    void *answer = a->code == 0 ? message_read(call->method, a->message) : NULL;

    if (a->code == 0 && answer == NULL)
        a = &unreadable; /* the next try may be another member's */
    if (j->state != JOURNAL_ENDED)
        call->tell(j, a, answer);
    message_free(answer);
    if (j->state == JOURNAL_ENDED)
        return;
    if (a->code != 0 || j->fault.reason[0] != '\0')
        journal_note_reason(j);
    j->pump(j);
}

static void start_call(struct journal_etcd *j, struct journal_call *call,
                       const struct etcd_method *method, journal_tell *tell, uint64_t patience_ms)
{
    if (grpc_is_under_way(&call->call))
        return;
    call->call.tell = on_call_ended;
    call->call.arg = call;
    call->journal = j;
    call->method = method;
    call->tell = tell;
    grpc_start(j->connection.grpc, &call->call, method->path, message_bytes(&call->request),
               patience_ms);
}

void journal_send(struct journal_etcd *j, struct journal_call *call,
                  const struct etcd_method *method, journal_tell *tell, uint64_t patience_ms)
{
    if (j->connection.up)
        start_call(j, call, method, tell, patience_ms);
}

/* --- The connection. --- */

static const char password_hint[] =
    "write the password into that file, readable for rdzvd; rdzvd reads it again for each login";

/* The password's file cannot be read. */
static void note_password(struct journal_etcd *j, int error)
{
    const char *file = j->options.config->password_file;

    snprintf(j->fault.failure, sizeof j->fault.failure, "--journal-password-file=%.200s: %s", file,
             strerror(error));
    snprintf(j->fault.hint, sizeof j->fault.hint, "%s", password_hint);
    if (etcd_reason_is_news(&j->fault.reasons, j->fault.failure, journal_now_ms(j)))
        log_limited(LOG_WARN, "password_unreadable", log_str("setting", "--journal-password-file"),
                    log_str("file", file), log_errno("reason", error),
                    log_str("hint", password_hint));
}

/* With a 0 behind it. False: the file cannot be read. */
static bool read_password(struct journal_etcd *j, uint8_t password[PASSWORD_MAX])
{
    struct slice secret;

    if (secret_file_read(j->options.config->password_file, password, PASSWORD_MAX, &secret))
        return true;
    note_password(j, errno);
    return false;
}

static void on_login(struct journal_etcd *j, const struct grpc_answer *a, const void *answer)
{
    static const struct grpc_answer too_long = {.code = 3,
                                                .text = "etcd's token is longer than 1023 bytes"};
    const Etcd3__AuthenticateResponse *r = answer;

    j->connection.logs_in = false;
    message_fini(&j->connection.login.request); /* it has the password */
    if (r != NULL && strlen(r->token) < GRPC_TOKEN_MAX) {
        grpc_set_token(j->connection.grpc, r->token);
        j->connection.up = true;
    } else if (a->code == 9 && strstr(a->text, "not enabled") != NULL) {
        j->connection.up = true;
    } else {
        journal_note_failure(j, r != NULL ? &too_long : a);
    }
}

/* Each connection begins with a login, because a member of etcd forgets its tokens in a restart,
 * and other members do not know them. */
static void log_in(struct journal_etcd *j)
{
    struct journal_call *login = &j->connection.login;
    Etcd3__AuthenticateRequest request = ETCD3__AUTHENTICATE_REQUEST__INIT;
    uint8_t password[PASSWORD_MAX] = "";

    if (j->connection.logs_in || journal_now_ms(j) < j->connection.login_ms)
        return;
    j->connection.login_ms = journal_now_ms(j) + AGAIN_MS;
    if (!read_password(j, password)) {
        journal_note_reason(j);
        return;
    }
    request.name = j->options.config->user;
    request.password = (char *)password;
    grpc_set_token(j->connection.grpc, NULL);
    if (message_write(&login->request, &request.base))
        start_call(j, login, &etcd_login, on_login, TRY_MS);
    j->connection.logs_in = grpc_is_under_way(&login->call);
    explicit_bzero(password, sizeof password);
}

bool connection_is_up(struct journal_etcd *j)
{
    if (!j->connection.up && j->options.config->user != NULL)
        log_in(j);
    return j->connection.up;
}

static void connection_on_link(void *arg, bool up)
{
    struct journal_etcd *j = arg;

    j->connection.up = up && j->options.config->user == NULL;
    if (up && !j->connection.up)
        j->connection.login_ms = 0;
    if (up)
        j->pump(j);
}

void connection_tick(struct journal_etcd *j)
{
    struct grpc_status status;
    char why[GRPC_TEXT_MAX]; /* as those who called are told it */

    grpc_tick(j->connection.grpc);
    if (j->state == JOURNAL_LEADS)
        return;
    status = grpc_status(j->connection.grpc);
    snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, status.reason);
    if (why[0] != '\0') /* there is no connection */
        note_fault(j, status.failed_endpoint, GRPC_UNCLEAR, why);
}

int connection_open(struct journal_etcd *j, uint64_t random)
{
    const struct grpc_options grpc = {.base = j->options.base,
                                      .endpoints = j->options.config->endpoints,
                                      .endpoint_count = j->options.config->endpoint_count,
                                      .first = random % 1024,
                                      .clock = j->engine->options.clock,
                                      .tls = &j->connection.tls,
                                      .link = connection_on_link,
                                      .arg = j};
    uint8_t password[PASSWORD_MAX];

    j->fault.entry_max = ENTRY_MAX;
    j->connection.tls = certificate_of_client(&j->options.config->tls, "etcd", "--journal-");
    j->connection.tls.alpn = "\2h2";
    if (certificate_start(&j->connection.tls) < 0)
        return -1;
    if (j->options.config->user != NULL) /* before etcd may be there */
        read_password(j, password);
    explicit_bzero(password, sizeof password);
    j->connection.grpc = grpc_new(&grpc);
    return j->connection.grpc != NULL ? 0 : -1;
}

void connection_close(struct journal_etcd *j)
{
    grpc_free(j->connection.grpc);
    certificate_fini(&j->connection.tls);
    message_fini(&j->connection.login.request);
}
