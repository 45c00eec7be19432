/* HTTP basic credentials. See basic_auth.h.
 *
 * Upstream: Go 1.19, net/http parseBasicAuth() and encoding/base64 StdEncoding. */
#include "rdzv/basic_auth.h"

#include <strings.h>

/* -1: none of the 64. */
static int base64_value(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Padded base64; what the last bits say does not matter. */
static bool base64_decode(struct slice in, uint8_t *out, size_t *len)
{
    size_t padding = 0;

    if (in.len % 4 != 0)
        return false;
    while (padding < 2 && padding < in.len && in.ptr[in.len - 1 - padding] == '=')
        padding++;
    *len = 0;
    for (size_t at = 0; at < in.len; at += 4) {
        size_t digits = at + 4 < in.len ? 4 : 4 - padding;
        uint32_t bits = 0;

        for (size_t i = 0; i < 4; i++) {
            int value = i < digits ? base64_value(in.ptr[at + i]) : 0;

            if (value < 0)
                return false;
            bits = bits << 6 | (uint32_t)value;
        }
        for (size_t i = 0; i < digits - 1; i++)
            out[(*len)++] = (uint8_t)(bits >> (16 - 8 * i));
    }
    return true;
}

bool basic_auth_parse(struct slice header, uint8_t *out, struct slice *user, struct slice *password)
{
    static const char scheme[] = "Basic ";
    size_t scheme_len = sizeof scheme - 1, len;
    const uint8_t *colon;

    if (header.len < scheme_len || strncasecmp((const char *)header.ptr, scheme, scheme_len) != 0)
        return false;
    if (!base64_decode(slice_from(header, scheme_len), out, &len) || len == 0)
        return false;
    colon = memchr(out, ':', len);
    if (colon == NULL)
        return false;
    *user = (struct slice){out, (size_t)(colon - out)};
    *password = slice_from((struct slice){out, len}, user->len + 1);
    return true;
}
