/* Reads a file of endpoints. See endpoints_file.h for the contract. */
#include "rdzv/config/endpoints_file.h"

#include <stdio.h>
#include <string.h>

#include "rdzv/config/config_internal.h"

static bool fail(struct config_file_error *error, unsigned line, size_t column, const char *why)
{
    error->at = (struct config_place){line, (unsigned)column};
    snprintf(error->text, sizeof error->text, "%s", why);
    return false;
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* `line` from its first character on that is not blank, without a comment and what is blank at its
 * end; `*skipped` is how many were before. */
static struct slice trim(struct slice line, size_t *skipped)
{
    const uint8_t *comment = line.len == 0 ? NULL : memchr(line.ptr, '#', line.len);

    if (comment != NULL)
        line.len = (size_t)(comment - line.ptr);
    for (*skipped = 0; line.len > 0 && is_blank(line.ptr[0]); (*skipped)++)
        line = slice_from(line, 1);
    while (line.len > 0 && is_blank(line.ptr[line.len - 1]))
        line.len--;
    return line;
}

static bool add(struct endpoint_set *out, struct slice text)
{
    struct slice host;
    uint16_t port;

    if (!config_split_endpoint((const char *)text.ptr, text.len, &host, &port))
        return false;
    memcpy(out->hosts[out->count], host.ptr, host.len);
    out->hosts[out->count][host.len] = '\0';
    out->list[out->count] = (struct upstream_spec){.host = out->hosts[out->count], .port = port};
    out->count++;
    return true;
}

bool endpoints_file_parse(struct slice text, struct endpoint_set *out,
                          struct config_file_error *error)
{
    out->count = 0;
    if (text.len > ENDPOINTS_FILE_MAX)
        return fail(error, 1, 1, "the file is longer than 16 KiB");
    for (unsigned line = 1; text.len > 0; line++) {
        const uint8_t *end = memchr(text.ptr, '\n', text.len);
        size_t len = end == NULL ? text.len : (size_t)(end - text.ptr), skipped;
        struct slice one = trim((struct slice){text.ptr, len}, &skipped);

        if (one.len > 0 && out->count == ENDPOINTS_MAX)
            return fail(error, line, skipped + 1, "there are more than 32 endpoints");
        if (one.len > 0 && !add(out, one))
            return fail(error, line, skipped + 1,
                        "write HOST:PORT, one in a line, such as etcd-0.etcd:2379 or "
                        "[fd00::1]:2379");
        text = slice_from(text, end == NULL ? len : len + 1);
    }
    return out->count > 0 || fail(error, 1, 1, "there is no endpoint in the file");
}
