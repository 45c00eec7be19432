/* HTTP by libcurl, and the words for what fails; see http.h. */
#include "client/ctl/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/tls/tls.h"

#define TIMEOUT_MS 10000
#define READY_MS   2000 /* for /readyz, after another request got no answer */
#define BODY_MAX   (256u << 20)

/* A request, and the lists that it needs until its end. */
struct call {
    CURL *curl;
    struct curl_slist *headers, *connect_to;
};

static void end_call(struct call *c)
{
    curl_easy_cleanup(c->curl);
    curl_slist_free_all(c->headers);
    curl_slist_free_all(c->connect_to);
}

static void add_line(struct curl_slist **list, const char *line)
{
    *list = ctl_memory(curl_slist_append(*list, line));
}

/* "Authorization: Bearer …". False: the token cannot be read, which *failure says. */
static bool add_token(const struct ctl *ctl, struct curl_slist **headers,
                      struct http_failure *failure)
{
    char token[4096], line[sizeof token + 32];
    FILE *file = fopen(ctl->token_file, "re");
    int error = errno;
    bool got = file != NULL && fgets(token, sizeof token, file) != NULL;

    if (file != NULL && !got)
        error = ferror(file) ? errno : 0;
    if (file != NULL)
        fclose(file);
    if (!got) {
        failure->fault = FAULT_FILE;
        snprintf(failure->text, sizeof failure->text, "--token-file: %.300s %s%s", ctl->token_file,
                 error == 0 ? "is empty" : "cannot be read: ", error == 0 ? "" : strerror(error));
        return false;
    }
    token[strcspn(token, "\r\n")] = '\0';
    snprintf(line, sizeof line, "Authorization: Bearer %s", token);
    add_line(headers, line);
    return true;
}

/* Curl takes the name in the certificate from the URL. It still connects to the server's address,
 * and sends that address as Host. */
static char *url_of(const struct ctl *ctl, const char *path, struct call *call)
{
    const char *name = ctl->tls ? ctl->tls_with.name : NULL;
    char *url = NULL, line[sizeof ctl->server + 8];
    int n;

    if (name == NULL) {
        n = asprintf(&url, "%s://%s%s", ctl->tls ? "https" : "http",
                     ctl->unix_path != NULL ? "localhost" : ctl->server, path);
    } else {
        const char *open = strchr(name, ':') != NULL ? "[" : "", *close = open[0] ? "]" : "";

        snprintf(line, sizeof line, "::%s", ctl->server);
        add_line(&call->connect_to, line);
        snprintf(line, sizeof line, "Host: %s", ctl->server);
        add_line(&call->headers, line);
        n = asprintf(&url, "https://%s%s%s%s%s", open, name, close, strrchr(ctl->server, ':'),
                     path);
    }
    return ctl_memory(n < 0 ? NULL : url);
}

static void set_tls(CURL *curl, const struct ctl *ctl)
{
    curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (ctl->tls_with.ca != NULL) {
        curl_easy_setopt(curl, CURLOPT_CAINFO, ctl->tls_with.ca);
        curl_easy_setopt(curl, CURLOPT_CAPATH, NULL); /* no others */
    }
    if (ctl->tls_with.cert == NULL)
        return;
    curl_easy_setopt(curl, CURLOPT_SSLCERT, ctl->tls_with.cert);
    curl_easy_setopt(curl, CURLOPT_SSLKEY, ctl->tls_with.key);
    curl_easy_setopt(curl, CURLOPT_KEYPASSWD, ""); /* never asked for on a terminal */
}

static void set_curl_options(CURL *curl, const struct ctl *ctl, const char *method, const char *url,
                             int64_t timeout_ms)
{
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, ctl->tls ? "https" : "http");
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*"); /* a store is within the cluster */
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "rdzvctl/" RDZV_VERSION);
    if (ctl->unix_path != NULL)
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, ctl->unix_path);
    if (ctl->tls)
        set_tls(curl, ctl);
}

