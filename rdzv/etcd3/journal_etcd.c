/* The journal on etcd as the engine knows it, and its connection. See journal_etcd.h. */
#include "rdzv/etcd3/journal_etcd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "rdzv/engine/log.h"
#include "rdzv/etcd3/journal_etcd_internal.h"
#include "rdzv/net/net.h"
#include "store/memory/account.h"

#define TIMER_MS     100
#define PENDING_MAX  ((size_t)64 << 20)
#define ALIVE_MS     5000u
#define PATIENCE_MS  5000u
#define ELECTION_MS  1000u
#define UNCLEAR_MOST 3u
#define PASSWORD_MAX 1024u

uint64_t lease_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

struct slice journal_log_key(const struct journal_etcd *j, uint64_t index, char text[KEY_MAX])
{
    snprintf(text, KEY_MAX, "%slog/%016" PRIx64, j->prefix, index);
    return slice_str(text);
}

struct slice journal_chunk_key(const struct journal_etcd *j, const char *id, uint32_t chunk,
                               char text[KEY_MAX])
{
    snprintf(text, KEY_MAX, "%ssnap/%s/%08" PRIx32, j->prefix, id, chunk);
    return slice_str(text);
}

/* --- What is wrong. --- */

static uint64_t commit_waits_ms(const struct journal_etcd *j)
{
    return j->commit.open ? clock_elapsed_ms(j->commit.began_ms, journal_now_ms(j)) : 0;
}

#define SHOWN_MAX (TROUBLE_MAX + TROUBLE_HINT_MAX + 100)

/* The last trouble, what to do about it, and how many members share it: of a cluster, the one that
 * was asked last may be the one that is well. */
static const char *show_trouble(const struct journal_etcd *j, char out[SHOWN_MAX])
{
    unsigned unreached = j->grpc == NULL ? 0 : grpc_unreached(j->grpc);
    size_t count = j->endpoints.count;
    char others[120] = "";

    if (unreached > 0 && count > 1)
        snprintf(others, sizeof others, "; %u of etcd's %zu endpoints cannot be reached%s",
                 unreached, count, unreached * 2 >= count ? ": etcd may have no majority" : "");
    snprintf(out, SHOWN_MAX, "%s%s%s%s",
             j->trouble[0] != '\0' ? j->trouble : "it has not answered yet", others,
             j->hint[0] != '\0' ? "; " : "", j->hint);
    return out;
}

/* When a member of etcd fails, its others need some seconds: meanwhile changes are taken, and
 * answers wait. */
static void find_reason(struct journal_etcd *j)
{
    char trouble[SHOWN_MAX];
    char *out = j->reason;

    out[0] = '\0';
    if (j->state != JOURNAL_LEADS && j->trouble[0] != '\0')
        snprintf(out, REASON_MAX, "this replica does not lead: %s", show_trouble(j, trouble));
    else if (j->state != JOURNAL_LEADS && j->leader[0] != '\0')
        snprintf(out, REASON_MAX, "this replica stands by: %.200s leads", j->leader);
    else if (j->state != JOURNAL_LEADS)
        snprintf(out, REASON_MAX, "this replica does not lead");
    else if (j->commit.refused || commit_waits_ms(j) > PATIENCE_MS)
        snprintf(out, REASON_MAX, "etcd does not take changes: %s", show_trouble(j, trouble));
    else if (lease_now_ms() > j->valid_ms + PATIENCE_MS)
        snprintf(out, REASON_MAX, "etcd does not renew the lease: %s", show_trouble(j, trouble));
    else if (j->stats.pending_bytes > PENDING_MAX)
        snprintf(out, REASON_MAX, "etcd is too slow: %zu bytes of changes wait to be committed",
                 j->stats.pending_bytes);
    else if (j->spare == NULL)
        snprintf(out, REASON_MAX, "there is no memory to keep changes in");
}

void journal_note_reason(struct journal_etcd *j)
{
    bool refuses;

    pending_keep_spare(&j->spare);
    find_reason(j);
    refuses = j->reason[0] != '\0';
    j->engine->batch.refuses = refuses;
    if (j->state != JOURNAL_LEADS || j->refused == refuses)
        return;
    j->refused = refuses;
    if (refuses)
        log_event(LOG_ERROR, "journal_failed", log_str("journal", j->options.config->url),
                  log_str("reason", j->reason),
                  log_str("action", "changes are refused; rdzvd tries again each second"));
    else
        log_event(LOG_INFO, "journal_resumed", log_str("journal", j->options.config->url));
}

