/* What a replica makes of whatever its etcd answers: it follows, stands for election, leads,
 * commits, writes snapshots and begins anew, on an etcd in this process. An input is a list of
 * steps: which call is answered, and how; what clients change; what time passes; and what befalls
 * the keys.
 *
 * While etcd keeps to its rules and nobody else writes to the keys, a replica finds nothing wrong
 * with what it reads, and all that was committed is there in its next life. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rdzv/engine/log.h"
#include "rdzv/etcd3/journal_etcd_internal.h"
#include "store/memory/account.h"
#include "tests/fuzz/fuzz.h"

/* --- The input. --- */

static struct slice input;

static unsigned next_byte(void)
{
    unsigned byte = input.len == 0 ? 0 : input.ptr[0];

    input = slice_from(input, input.len == 0 ? 0 : 1);
    return byte;
}

static struct slice next_bytes(void)
{
    size_t len = next_byte();
    struct slice bytes;

    if (len > input.len)
        len = input.len;
    bytes = (struct slice){input.ptr, len};
    input = slice_from(input, len);
    return bytes;
}

/* --- The keys. --- */

#define KEYS_MAX 200u

static struct kept {
    char key[KEY_MAX];
    uint8_t *value;
    size_t len;
    int64_t created, changed, lease;
} keys[KEYS_MAX]; /* sorted */
static size_t key_count;
static int64_t revision, lease_id;
static bool foul; /* the simulated etcd has broken its rules, or a stranger has written */

static void drop_key(size_t at)
{
    free(keys[at].value);
    key_count--;
    memmove(&keys[at], &keys[at + 1], (key_count - at) * sizeof keys[0]);
}

/* The first one that is not before it. */
static size_t find(const char *key)
{
    size_t at = 0;

    while (at < key_count && strcmp(keys[at].key, key) < 0)
        at++;
    return at;
}

static struct kept *get(const char *key)
{
    size_t at = find(key);

    return at < key_count && strcmp(keys[at].key, key) == 0 ? &keys[at] : NULL;
}

static void put(const char *key, struct slice value, int64_t lease)
{
    struct kept *k = get(key);
    size_t at = find(key);

    if (k == NULL) {
        CHECK(key_count < KEYS_MAX);
        memmove(&keys[at + 1], &keys[at], (key_count - at) * sizeof keys[0]);
        key_count++;
        k = &keys[at];
        *k = (struct kept){.created = revision};
        snprintf(k->key, sizeof k->key, "%s", key);
    }
    free(k->value);
    k->value = malloc(value.len + 1);
    CHECK(k->value != NULL);
    if (value.len > 0)
        memcpy(k->value, value.ptr, value.len);
    k->len = value.len;
    k->changed = revision;
    k->lease = lease;
}

static void end_lease(void)
{
    for (size_t i = key_count; i > 0; i--) {
        if (keys[i - 1].lease != 0)
            drop_key(i - 1);
    }
    lease_id = 0;
}

static void text_of(ProtobufCBinaryData data, char out[KEY_MAX])
{
    CHECK(data.len < KEY_MAX);
    if (data.len > 0)
        memcpy(out, data.data, data.len);
    out[data.len] = '\0';
}

/* --- Calls, as etcd carries them out. --- */

static uint8_t message[8 << 20];

static size_t write_answer(const ProtobufCMessage *m)
{
    CHECK(protobuf_c_message_get_packed_size(m) <= sizeof message);
    return protobuf_c_message_pack(m, message);
}

/* The answer to a get. */
struct found {
    Etcd3__RangeResponse range;
    Etcd3__KeyValue kvs[KEYS_MAX], *list[KEYS_MAX];
};