static enum http_fault fault_of(const struct ctl *ctl, CURLcode code, const char *words)
{
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CLIENTCERT:
    case CURLE_SSL_CACERT_BADFILE:
        return FAULT_TLS;
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_ABORTED_BY_CALLBACK: /* see on_progress() */
        return FAULT_LATE;
    case CURLE_RECV_ERROR: /* with TLS 1.3, a server judges a client's certificate this late */
        return ctl->tls && strstr(words, " alert ") != NULL ? FAULT_TLS : FAULT_SILENT;
    case CURLE_GOT_NOTHING:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return FAULT_SILENT;
    default:
        return ctl->tls && strstr(words, " alert ") != NULL ? FAULT_TLS : FAULT_CONNECTION;
    }
}

/* Curl's words for a refused connection name neither the cause nor the remedy. */
static void describe_failure(const struct ctl *ctl, CURL *curl, CURLcode code, const char *words,
                             struct http_failure *failure)
{
    const char *hint;
    long error = 0;

    if (words[0] == '\0')
        words = curl_easy_strerror(code);
    failure->fault = fault_of(ctl, code, words);
    curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &error);
    if (code == CURLE_COULDNT_CONNECT && error != 0)
        words = strerror((int)error);
    hint = failure->fault == FAULT_TLS ? tls_hint(words)->text : NULL;
    snprintf(failure->text, sizeof failure->text, "%s%s%s", words, hint == NULL ? "" : "; ",
             hint == NULL ? "" : hint);
}

/* --- What comes of a request: a whole answer, or events (server-sent) as they come. --- */

struct transfer {
    CURL *curl;
    http_event_fn *on_event; /* NULL: the whole answer is wanted */
    void *arg;
    char *bytes; /* of the answer so far; of a stream, those of an incomplete event. NUL behind */
    size_t len, room;
    bool is_ended; /* by on_event */
    bool has_begun;
    double ends_s; /* a stream must have begun by then */
    char words[CURL_ERROR_SIZE];
};

/* Curl calls this each second, even if no byte comes. If it is not 0, curl gives up. */
static int on_progress(void *arg, curl_off_t, curl_off_t, curl_off_t, curl_off_t)
{
    const struct transfer *t = arg;

    return !t->has_begun && ctl_now_s() >= t->ends_s;
}

static bool is_stream(CURL *curl)
{
    const char *type = NULL;
    long status = 0;

    curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return status == 200 && type != NULL && strncmp(type, "text/event-stream", 17) == 0;
}

/* The value of a field in the lines of an event; it gets a NUL behind it. NULL: there is none. */
static char *event_field(char *event, const char *name)
{
    size_t len = strlen(name);

    for (char *line = event; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0)
            return line + len;
    }
    return NULL;
}

/* Passes on the whole events, and keeps the rest. */
static void pass_on_events(struct transfer *t)
{
    char *at = t->bytes, *end;

    while (!t->is_ended && (end = strstr(at, "\n\n")) != NULL) {
        char nothing[1] = "", *name, *data;

        *end = '\0';
        name = event_field(at, "event: ");
        data = event_field(at, "data: ");
        if (name == NULL || data == NULL)
            name = data = nothing;
        name[strcspn(name, "\n")] = '\0';
        data[strcspn(data, "\n")] = '\0';
        t->is_ended = !t->on_event(t->arg, name, data);
        at = end + 2;
    }
    t->len -= (size_t)(at - t->bytes);
    memmove(t->bytes, at, t->len + 1);
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct transfer *t = arg;
    size_t len = size * count;

    t->has_begun = true;
    if (len > BODY_MAX - t->len)
        return 0;
    if (t->len + len + 1 > t->room) {
        t->room = 2 * (t->len + len + 1);
        t->bytes = ctl_memory(realloc(t->bytes, t->room));
    }
    memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
    t->bytes[t->len] = '\0';
    if (t->on_event != NULL && is_stream(t->curl) &&
        strstr(t->bytes + (t->len > len ? t->len - len - 1 : 0), "\n\n"))
        pass_on_events(t);
    return t->is_ended ? 0 : len;
}