/* The account of the user is told apart from all else: it is asked for once more. etcd may have had
 * no users when this connection began. */
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
    j->entry_max = bytes / 2;
    log_event(LOG_WARN, "journal_smaller", log_str("journal", j->options.config->url),
              log_u64("bytes", j->entry_max), log_str("reason", a->text),
              log_str("hint", "etcd's --max-request-bytes is below its default of 1.5 MiB"));
    return true;
}

/* Some members answer, and can do nothing for us: one that has no leader, or learns yet, or a proxy
 * before one that is away. */
static void note_unclear(struct journal_etcd *j, const struct grpc_answer *a)
{
    if (a->code != GRPC_UNCLEAR && ++j->unclear >= UNCLEAR_MOST) {
        j->unclear = 0;
        grpc_leave(j->grpc, "cannot serve");
    }
}

/* What was served once can be served again. */
static void note_trouble(struct journal_etcd *j, const char *where, int code, const char *reason)
{
    const struct trouble trouble = {
        .reason = reason, .code = code, .has_answered = j->whole_ms != 0};

    snprintf(j->trouble, sizeof j->trouble, "%.*s", (int)sizeof j->trouble - 1, reason);
    trouble_hint(j->options.config, &trouble, j->hint);
    if (!troubles_is_news(&j->troubles, j->trouble, journal_now_ms(j)))
        return;
    if (code == GRPC_UNCLEAR)
        log_limited(LOG_WARN, "etcd_failed", log_str("endpoint", where),
                    log_str("reason", j->trouble), log_str("hint", j->hint));
    else
        log_limited(LOG_WARN, "etcd_failed", log_str("endpoint", where), log_i64("code", code),
                    log_str("reason", j->trouble), log_str("hint", j->hint));
}

/* A try that is lost says nothing yet: the next one has another endpoint. */
bool journal_note_failure(struct journal_etcd *j, const struct grpc_answer *a)
{
    bool clear = journal_is_refusal(a);

    j->stats.failures++;
    if (!clear)
        note_unclear(j, a);
    if (is_about_login(a) && j->options.config->user != NULL) {
        j->up = false;
        grpc_set_token(j->grpc, NULL);
        return true;
    }
    if (a->code == 2 && clear)
        return true;
    note_trouble(j, grpc_where(j->grpc), a->code, a->text);
    return clear;
}

void journal_note_success(struct journal_etcd *j)
{
    j->trouble[0] = j->hint[0] = '\0';
    j->unclear = 0;
    if (j->reason[0] != '\0')
        journal_note_reason(j);
}

void journal_end(struct journal_etcd *j)
{
    if (j->state == JOURNAL_ENDED)
        return;
    j->state = JOURNAL_ENDED;
    j->stats.leads = false;
    journal_note_reason(j);
    j->options.ended(j->options.arg);
}

/* --- The connection. --- */

void journal_call(struct journal_etcd *j, struct grpc_call *call, const char *path,
                  const struct message *m, uint64_t patience_ms)
{
    if (j->up && !grpc_is_under_way(call))
        grpc_start(j->grpc, call, path, message_bytes(m), patience_ms);
}

static const char password_hint[] =
    "write the password into that file, readable for rdzvd; it is read anew for each login";

/* The file's text without white space at its end. False with errno. */
static bool read_password(const char *path, char out[PASSWORD_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, out, PASSWORD_MAX - 1);
    int error = errno;

    if (fd >= 0)
        close(fd);
    errno = error;
    if (len < 0)
        return false;
    while (len > 0 && strchr(" \t\r\n", out[len - 1]) != NULL)
        len--;
    out[len] = '\0';
    return true;
}

/* The password's file cannot be read. */
static void note_password(struct journal_etcd *j, int error)
{
    const char *file = j->options.config->password_file;

    snprintf(j->trouble, sizeof j->trouble, "--journal-password-file=%.200s: %s", file,
             strerror(error));
    snprintf(j->hint, sizeof j->hint, "%s", password_hint);
    if (troubles_is_news(&j->troubles, j->trouble, journal_now_ms(j)))
        log_limited(LOG_WARN, "password_unreadable", log_str("setting", "--journal-password-file"),
                    log_str("file", file), log_errno("reason", error),
                    log_str("hint", password_hint));
}

/* At the start, before etcd may be there. */
static void check_password(struct journal_etcd *j)
{
    char password[PASSWORD_MAX];

    if (j->options.config->user == NULL)
        return;
    if (!read_password(j->options.config->password_file, password))
        note_password(j, errno);
    explicit_bzero(password, sizeof password);
}

/* Each connection begins with it: a member forgets its tokens when it restarts, and others do not
 * know them. */