static void do_range(const Etcd3__RangeRequest *r, struct found *out)
{
    char from[KEY_MAX], to[KEY_MAX];
    size_t at;

    text_of(r->key, from);
    text_of(r->range_end, to);
    etcd3__range_response__init(&out->range);
    out->range.kvs = out->list;
    for (at = find(from); at < key_count; at++) {
        struct kept *k = &keys[at];
        Etcd3__KeyValue *kv = &out->kvs[out->range.n_kvs];

        if (to[0] == '\0' ? strcmp(k->key, from) != 0 : strcmp(k->key, to) >= 0)
            break;
        if (r->limit > 0 && out->range.n_kvs == (size_t)r->limit) {
            out->range.more = true;
            break;
        }
        etcd3__key_value__init(kv);
        kv->key = (ProtobufCBinaryData){strlen(k->key), (uint8_t *)k->key};
        kv->value = (ProtobufCBinaryData){k->len, k->value};
        kv->create_revision = k->created;
        kv->mod_revision = k->changed;
        kv->lease = k->lease;
        out->list[out->range.n_kvs++] = kv;
    }
}

static bool holds(const Etcd3__Compare *c)
{
    char key[KEY_MAX];
    const struct kept *k;

    text_of(c->key, key);
    k = get(key);
    if (c->target_union_case == ETCD3__COMPARE__TARGET_UNION_CREATE_REVISION)
        return c->create_revision == (k == NULL ? 0 : k->created);
    return k != NULL && slice_equal(slice_of_pb(c->value), (struct slice){k->value, k->len});
}

static void do_op(const Etcd3__RequestOp *op, struct found *out, bool *is_range)
{
    char key[KEY_MAX], to[KEY_MAX];

    *is_range = op->request_case == ETCD3__REQUEST_OP__REQUEST_RANGE;
    if (*is_range) {
        do_range(op->range, out);
    } else if (op->request_case == ETCD3__REQUEST_OP__REQUEST_PUT) {
        text_of(op->put->key, key);
        put(key, slice_of_pb(op->put->value), op->put->lease);
    } else {
        size_t at;

        text_of(op->delete_range->key, key);
        text_of(op->delete_range->range_end, to);
        for (at = find(key); at < key_count && strcmp(keys[at].key, to) < 0;)
            drop_key(at);
    }
}

static size_t do_txn(const Etcd3__TxnRequest *t)
{
    static struct found found[TXN_OPS_MAX];
    Etcd3__ResponseOp ops[TXN_OPS_MAX], *list[TXN_OPS_MAX];
    Etcd3__TxnResponse answer = ETCD3__TXN_RESPONSE__INIT;
    Etcd3__Header header = ETCD3__HEADER__INIT;
    Etcd3__RequestOp **branch;

    answer.succeeded = true;
    for (size_t i = 0; i < t->n_compare; i++)
        answer.succeeded = answer.succeeded && holds(t->compare[i]);
    branch = answer.succeeded ? t->success : t->failure;
    answer.n_responses = answer.succeeded ? t->n_success : t->n_failure;
    answer.responses = list;
    CHECK(answer.n_responses <= TXN_OPS_MAX);
    revision++;
    for (size_t i = 0; i < answer.n_responses; i++) {
        bool is_range;

        etcd3__response_op__init(&ops[i]);
        list[i] = &ops[i];
        do_op(branch[i], &found[i], &is_range);
        if (is_range) {
            ops[i].response_case = ETCD3__RESPONSE_OP__RESPONSE_RANGE;
            ops[i].range = &found[i].range;
        }
    }
    header.revision = revision;
    answer.header = &header;
    return write_answer(&answer.base);
}

static size_t do_login(void)
{
    static char token[] = "token.7";
    Etcd3__AuthenticateResponse answer = ETCD3__AUTHENTICATE_RESPONSE__INIT;

    answer.token = token;
    return write_answer(&answer.base);
}

