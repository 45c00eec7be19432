/* librdzv in an event loop, here one of poll(): a client that waits for a key while another, in the
 * same thread, writes it a second later.
 *
 *     loop HOST:PORT KEY
 *
 * A loop of libevent, libuv or GLib does the same: watch rdzv_client_fd() for reading, call
 * rdzv_client_process() when it is readable. */
#include <rdzv_client.h>

#include <poll.h>
#include <stdio.h>
#include <string.h>

static void on_there(struct rdzv_request *r, const struct rdzv_result *result, void *arg)
{
    bool *done = arg;

    if (result->status == RDZV_OK)
        printf("the key is there\n");
    else
        fprintf(stderr, "%s: %s\n", rdzv_status_name(result->status), result->message);
    *done = true;
    rdzv_request_free(r);
}

static void on_written(struct rdzv_request *r, const struct rdzv_result *result, void *arg)
{
    (void)arg;
    printf("written: %s\n", rdzv_status_name(result->status));
    rdzv_request_free(r);
}

static int submit(struct rdzv_client *c, const struct rdzv_op *op)
{
    struct rdzv_request *r; /* its callback frees it */
    enum rdzv_status status = rdzv_submit(c, op, &r);

    if (status != RDZV_OK)
        fprintf(stderr, "%s\n", rdzv_status_name(status));
    return status == RDZV_OK ? 0 : -1;
}

static int run(struct rdzv_client *reader, struct rdzv_client *writer, const char *name)
{
    const struct rdzv_bytes key = {name, strlen(name)};
    bool done = false, written = false;
    const struct rdzv_op wait = {.kind = RDZV_WAIT,
                                 .keys = &key,
                                 .count = 1,
                                 .timeout_ms = 20000,
                                 .done = on_there,
                                 .arg = &done};
    const struct rdzv_op set = {
        .kind = RDZV_SET, .key = key, .value = {"go", 2}, .done = on_written};

    if (submit(reader, &wait) < 0)
        return 1;
    while (!done) {
        struct pollfd fds[] = {{.fd = rdzv_client_fd(reader), .events = POLLIN},
                               {.fd = rdzv_client_fd(writer), .events = POLLIN}};

        if (poll(fds, 2, 1000) == 0 && !written) {
            printf("still waiting\n");
            written = true;
            if (submit(writer, &set) < 0)
                return 1;
        }
        rdzv_client_process(reader);
        rdzv_client_process(writer);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct rdzv_client *reader = NULL, *writer = NULL;
    int code;

    if (argc != 3 || rdzv_client_new(argv[1], NULL, &reader) != RDZV_OK ||
        rdzv_client_new(argv[1], NULL, &writer) != RDZV_OK) {
        fprintf(stderr, "usage: loop HOST:PORT KEY\n");
        return 2;
    }
    code = run(reader, writer, argv[2]);
    rdzv_client_free(reader);
    rdzv_client_free(writer);
    return code;
}