static void log_in(struct journal_etcd *j)
{
    const struct config_journal *c = j->options.config;
    Etcd3__AuthenticateRequest request = ETCD3__AUTHENTICATE_REQUEST__INIT;
    char password[PASSWORD_MAX] = "";

    if (j->logs_in || journal_now_ms(j) < j->login_ms)
        return;
    j->login_ms = journal_now_ms(j) + AGAIN_MS;
    if (!read_password(c->password_file, password)) {
        note_password(j, errno);
        journal_note_reason(j);
        return;
    }
    request.name = c->user;
    request.password = password;
    grpc_set_token(j->grpc, NULL);
    if (message_write(&j->login, &request.base))
        j->logs_in =
            grpc_start(j->grpc, &j->login_call, LOGIN_PATH, message_bytes(&j->login), TRY_MS);
    explicit_bzero(password, sizeof password);
}

static void on_login(void *arg, const struct grpc_answer *a)
{
    static const struct grpc_answer too_long = {.code = 3,
                                                .text = "etcd's token is longer than 1023 bytes"};
    struct journal_etcd *j = arg;
    Etcd3__AuthenticateResponse *r = a->code == 0 ? message_login(a->message) : NULL;

    j->logs_in = false;
    explicit_bzero(j->login.bytes, j->login.len);
    if (r != NULL && strlen(r->token) < GRPC_TOKEN_MAX) {
        grpc_set_token(j->grpc, r->token);
        j->up = true;
    } else if (r != NULL) {
        journal_note_failure(j, &too_long);
    } else if (a->code == 9 && strstr(a->text, "not enabled") != NULL) {
        j->up = true;
    } else {
        journal_note_failure(j, a);
    }
    if (j->up)
        journal_pump(j);
    else
        journal_note_reason(j);
    message_free(r);
}

static void on_link(void *arg, bool up)
{
    struct journal_etcd *j = arg;

    j->up = up && j->options.config->user == NULL;
    if (up && !j->up)
        j->login_ms = 0;
    if (up)
        journal_pump(j);
}

void journal_pump(struct journal_etcd *j)
{
    if (j->state == JOURNAL_ENDED)
        return;
    if (!j->up) {
        if (j->options.config->user != NULL)
            log_in(j);
        return;
    }
    lead_pump(j);
    if (j->state < JOURNAL_BEGINS)
        follow_pump(j);
    else
        commit_pump(j);
    if (j->state == JOURNAL_LEADS)
        snapshot_out_pump(j);
}

/* There is no connection, and this is why. */
static void note_link(struct journal_etcd *j)
{
    char why[GRPC_TEXT_MAX]; /* as those who called are told it */

    snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, grpc_trouble(j->grpc));
    if (why[0] != '\0')
        note_trouble(j, grpc_trouble_of(j->grpc), GRPC_UNCLEAR, why);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct journal_etcd *j = arg;

    (void)fd;
    (void)what;
    grpc_tick(j->grpc);
    if (j->state != JOURNAL_LEADS)
        note_link(j);
    journal_pump(j);
    journal_note_reason(j);
    if (j->anew_ms != 0 && journal_now_ms(j) >= j->anew_ms)
        journal_end(j);
}

/* --- The table. --- */

static const char *refuses(void *arg)
{
    const struct journal_etcd *j = arg;

    return j->reason[0] == '\0' ? NULL : j->reason;
}

/* It has looked lately, and what it saw is applied. An election passes quickly. */
static bool stands_by(void *arg)
{
    const struct journal_etcd *j = arg;

    return j->state != JOURNAL_LEADS && j->state != JOURNAL_ENDED && j->whole_ms != 0 &&
           lease_now_ms() - j->whole_ms <= PATIENCE_MS;
}

/* The lease has ended, by any clock: an election has had its time. */
static bool is_cut_off(void *arg)
{
    const struct journal_etcd *j = arg;

    return j->state == JOURNAL_LEADS &&
           lease_now_ms() > j->valid_ms + JOURNAL_MARGIN_MS + ELECTION_MS;
}

/* While the lease may have ended, another replica may lead: nothing is answered. */
static uint64_t vouch(void *arg)
{
    const struct journal_etcd *j = arg;

    return j->state == JOURNAL_LEADS && lease_now_ms() <= j->valid_ms ? j->batch : 0;
}

static void tick(void *arg)
{
    struct journal_etcd *j = arg;
    int64_t at_ns;

    certificate_tick(&j->tls);
    if (clock_elapsed_ms(j->committed_ms, journal_now_ms(j)) >= ALIVE_MS &&
        engine_next_expiry(j->engine, &at_ns))
        engine_commit_time(j->engine);
}

static bool work(void *arg)
{
    return snapshot_out_work(arg);
}