static size_t do_lease(const char *path, struct slice request)
{
    Etcd3__LeaseResponse answer = ETCD3__LEASE_RESPONSE__INIT;
    Etcd3__LeaseGrantRequest *grant;

    if (strcmp(path, etcd_grant.path) == 0) {
        grant = etcd3__lease_grant_request__unpack(NULL, request.len, request.ptr);
        CHECK(grant != NULL);
        answer.ttl = grant->ttl;
        lease_id = ++revision;
        etcd3__lease_grant_request__free_unpacked(grant, NULL);
    } else if (strcmp(path, etcd_beat.path) == 0) {
        answer.ttl = lease_id == 0 ? 0 : 5;
    } else {
        end_lease();
    }
    answer.id = lease_id;
    return write_answer(&answer.base);
}

/* Its answer's length. */
static size_t carry_out(const char *path, struct slice request)
{
    static struct found found;
    Etcd3__RangeRequest *range;
    Etcd3__TxnRequest *txn;
    size_t len;

    if (strcmp(path, etcd_txn.path) == 0) {
        txn = etcd3__txn_request__unpack(NULL, request.len, request.ptr);
        CHECK(txn != NULL);
        len = do_txn(txn);
        etcd3__txn_request__free_unpacked(txn, NULL);
    } else if (strcmp(path, etcd_range.path) == 0) {
        range = etcd3__range_request__unpack(NULL, request.len, request.ptr);
        CHECK(range != NULL);
        do_range(range, &found);
        len = write_answer(&found.range.base);
        etcd3__range_request__free_unpacked(range, NULL);
    } else if (strcmp(path, etcd_login.path) == 0) {
        len = do_login();
    } else {
        len = do_lease(path, request);
    }
    return len;
}

/* --- In the place of the gRPC client. --- */

#define CALLS_MAX 8u

static struct grpc {
    struct grpc_options options;
    struct under_way {
        struct grpc_call *call;
        const char *path;
        struct slice request; /* the caller's, without its frame */
    } calls[CALLS_MAX];
    size_t count;
    bool up;
} client;

struct grpc *__wrap_grpc_new(const struct grpc_options *options);
struct grpc *__wrap_grpc_new(const struct grpc_options *options)
{
    client = (struct grpc){.options = *options};
    return &client;
}

void __wrap_grpc_free(struct grpc *g);
void __wrap_grpc_free(struct grpc *g)
{
    (void)g;
    client.count = 0;
}

bool __wrap_grpc_start(struct grpc *g, struct grpc_call *call, const char *path,
                       struct slice request, uint64_t patience_ms);
bool __wrap_grpc_start(struct grpc *g, struct grpc_call *call, const char *path,
                       struct slice request, uint64_t patience_ms)
{
    CHECK(g == &client && patience_ms > 0 && request.len >= GRPC_FRAME);
    if (!client.up || call->grpc != NULL)
        return false;
    CHECK(client.count < CALLS_MAX);
    call->grpc = &client;
    client.calls[client.count++] = (struct under_way){call, path, slice_from(request, GRPC_FRAME)};
    return true;
}

static struct under_way take_call(size_t at)
{
    struct under_way u = client.calls[at];

    client.count--;
    memmove(&client.calls[at], &client.calls[at + 1], (client.count - at) * sizeof client.calls[0]);
    u.call->grpc = NULL;
    return u;
}

void __wrap_grpc_cancel(struct grpc_call *call);
void __wrap_grpc_cancel(struct grpc_call *call)
{
    for (size_t i = 0; i < client.count; i++) {
        if (client.calls[i].call == call) {
            take_call(i);
            return;
        }
    }
}

void __wrap_grpc_set_token(struct grpc *g, const char *token);
void __wrap_grpc_set_token(struct grpc *g, const char *token)
{
    (void)g;
    (void)token;
}

void __wrap_grpc_tick(struct grpc *g);
void __wrap_grpc_tick(struct grpc *g)
{
    (void)g;
}

struct grpc_status __wrap_grpc_status(const struct grpc *g);
struct grpc_status __wrap_grpc_status(const struct grpc *g)
{
    return (struct grpc_status){.where = "etcd:2379",
                                .reason = g->up ? "" : "etcd:2379 cannot be reached",
                                .failed_endpoint = "etcd:2379",
                                .unreached = g->up ? 0 : 1};
}

