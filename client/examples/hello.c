/* The calls of librdzv that block: one store, some keys.
 *
 *     hello HOST:PORT
 *
 * Build it with `cc hello.c $(pkg-config --cflags --libs rdzv)`. */
#include <rdzv_client.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(struct rdzv_client *c, enum rdzv_status status)
{
    if (status == RDZV_OK)
        return;
    fprintf(stderr, "%s: %s\n", rdzv_status_name(status), rdzv_client_message(c));
    exit(1);
}

int main(int argc, char **argv)
{
    const char *const greeting = "hello/greeting";
    const struct rdzv_options options = {.timeout_ms = 10000};
    struct rdzv_client *c;
    int64_t visits;
    char *value;
    size_t len;

    if (argc != 2 || rdzv_client_new(argv[1], &options, &c) != RDZV_OK) {
        fprintf(stderr, "usage: hello HOST:PORT\n");
        return 2;
    }

    must(c, rdzv_set(c, greeting, "bonjour", strlen("bonjour")));
    must(c, rdzv_wait(c, &greeting, 1, 5000)); /* it is there: returns at once */
    must(c, rdzv_get(c, greeting, &value, &len));
    must(c, rdzv_add(c, "hello/visits", 1, &visits));
    printf("%s, visit %lld (%zu bytes)\n", value, (long long)visits, len);
    free(value);

    if (rdzv_get(c, "hello/nothing", NULL, NULL) == RDZV_ABSENT)
        printf("%s\n", rdzv_client_message(c));

    must(c, rdzv_delete(c, greeting));
    rdzv_client_free(c);
    return 0;
}