/* The caller frees the bytes. */
static CURLcode transfer_run(struct transfer *t)
{
    t->bytes = ctl_memory(strdup(""));
    curl_easy_setopt(t->curl, CURLOPT_ERRORBUFFER, t->words);
    curl_easy_setopt(t->curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(t->curl, CURLOPT_WRITEDATA, t);
    return curl_easy_perform(t->curl);
}

static bool http_perform(const struct ctl *ctl, CURL *curl, struct http_answer *out,
                         struct http_failure *failure)
{
    struct transfer t = {.curl = curl};
    CURLcode code = transfer_run(&t);
    double connected = 0, answered = 0;
    struct curl_header *date;

    if (code != CURLE_OK) {
        describe_failure(ctl, curl, code, t.words, failure);
        free(t.bytes);
        return false;
    }
    out->body = t.bytes;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &out->status);
    curl_easy_getinfo(curl, CURLINFO_PRETRANSFER_TIME, &connected);
    curl_easy_getinfo(curl, CURLINFO_STARTTRANSFER_TIME, &answered);
    out->seconds = answered - connected;
    out->date = curl_easy_header(curl, "Date", 0, CURLH_HEADER, -1, &date) == CURLHE_OK
                    ? curl_getdate(date->value, NULL)
                    : -1;
    return true;
}

/* The caller ends it. False: a file that an option names is of no use. */
static bool http_begin(const struct ctl *ctl, const char *method, const char *path,
                       int64_t timeout_ms, struct call *call, struct http_failure *failure)
{
    char *url;

    *call = (struct call){.curl = ctl_memory(curl_easy_init())};
    *failure = (struct http_failure){0};
    url = url_of(ctl, path, call);
    set_curl_options(call->curl, ctl, method, url, timeout_ms);
    free(url);
    /* Curl's message about such a file names no option. */
    if (!ctl_check_tls_files(ctl, failure->text)) {
        failure->fault = FAULT_FILE;
        return false;
    }
    if (ctl->token_file != NULL && !add_token(ctl, &call->headers, failure))
        return false;
    curl_easy_setopt(call->curl, CURLOPT_HTTPHEADER, call->headers);
    curl_easy_setopt(call->curl, CURLOPT_CONNECT_TO, call->connect_to);
    return true;
}

bool http_try(const struct ctl *ctl, const char *method, const char *path, int64_t timeout_ms,
              struct http_answer *out, struct http_failure *failure)
{
    struct timespec now;
    struct call call;
    bool done;

    *out = (struct http_answer){0};
    done = http_begin(ctl, method, path, timeout_ms, &call, failure) &&
           http_perform(ctl, call.curl, out, failure);
    clock_gettime(CLOCK_REALTIME, &now);
    out->sent_us =
        (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - (int64_t)(out->seconds * 5e5);
    end_call(&call);
    return done;
}

/* Takes what stands behind `mark` until the end of the line. False: it is not there. */
static bool take_line(const char *text, const char *mark, char out[HTTP_READY_MAX])
{
    const char *at = strstr(text, mark);

    if (at != NULL)
        snprintf(out, HTTP_READY_MAX, "%.*s", (int)strcspn(at + strlen(mark), "\n"),
                 at + strlen(mark));
    return at != NULL;
}

/* A relay stays ready while its store is away, but the store's clients cannot be served then. */
static enum http_ready judge_ready(const struct http_answer *answer, char why[HTTP_READY_MAX])
{
    if (strstr(answer->body, "readyz check ") == NULL) {
        snprintf(why, HTTP_READY_MAX, "/readyz answers %ld: is it an rdzvd?", answer->status);
        return READY_UNKNOWN;
    }
    if (take_line(answer->body, "[-]", why))
        return READY_NOT;
    if (take_line(answer->body, "[+]upstream ok: ", why) &&
        strncmp(why, "connected to ", strlen("connected to ")) != 0)
        return READY_NOT;
    return READY_YES;
}

enum http_ready http_ready(const struct ctl *ctl, int64_t timeout_ms, char why[HTTP_READY_MAX])
{
    struct http_answer answer;
    struct http_failure failure;
    enum http_ready ready;

