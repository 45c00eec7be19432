/* gRPC's framing on libnghttp2. See grpc_session.h for the contract. */
#include "rdzv/etcd3/grpc_session.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>

#include "store/memory/account.h"

#define STREAM_WINDOW (4 << 20)
#define LINK_WINDOW   (16 << 20)
#define HEADERS_MAX   16384

/* --- Memory. --- */

static void *session_heap_take(size_t len, void *)
{
    return account_heap_request(ACCOUNT_JOURNAL, ACCOUNT_SMALL, len);
}

static void session_heap_free(void *p, void *)
{
    account_heap_free(ACCOUNT_JOURNAL, p);
}

static void *session_heap_take_zeroed(size_t count, size_t len, void *)
{
    if (len != 0 && count > SIZE_MAX / len)
        return NULL;
    return account_heap_request_zeroed(ACCOUNT_JOURNAL, ACCOUNT_SMALL, count * len);
}

static void *session_heap_resize(void *old, size_t len, void *)
{
    return account_heap_resize(ACCOUNT_JOURNAL, ACCOUNT_SMALL, old, len);
}

/* --- What comes. --- */

static struct grpc_call *call_of(nghttp2_session *session, int32_t stream)
{
    return nghttp2_session_get_stream_user_data(session, stream);
}

static void note_status_text(struct grpc_call *call, const uint8_t *value, size_t len)
{
    size_t out = 0;

    for (size_t i = 0; i < len && out < GRPC_TEXT_MAX - 1; i++) {
        unsigned byte;

        if (value[i] == '%' && len - i > 2 &&
            sscanf((const char[]){(char)value[i + 1], (char)value[i + 2], '\0'}, "%2x", &byte) ==
                1) {
            call->text[out++] = (char)byte;
            i += 2;
        } else {
            call->text[out++] = (char)value[i];
        }
    }
    call->text[out] = '\0';
}

/* Wherever the two stand, in the headers or behind the body: servers differ. */
static int on_http2_header(nghttp2_session *session, const nghttp2_frame *frame,
                           const uint8_t *name, size_t name_len, const uint8_t *value,
                           size_t value_len, uint8_t, void *)
{
    struct grpc_call *call = call_of(session, frame->hd.stream_id);
    const struct slice key = {name, name_len};
    uint64_t number;

    if (call == NULL)
        return 0;
    if (slice_is(key, "grpc-status") && slice_to_u64((struct slice){value, value_len}, 99, &number))
        call->code = (int)number;
    else if (slice_is(key, "grpc-message"))
        note_status_text(call, value, value_len);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t, int32_t stream, const uint8_t *data,
                   size_t len, void *)
{
    struct grpc_call *call = call_of(session, stream);
    bool fits = call != NULL && len <= GRPC_ANSWER_MAX - call->in.len;

    if (call == NULL || (fits && stream_put(&call->in, (struct slice){data, len})))
        return 0;
    if (!fits)
        snprintf(call->text, sizeof call->text, "the answer is longer than %zu bytes",
                 GRPC_ANSWER_MAX);
    return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
}

/* If the stream was reset, its status does not count, even if a part of it has arrived. */
static int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *arg)
{
    struct grpc_call *call = call_of(session, stream);
    struct grpc *g = arg;

    if (call == NULL || g->session == NULL)
        return 0;
    nghttp2_session_set_stream_user_data(session, stream, NULL);
    if (error != NGHTTP2_NO_ERROR || call->code == GRPC_UNCLEAR) {
        call->code = GRPC_UNCLEAR;
        if (call->text[0] == '\0')
            snprintf(call->text, sizeof call->text, "the call was broken off: %s",
                     nghttp2_http2_strerror(error));
    }
    LIST_REMOVE(call, entry);
    LIST_INSERT_HEAD(&g->ended, call, entry);
    return 0;
}

bool grpc_session_takes_calls(const struct grpc *g)
{
    return nghttp2_session_check_request_allowed(g->session);
}