static void tell(struct under_way u, int code, const char *text, size_t len)
{
    uint8_t *exact = malloc(len + 1); /* for ASan */
    const struct grpc_answer answer = {.code = code, .text = text, .message = {exact, len}};

    CHECK(exact != NULL);
    memcpy(exact, message, len);
    u.call->tell(u.call->arg, &answer);
    free(exact);
}

/* --- The replica. --- */

static struct event_base *base;
static int log_fd;
static struct engine engine;
static struct journal_etcd *journal;
static uint64_t now_ms;
static bool leads, ended;
static uint64_t changes, known; /* made by clients in all; and those that are committed */

static int64_t read_wall(void *arg)
{
    (void)arg;
    return (int64_t)now_ms * 1000000 + INT64_C(1800000000) * 1000000000;
}

static uint64_t read_monotonic(void *arg)
{
    (void)arg;
    return now_ms * 1000000;
}

static const struct clock hand = {.wall_ns = read_wall, .monotonic_ns = read_monotonic};

static struct engine_space *space(void)
{
    return engine_space(&engine, slice_str("default"));
}

/* The counter has all answered ADDs, and at most all requested ADDs. */
static void check_counter(void)
{
    const struct blob *value = keymap_get(&space()->store->keys, slice_str("n"));
    uint64_t number = 0;

    CHECK(value == NULL || slice_to_u64(blob_slice(value), UINT64_MAX, &number));
    CHECK(number >= known && number <= changes);
    known = changes = number; /* ADDs beyond `number` are lost */
}

static void on_leads(void *arg)
{
    (void)arg;
    leads = true;
    if (!foul)
        check_counter();
}

static void on_ended(void *arg)
{
    (void)arg;
    ended = true;
}

static void set_link(bool up)
{
    if (client.up == up)
        return;
    client.up = up;
    message[0] = 0;
    while (!up && client.count > 0)
        tell(take_call(0), GRPC_UNCLEAR, "closed the connection", 0);
    client.options.link(client.options.arg, up);
}

static struct upstream_spec etcd = {.host = (char *)(uintptr_t) "etcd", .port = 2379};
static struct config_journal config = {.url = (char *)(uintptr_t) "etcd://etcd:2379/n",
                                       .endpoints = &etcd,
                                       .endpoint_count = 1,
                                       .name = (char *)(uintptr_t) "n",
                                       .password_file = (char *)(uintptr_t) "/dev/null",
                                       .lease_ms = 5000};

static void open_replica(void)
{
    const struct engine_options engine_options = {.clock = &hand, .seed = 1};
    const struct journal_etcd_options options = {
        .base = base, .config = &config, .leads = on_leads, .ended = on_ended};

    engine_init(&engine, &engine_options);
    leads = ended = false;
    CHECK(journal_etcd_open(&journal, &options, &engine) == 0);
    set_link(true);
}

static void close_replica(void)
{
    engine_close_journal(&engine);
    engine_fini(&engine);
}

static void pass_time(unsigned ms)
{
    now_ms += ms;
    event_active(&journal->timer, EV_TIMEOUT, 1);
    event_base_loop(base, EVLOOP_NONBLOCK);
}

static void change(void)
{
    const struct command add = {.kind = COMMAND_KEY_ADD, .key = slice_str("n"), .number = 1};
    struct store_result result;

    if (!leads || !engine_takes_changes(&engine) || key_count > KEYS_MAX / 2)
        return;
    engine_apply(&engine, space(), &add, &result);
    CHECK(result.status == STORE_OK);
    changes++;
    engine_commit(&engine);
}

/* What clients may have been told. */
static void note_committed(void)
{
    if (journal->state == JOURNAL_LEADS && journal->stats.pending_batches == 0 && !foul)
        known = changes;
}

/* --- What etcd does. --- */

