/* HTTP basic credentials. See basic_auth.h.
 *
 * Upstream: Go 1.19, net/http parseBasicAuth() and encoding/base64 StdEncoding. */
#include "rdzv/etcd/basic_auth.h"

#include <strings.h>

#include "proto/base64.h"

bool basic_auth_parse(struct slice header, uint8_t *out, struct slice *user, struct slice *password)
{
    static const char scheme[] = "Basic ";
    size_t scheme_len = sizeof scheme - 1, len;
    const uint8_t *colon;

    if (header.len < scheme_len || strncasecmp((const char *)header.ptr, scheme, scheme_len) != 0)
        return false;
    if (!base64_decode(slice_from(header, scheme_len), false, out, &len) || len == 0)
        return false;
    colon = memchr(out, ':', len);
    if (colon == NULL)
        return false;
    *user = (struct slice){out, (size_t)(colon - out)};
    *password = slice_from((struct slice){out, len}, user->len + 1);
    return true;
}