    why[0] = '\0';
    if (!http_try(ctl, "GET", "/readyz?verbose", timeout_ms, &answer, &failure)) {
        snprintf(why, HTTP_READY_MAX, "no answer over HTTP (%s)", failure.text);
        return READY_UNKNOWN;
    }
    ready = judge_ready(&answer, why);
    free(answer.body);
    return ready;
}

bool http_is_etcd(const struct ctl *ctl, int64_t timeout_ms)
{
    struct http_answer answer;
    struct http_failure failure;
    bool is_etcd;

    if (!http_try(ctl, "GET", "/version", timeout_ms, &answer, &failure))
        return false;
    is_etcd = strstr(answer.body, "\"etcdserver\"") != NULL;
    free(answer.body);
    return is_etcd;
}

/* Torch's own store answers over c10d only: PING since 2.5. */
static enum ctl_exit say_no_http(const struct ctl *ctl, const struct http_failure *failure)
{
    struct rdzv_client *c = NULL;
    bool is_store = store_new(ctl, READY_MS, &c) == RDZV_OK && rdzv_ping(c) == RDZV_OK;

    rdzv_client_free(c);
    return ctl_say(CTL_UNREACHABLE,
                   is_store
                       ? "torch's own store answers at %s (%s over HTTP): it has keys (`rdzvctl "
                         "keys`) and no status; to have one, start rdzvd in its place"
                       : "nothing at %s answers HTTP (%s): is it reached from here, and not "
                         "stopped? Torch's own store does not: is rdzvd there?",
                   ctl->server, failure->text);
}

/* The server has not answered in time: says why, if /readyz knows. */
static enum ctl_exit say_late(const struct ctl *ctl, const struct http_failure *failure)
{
    int64_t timeout_ms = ctl_timeout(ctl, READY_MS);
    char why[HTTP_READY_MAX];

    switch (http_ready(ctl, timeout_ms < READY_MS ? timeout_ms : READY_MS, why)) {
    case READY_NOT:
        return ctl_say(CTL_UNREACHABLE, "%s has not answered, since it is not ready: %s",
                       ctl->server, why);
    case READY_YES:
        return ctl_say(CTL_UNREACHABLE,
                       "%s has not answered in time, though it is ready: try a longer --timeout",
                       ctl->server);
    default:
        return say_no_http(ctl, failure);
    }
}

static enum ctl_exit say_failure(const struct ctl *ctl, const struct http_failure *failure)
{
    switch (failure->fault) {
    case FAULT_LATE:
        return say_late(ctl, failure);
    case FAULT_FILE:
        return ctl_say(CTL_USAGE, "%s", failure->text);
    case FAULT_TLS:
        return ctl_say(CTL_UNREACHABLE, "no TLS with %s: %s" STORE_TLS_OPTIONS, ctl->server,
                       failure->text);
    case FAULT_SILENT:
        return say_no_http(ctl, failure);
    default:
        return ctl_say(CTL_UNREACHABLE,
                       "no rdzvd at %s: %s; is it started with --listen? Use -s HOST:PORT",
                       ctl->server, failure->text);
    }
}

bool http_wants_tls(const struct ctl *ctl, const struct http_answer *answer)
{
    return !ctl->tls && answer->status == 400 && strstr(answer->body, "to an HTTPS server") != NULL;
}

/* How rdzvctl does what the store's message asks for in words of HTTP. */
static const char *remedy_text(enum ctl_exit code, const char *message)
{
    if (code == CTL_REFUSED)
        return "; with rdzvctl: -s unix:/PATH, or --token-file";
    return strstr(message, "see /readyz") != NULL ? "; with rdzvctl: health --ready" : "";
}

/* The store's message: {"message": "…"}, or plain text. */
static enum ctl_exit say_status(const struct ctl *ctl, const struct http_answer *answer)
{
    cJSON *json = cJSON_Parse(answer->body);
    const char *message = cJSON_GetStringValue(cJSON_GetObjectItem(json, "message"));
    enum ctl_exit code = answer->status == 404                            ? CTL_MISSING
                         : answer->status == 503                          ? CTL_MISSING
                         : answer->status == 400                          ? CTL_USAGE
                         : answer->status == 401 || answer->status == 403 ? CTL_REFUSED
                                                                          : CTL_FAILED;