/* Calls that were lost on the way, and are carried out later than others. */
static struct late {
    const char *path;
    uint8_t *bytes;
    size_t len;
} late[4];
static size_t late_count;

static void keep_for_later(struct under_way u)
{
    uint8_t *bytes = malloc(u.request.len + 1);

    CHECK(bytes != NULL);
    memcpy(bytes, u.request.ptr, u.request.len);
    late[late_count++] = (struct late){u.path, bytes, u.request.len};
}

static void carry_out_late(bool really)
{
    struct late l = late[0];

    if (late_count == 0)
        return;
    late_count--;
    memmove(&late[0], &late[1], late_count * sizeof late[0]);
    if (really)
        carry_out(l.path, (struct slice){l.bytes, l.len});
    free(l.bytes);
}

static void answer_lost(struct under_way u, bool carried_out)
{
    if (carried_out)
        carry_out(u.path, u.request);
    else if (late_count < sizeof late / sizeof late[0] && strcmp(u.path, etcd_txn.path) == 0)
        keep_for_later(u);
    tell(u, GRPC_UNCLEAR, "the call was broken off", 0);
}

static void answer_refused(struct under_way u)
{
    static const char *const texts[] = {"etcdserver: mvcc: database space exceeded",
                                        "etcdserver: request is too large",
                                        "etcdserver: too many requests",
                                        "etcdserver: requested lease not found",
                                        "etcdserver: invalid auth token",
                                        "etcdserver: permission denied",
                                        "etcdserver: request timed out",
                                        ""};

    tell(u, (int)(next_byte() % 17) + 1, texts[next_byte() % 8], 0);
}

/* Some bytes of it are others. */
static void answer_mutated(struct under_way u)
{
    size_t len = carry_out(u.path, u.request);

    foul = true;
    for (unsigned n = next_byte() % 8; n > 0 && len > 0; n--) {
        size_t at = (next_byte() << 8 | next_byte()) % len;

        message[at] = (uint8_t)next_byte();
    }
    if (next_byte() % 4 == 0)
        len -= next_byte() % (len + 1);
    tell(u, 0, "", len);
}

static void answer_anything(struct under_way u)
{
    struct slice bytes = next_bytes();

    foul = true;
    if (bytes.len > 0)
        memcpy(message, bytes.ptr, bytes.len);
    tell(u, 0, "", bytes.len);
}

static void answer_call(unsigned how)
{
    struct under_way u;

    if (client.count == 0)
        return;
    u = take_call(how & 16 ? client.count - 1 : 0);
    switch (how % 8) {
    case 4:
        answer_lost(u, true);
        break;
    case 5:
        answer_refused(u);
        break;
    case 6:
        answer_mutated(u);
        break;
    case 7:
        answer_anything(u);
        break;
    case 3:
        answer_lost(u, false);
        break;
    default:
        tell(u, 0, "", carry_out(u.path, u.request));
        break;
    }
}

static const char *key_named(const char *name)
{
    static char key[KEY_MAX];

    snprintf(key, sizeof key, "/rdzvd/n/%s", name);
    return key;
}

/* Another replica leads, and commits an entry with these bytes. */
static void lead_elsewhere(struct slice bytes)
{
    const struct kept *head = get(key_named("head")), *leader, *last;
    struct log_head at = {0};
    struct log_entry entry = {.version = ENTRY_VERSION_MAX, .begins = true, .bytes = bytes}, before;
    uint8_t value[ENTRY_HEADER + 256];
    char text[HEAD_TEXT], name[40];
    uint32_t chain = 0;

    if (head != NULL && !head_decode((struct slice){head->value, head->len}, &at))
        return;
    snprintf(name, sizeof name, "log/%016lx", (unsigned long)at.index);
    last = get(key_named(name));
    if (last != NULL &&
        entry_decode((struct slice){last->value, last->len}, &before) == LOG_IS_FINE)
        chain = before.chain;
    else if (at.index != 0)
        return;
    end_lease();
    revision++;
    put(key_named("leader"), slice_str("another one"), 1);
    leader = get(key_named("leader"));
    entry.epoch = (uint64_t)leader->created;
    entry.chain = entry_chain(chain, &entry);
    entry_encode(&entry, value);
    if (bytes.len > 0)
        memcpy(value + ENTRY_HEADER, bytes.ptr, bytes.len);
    at = (struct log_head){at.index + 1, entry.epoch};
    head_encode(&at, text);
    snprintf(name, sizeof name, "log/%016lx", (unsigned long)at.index);
    put(key_named(name), (struct slice){value, ENTRY_HEADER + bytes.len}, 0);
    put(key_named("head"), slice_str(text), 0);
}