static void free_all(struct journal_etcd *j)
{
    if (event_initialized(&j->timer)) {
        event_del(&j->timer);
        evtimer_del(&j->gathered);
    }
    snapshot_out_drop(j);
    grpc_free(j->grpc);
    certificate_fini(&j->tls);
    commit_drop(j);
    account_free(ACCOUNT_JOURNAL, j->spare, sizeof *j->spare);
    stream_fini(&j->stream);
    message_fini(&j->login);
    message_fini(&j->step);
    message_fini(&j->beat);
    account_free(ACCOUNT_JOURNAL, j, sizeof *j);
}

static void close_journal(void *arg)
{
    struct journal_etcd *j = arg;

    j->engine->options.journal = (struct engine_journal){0};
    j->engine->journal_etcd = NULL;
    if (j->stats.pending_batches > 0 && j->state == JOURNAL_LEADS)
        log_event(LOG_ERROR, "journal_failed", log_str("journal", j->options.config->url),
                  log_str("reason", "the last changes were not committed: no client was answered"),
                  log_str("action", "none"));
    free_all(j);
}

const struct journal_etcd_stats *journal_etcd_stats(const struct journal_etcd *j)
{
    return &j->stats;
}

bool journal_etcd_finish(struct journal_etcd *j)
{
    if (j->epoch == 0 || j->state == JOURNAL_ENDED || j->given_back)
        return true;
    if (j->stats.pending_batches == 0 && j->up)
        lead_give_back(j);
    return false;
}

/* --- The beginning. --- */

static uint64_t random_number(void)
{
    uint64_t n = 0;

    if (getrandom(&n, sizeof n, GRND_NONBLOCK) != (ssize_t)sizeof n)
        n = (uint64_t)clock_wall_ns(&clock_system);
    return n;
}

static void name_keys(struct journal_etcd *j)
{
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    snprintf(j->prefix, sizeof j->prefix, "/rdzvd/%s/", j->options.config->name);
    snprintf(j->leader_key, KEY_MAX, "%sleader", j->prefix);
    snprintf(j->head_key, KEY_MAX, "%shead", j->prefix);
    snprintf(j->pointer_key, KEY_MAX, "%ssnapshot", j->prefix);
    snprintf(j->who, sizeof j->who, "%s pid %ld %016" PRIx64, host, (long)getpid(),
             random_number());
}

static int start(struct journal_etcd *j)
{
    static const char *const settings[] = {"--journal-cert", "--journal-key", "--journal-ca",
                                           "--crl"};
    const struct timeval often = {.tv_usec = TIMER_MS * 1000};
    const struct grpc_options grpc = {.base = j->options.base,
                                      .endpoints = &j->endpoints,
                                      .first = random_number() % 1024,
                                      .clock = j->engine->options.clock,
                                      .tls = &j->tls,
                                      .link = on_link,
                                      .arg = j};

    event_assign(&j->timer, j->options.base, -1, EV_PERSIST, on_timer, j);
    evtimer_assign(&j->gathered, j->options.base, commit_on_gathered, j);
    j->tls = certificate_of_client(&j->options.config->tls, "etcd", settings);
    j->tls.alpn = "h2";
    if (certificate_start(&j->tls) < 0)
        return -1;
    check_password(j);
    endpoints_begin(&j->endpoints, j->options.config);
    j->grpc = grpc_new(&grpc);
    return j->grpc != NULL && net_add_event(&j->timer, &often) ? 0 : -1;
}

int journal_etcd_open(struct journal_etcd **out, const struct journal_etcd_options *options,
                      struct engine *engine)
{
    struct journal_etcd *j = account_alloc(ACCOUNT_JOURNAL, sizeof *j);

    *out = j;
    if (j == NULL) {
        log_event(LOG_ERROR, "journal_failed", log_str("journal", options->config->url),
                  log_str("reason", "memory is short"), log_str("action", "none"));
        return -1;
    }
    *j = (struct journal_etcd){
        .options = *options, .engine = engine, .entries = ENTRIES_LEAST, .entry_max = ENTRY_MAX};
    j->login_call = (struct grpc_call){.tell = on_login, .arg = j};
    TAILQ_INIT(&j->pending);
    batch_init(&j->out.part);
    name_keys(j);
    recovery_begin(&j->recovery, engine);
    engine->options.journal = (struct engine_journal){.commit = commit_take,
                                                      .vouch = vouch,
                                                      .refuses = refuses,
                                                      .stands_by = stands_by,
                                                      .is_cut_off = is_cut_off,
                                                      .fd = -1,
                                                      .tick = tick,
                                                      .work = work,
                                                      .close = close_journal,
                                                      .arg = j};
    engine->journal_etcd = j;
    journal_note_reason(j);
    return start(j); /* what there is ends with engine_close_journal() */
}