    if (message == NULL && http_wants_tls(ctl, answer))
        message = HTTP_WANTS_TLS;
    if (message == NULL)
        message = answer->status != 404 ? answer->body
                  : http_is_etcd(ctl, ctl_timeout(ctl, READY_MS))
                      ? HTTP_IS_ETCD
                      : "it has no such path: is it an rdzvd of this version?";
    ctl_say(code, "%s: %.500s%s", ctl->server, message, remedy_text(code, message));
    cJSON_Delete(json);
    return code;
}

enum ctl_exit http_ask(const struct ctl *ctl, const char *method, const char *path,
                       struct http_answer *out)
{
    struct http_answer answer;
    struct http_failure failure;
    enum ctl_exit code;

    if (!http_try(ctl, method, path, ctl_timeout(ctl, TIMEOUT_MS), &answer, &failure))
        return say_failure(ctl, &failure);
    if (answer.status < 400) {
        *out = answer;
        return CTL_FINE;
    }
    code = say_status(ctl, &answer);
    free(answer.body);
    return code;
}

enum ctl_exit http_json(const struct ctl *ctl, const char *method, const char *path, cJSON **out)
{
    struct http_answer answer;
    enum ctl_exit code = http_ask(ctl, method, path, &answer);

    if (code != CTL_FINE)
        return code;
    *out = cJSON_Parse(answer.body);
    free(answer.body);
    if (*out == NULL)
        return ctl_say(CTL_FAILED, "%s answers %s without valid JSON: is it rdzvd?", ctl->server,
                       path);
    return CTL_FINE;
}

/* --- Server-sent events. --- */

#define SILENCE_MAX_S 10L

/* The result of a stream that the server has ended, or of an answer that is no stream. */
static enum ctl_exit say_end(const struct ctl *ctl, const struct transfer *t, CURLcode code)
{
    struct http_answer answer = {.body = t->bytes};
    struct http_failure failure = {0};

    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &answer.status);
    if (answer.status >= 400)
        return say_status(ctl, &answer);
    if (code == CURLE_OK && answer.status == 200 && !is_stream(t->curl))
        return ctl_say(CTL_FAILED, "%s does not answer with a stream: is it an rdzvd before 0.1?",
                       ctl->server);
    if (code == CURLE_OK)
        return ctl_say(CTL_UNREACHABLE, "%s has ended the stream", ctl->server);
    describe_failure(ctl, t->curl, code, t->words, &failure);
    return say_failure(ctl, &failure);
}

enum ctl_exit http_stream(const struct ctl *ctl, const char *path, http_event_fn *on_event,
                          void *arg)
{
    struct http_failure failure;
    struct call call;
    int64_t timeout_ms = ctl_timeout(ctl, TIMEOUT_MS);
    struct transfer t = {
        .on_event = on_event, .arg = arg, .ends_s = ctl_now_s() + (double)timeout_ms / 1000};
    enum ctl_exit result = CTL_FINE;
    CURLcode code;

    if (!http_begin(ctl, "GET", path, 0, &call, &failure)) {
        end_call(&call);
        return say_failure(ctl, &failure);
    }
    t.curl = call.curl;
    curl_easy_setopt(t.curl, CURLOPT_CONNECTTIMEOUT_MS, (long)timeout_ms);
    curl_easy_setopt(t.curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(t.curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(t.curl, CURLOPT_XFERINFODATA, &t);
    curl_easy_setopt(t.curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(t.curl, CURLOPT_LOW_SPEED_TIME, SILENCE_MAX_S);
    code = transfer_run(&t);
    if (!t.is_ended)
        result = say_end(ctl, &t, code);
    end_call(&call);
    free(t.bytes);
    return result;
}

char *http_path(const char *head, const char *name, const char *tail)
{
    char *escaped = name == NULL ? NULL : ctl_memory(curl_easy_escape(NULL, name, 0)), *path;

    if (asprintf(&path, "%s%s%s", head, escaped == NULL ? "" : escaped, tail == NULL ? "" : tail) <
        0)
        path = NULL;
    curl_free(escaped);
    return ctl_memory(path);
}