/* A stranger writes to the keys of the journal. */
static void meddle(void)
{
    unsigned what = next_byte();
    size_t at = key_count == 0 ? 0 : next_byte() % key_count;

    foul = true;
    revision++;
    if (what % 4 == 0 && key_count > 0)
        drop_key(at);
    else if (what % 4 == 1 && key_count > 0 && keys[at].len > 0)
        keys[at].value[next_byte() % keys[at].len] = (uint8_t)next_byte();
    else if (what % 4 == 2 && key_count > 0)
        put(keys[at].key, next_bytes(), 0);
    else if (key_count < KEYS_MAX / 2)
        lead_elsewhere(next_bytes());
}

/* A snapshot is due with 16 MiB of log, which no input has. */
static void write_snapshot(void)
{
    if (key_count > KEYS_MAX / 2)
        return;
    if (leads)
        journal->stats.bytes_behind += (uint64_t)16 << 20;
    engine_work_journal(&engine);
}

/* No replica finds what cannot be. */
static void check_log(void)
{
    static char text[1 << 16];
    ssize_t len = pread(log_fd, text, sizeof text - 1, 0);

    CHECK(len >= 0);
    text[len] = '\0';
    if (foul)
        return;
    CHECK(strstr(text, "journal_conflict") == NULL);
    CHECK(strstr(text, "journal_went_back") == NULL);
    CHECK(strstr(text, "journal_unreadable") == NULL);
}

static void step(void)
{
    unsigned what = next_byte();

    switch (what >> 5) {
    case 0:
    case 1:
    case 2:
        answer_call(what);
        break;
    case 3:
        pass_time((what & 31) * 100);
        break;
    case 4:
        change();
        break;
    case 5:
        if (what & 2)
            config.user = config.user == NULL ? (char *)(uintptr_t) "user" : NULL;
        set_link(what & 1);
        break;
    case 6:
        write_snapshot();
        break;
    default:
        if (what & 1)
            meddle();
        else if (what & 2)
            carry_out_late(key_count < KEYS_MAX / 2);
        else
            end_lease();
        break;
    }
    note_committed();
    CHECK(foul || journal->log.restart_ms == 0);
    if (!ended)
        return;
    check_log();
    close_replica();
    open_replica();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t before = account.bytes[ACCOUNT_JOURNAL];

    if (base == NULL) {
        log_fd = memfd_create("log", MFD_CLOEXEC);
        log_init(&(struct log_options){.fd = log_fd, .level = LOG_ERROR});
        base = event_base_new();
    }
    CHECK(ftruncate(log_fd, 0) == 0 && lseek(log_fd, 0, SEEK_SET) == 0);
    input = (struct slice){data, size};
    now_ms = 1000;
    revision = 1;
    lease_id = 0;
    foul = false;
    config.user = NULL;
    changes = known = 0;
    open_replica();
    for (unsigned steps = 0; input.len > 0 && steps < 400; steps++)
        step();
    check_log();
    if (!journal_etcd_finish(journal) && client.count > 0)
        answer_call(0);
    close_replica();
    while (late_count > 0)
        carry_out_late(false);
    while (key_count > 0)
        drop_key(key_count - 1);
    CHECK(account.bytes[ACCOUNT_JOURNAL] == before);
    return 0;
}
