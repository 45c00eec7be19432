/* set, add and delete: commands that change the store. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/print.h"
#include "client/ctl/run.h"
#include "client/ctl/store.h"
#include "client/ctl/text.h"

/* All of standard input; the caller frees it. NULL: it could not be read to its end, which was
 * said. */
static char *read_input(size_t *len)
{
    char *bytes = NULL, part[16384];
    size_t n;
    FILE *out = ctl_memory(open_memstream(&bytes, len));
    int error;

    while ((n = fread(part, 1, sizeof part, stdin)) > 0)
        ctl_memory(fwrite(part, 1, n, out) == n ? out : NULL);
    error = ferror(stdin) ? errno : 0;
    ctl_memory(fclose(out) == 0 ? bytes : NULL);
    if (error == 0)
        return bytes;
    ctl_say(CTL_FAILED, "standard input: %s; nothing was set", strerror(error));
    free(bytes);
    return NULL;
}

enum ctl_exit run_set(const struct ctl *ctl)
{
    struct rdzv_op op = {.kind = RDZV_SET, .key = store_text(ctl->args[0])};
    enum ctl_exit code = CTL_FINE;
    struct rdzv_client *c = store_open(ctl, &code);
    char *input = NULL;

    if (c == NULL)
        return code;
    op.value = store_text(ctl->args[1]);
    if (strcmp(ctl->args[1], "-") == 0) {
        input = read_input(&op.value.len);
        op.value.ptr = input;
        if (input == NULL) {
            rdzv_client_free(c);
            return CTL_FAILED;
        }
    }
    code = store_failed(c, rdzv_call(c, &op, NULL));
    free(input);
    rdzv_client_free(c);
    return code;
}

static bool parse_number(const char *text, int64_t *out)
{
    char *end;
    long long v;

    errno = 0;
    v = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0)
        return false;
    *out = v;
    return true;
}

enum ctl_exit run_add(const struct ctl *ctl)
{
    struct rdzv_op op = {.kind = RDZV_ADD, .key = store_text(ctl->args[0]), .number = 1};
    const struct rdzv_result *result;
    enum ctl_exit code = CTL_FINE;
    struct rdzv_client *c;

    if (ctl->arg_count > 1 && !parse_number(ctl->args[1], &op.number))
        return ctl_say(CTL_USAGE, "%s is no number of 64 bits", ctl->args[1]);
    c = store_open(ctl, &code);
    if (c == NULL)
        return code;
    code = store_failed(c, rdzv_call(c, &op, &result));
    if (code == CTL_FINE)
        printf("%lld\n", (long long)result->number);
    else if (code == CTL_UNREACHABLE)
        fputs("rdzvctl: a store closes the connection when the value is no number\n", stderr);
    rdzv_client_free(c);
    return code;
}

enum ctl_exit run_delete(const struct ctl *ctl)
{
    enum ctl_exit code = CTL_FINE;
    struct rdzv_client *c = store_open(ctl, &code);

    if (c == NULL)
        return code;
    for (size_t i = 0; i < ctl->arg_count && code <= CTL_MISSING; i++) {
        const struct rdzv_op op = {.kind = RDZV_DELETE, .key = store_text(ctl->args[i])};
        enum rdzv_status status = rdzv_call(c, &op, NULL);
        enum ctl_exit one = store_failed(c, status);

        if (status == RDZV_OK) {
            text_safe(stdout, ctl->args[i], strlen(ctl->args[i]), SIZE_MAX);
            putchar('\n');
        }
        code = one > code ? one : code;
    }
    rdzv_client_free(c);
    return code;
}
