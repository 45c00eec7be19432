/* HOST:PORT of settings. See endpoints.h for the contract. */
#include "rdzv/config/endpoints.h"

#include "rdzv/config/config_internal.h"
#include "store/memory/xalloc.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* One HOST:PORT, [ADDRESS]:PORT; false: it is none. `out` is a part of `text`, without brackets. */
static bool endpoint_split(const char *text, size_t len, struct slice *out, uint16_t *out_port)
{
    const char *colon = memrchr(text, ':', len), *host = text;
    size_t host_len = colon == NULL ? 0 : (size_t)(colon - text);
    uint16_t port;

    if (colon == NULL || !config_read_port(colon + 1, len - host_len - 1, &port) || port == 0)
        return false;
    if (host_len > 2 && host[0] == '[' && host[host_len - 1] == ']') {
        host++;
        host_len -= 2;
        if (!config_is_address(AF_INET6, host, host_len))
            return false;
    } else if (!config_is_host_name(host, host_len)) {
        return false;
    }
    *out = (struct slice){(const uint8_t *)host, host_len};
    *out_port = port;
    return true;
}

void config_free_endpoints(struct upstream_spec **list, size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        free((*list)[i].host);
    free(*list);
    *list = NULL;
    *count = 0;
}

bool config_read_endpoints(const char *text, const char *end, struct upstream_spec **list,
                           size_t *count)
{
    config_free_endpoints(list, count);
    for (;;) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        size_t len = (size_t)((comma == NULL ? end : comma) - text);
        struct slice host;
        uint16_t port;

        if (!endpoint_split(text, len, &host, &port))
            return false;
        *list = xrealloc(*list, (*count + 1) * sizeof **list);
        (*list)[(*count)++] = (struct upstream_spec){
            .host = config_copy_text((const char *)host.ptr, host.len), .port = port};
        if (comma == NULL)
            return true;
        text = comma + 1;
    }
}

/* --- A file of them. --- */

static bool fail_at_line(struct config_file_error *error, unsigned line, size_t column,
                         const char *why)
{
    error->at = (struct config_place){line, (unsigned)column};
    snprintf(error->text, sizeof error->text, "%s", why);
    return false;
}

static bool is_blank_byte(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts blanks at both ends of the line, and its comment; `*skipped` becomes the number of blanks at
 * the front. */
static struct slice trim_line(struct slice line, size_t *skipped)
{
    const uint8_t *comment = line.len == 0 ? NULL : memchr(line.ptr, '#', line.len);

    if (comment != NULL)
        line.len = (size_t)(comment - line.ptr);
    for (*skipped = 0; line.len > 0 && is_blank_byte(line.ptr[0]); (*skipped)++)
        line = slice_from(line, 1);
    while (line.len > 0 && is_blank_byte(line.ptr[line.len - 1]))
        line.len--;
    return line;
}

static bool add_endpoint(struct endpoint_set *out, struct slice text)
{
    struct slice host;
    uint16_t port;

    if (!endpoint_split((const char *)text.ptr, text.len, &host, &port))
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
        return fail_at_line(error, 1, 1, "the file is longer than 16 KiB");
    for (unsigned line = 1; text.len > 0; line++) {
        const uint8_t *end = memchr(text.ptr, '\n', text.len);
        size_t len = end == NULL ? text.len : (size_t)(end - text.ptr), skipped;
        struct slice one = trim_line((struct slice){text.ptr, len}, &skipped);

        if (one.len > 0 && out->count == ENDPOINTS_MAX)
            return fail_at_line(error, line, skipped + 1, "there are more than 32 endpoints");
        if (one.len > 0 && !add_endpoint(out, one))
            return fail_at_line(error, line, skipped + 1,
                                "write HOST:PORT, one in a line, such as etcd-0.etcd:2379 or "
                                "[fd00::1]:2379");
        text = slice_from(text, end == NULL ? len : len + 1);
    }
    return out->count > 0 || fail_at_line(error, 1, 1, "the file has no endpoint");
}