bool grpc_session_input(struct grpc *g, const uint8_t *bytes, size_t len)
{
    return nghttp2_session_mem_recv(g->session, bytes, len) == (ssize_t)len;
}

bool grpc_session_output(struct grpc *g, struct slice *out)
{
    const uint8_t *bytes;
    ssize_t len = nghttp2_session_mem_send(g->session, &bytes);

    if (len < 0)
        return false;
    *out = (struct slice){bytes, (size_t)len};
    return true;
}

void grpc_message(const struct grpc_call *call, struct grpc_answer *answer)
{
    const struct slice in = stream_bytes(&call->in);
    uint32_t len = 0;

    for (size_t i = 1; i < GRPC_FRAME && i < in.len; i++)
        len = len << 8 | in.ptr[i];
    if (in.len >= GRPC_FRAME && in.ptr[0] == 0 && len == in.len - GRPC_FRAME)
        answer->message = slice_from(in, GRPC_FRAME);
    else
        *answer = (struct grpc_answer){.code = GRPC_UNCLEAR, .text = "its answer is cut off"};
}

/* --- What goes. --- */

static ssize_t read_call_request(nghttp2_session *session, int32_t stream, uint8_t *to, size_t len,
                                 uint32_t *flags, nghttp2_data_source *, void *)
{
    struct grpc_call *call = call_of(session, stream);

    if (call == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (len >= call->request.len) {
        len = call->request.len;
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    memcpy(to, call->request.ptr, len);
    call->request = slice_from(call->request, len);
    return (ssize_t)len;
}

static nghttp2_nv make_header(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                        strlen(value), NGHTTP2_NV_FLAG_NONE};
}

bool grpc_session_submit(struct grpc *g, struct grpc_call *call, const char *path)
{
    const nghttp2_nv headers[] = {make_header(":method", "POST"),
                                  make_header(":scheme", g->ssl != NULL ? "https" : "http"),
                                  make_header(":path", path),
                                  make_header(":authority", g->where),
                                  make_header("content-type", "application/grpc"),
                                  make_header("te", "trailers"),
                                  make_header("token", g->token)};
    const size_t count = sizeof headers / sizeof headers[0];
    const nghttp2_data_provider body = {.read_callback = read_call_request};

    call->stream = nghttp2_submit_request(g->session, NULL, headers,
                                          g->token[0] == '\0' ? count - 1 : count, &body, call);
    return call->stream > 0;
}

void grpc_session_forget(struct grpc *g, struct grpc_call *call)
{
    if (g->session == NULL || call_of(g->session, call->stream) != call)
        return;
    nghttp2_session_set_stream_user_data(g->session, call->stream, NULL);
    nghttp2_submit_rst_stream(g->session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_CANCEL);
}

/* --- Beginning and end. --- */

static int set_up(struct grpc *g)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_MAX},
    };
    int error = nghttp2_submit_settings(g->session, NGHTTP2_FLAG_NONE, settings,
                                        sizeof settings / sizeof settings[0]);

    return error != 0 ? error
                      : nghttp2_session_set_local_window_size(g->session, NGHTTP2_FLAG_NONE, 0,
                                                              LINK_WINDOW);
}

bool grpc_session_begin(struct grpc *g)
{
    nghttp2_mem memory = {NULL, session_heap_take, session_heap_free, session_heap_take_zeroed,
                          session_heap_resize};
    nghttp2_session_callbacks *callbacks;

    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return false;
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_http2_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_client_new3(&g->session, callbacks, g, NULL, &memory) != 0)
        g->session = NULL;
    nghttp2_session_callbacks_del(callbacks);
    g->out = (struct slice){0};
    if (g->session != NULL && set_up(g) == 0)
        return true;
    grpc_session_end(g);
    return false;
}

/* The closed streams belong to no call any more. */
void grpc_session_end(struct grpc *g)
{
    nghttp2_session *session = g->session;

    g->session = NULL;
    nghttp2_session_del(session);
    g->out = (struct slice){0};
    g->broken = NULL;
}
