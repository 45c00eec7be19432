/* Lists of networks. See cidr.h for the contract. */
#include "rdzv/config/config_internal.h"

#include <arpa/inet.h>
#include <string.h>

#include "proto/bytes.h"
#include "store/memory/xalloc.h"

static void clear_host_bits(struct cidr *c)
{
    for (size_t i = 0; i < 16; i++) {
        size_t kept = c->bits > 8 * i ? c->bits - 8 * i : 0;

        if (kept < 8)
            c->address[i] &= (uint8_t)(0xff00u >> kept);
    }
}

static bool parse_one(const char *text, struct cidr *out)
{
    const char *slash = strchr(text, '/');
    size_t host_len = strcspn(text, "/");
    char host[INET6_ADDRSTRLEN + 1] = "";
    struct cidr c = {.address = {[10] = 0xff, [11] = 0xff}};
    uint64_t most, bits;

    if (host_len >= sizeof host)
        return false;
    memcpy(host, text, host_len);
    if (inet_pton(AF_INET, host, c.address + 12) == 1)
        most = 32;
    else if (inet_pton(AF_INET6, host, c.address) == 1)
        most = 128;
    else
        return false;
    bits = most;
    if (slash != NULL && !slice_to_u64(slice_str(slash + 1), most, &bits))
        return false;
    c.bits = (uint8_t)(128 - most + bits);
    clear_host_bits(&c);
    *out = c;
    return true;
}

bool cidr_list_parse(const char *text, struct cidr_list *out)
{
    struct cidr_list list = {0};
    struct string_list parts = {0};
    bool ok = true;

    string_list_split(&parts, text);
    list.items = xcalloc(parts.count, sizeof *list.items);
    while (ok && list.count < parts.count) {
        ok = parse_one(parts.items[list.count], &list.items[list.count]);
        list.count++;
    }
    string_list_free(&parts);
    cidr_list_free(ok ? out : &list);
    if (ok)
        *out = list;
    return ok;
}

void cidr_list_free(struct cidr_list *list)
{
    free(list->items);
    *list = (struct cidr_list){0};
}

static bool cidr_has_address(const struct cidr *c, const uint8_t address[16])
{
    size_t whole = c->bits / 8, rest = c->bits % 8;

    return memcmp(c->address, address, whole) == 0 &&
           (rest == 0 || ((c->address[whole] ^ address[whole]) & (0xff00u >> rest) & 0xff) == 0);
}

bool cidr_list_has(const struct cidr_list *list, const uint8_t address[16])
{
    for (size_t i = 0; i < list->count; i++) {
        if (cidr_has_address(&list->items[i], address))
            return true;
    }
    return false;
}

/* --- --plaintext and --allow. --- */

const char *config_check_plaintext(struct config *c, const char *text)
{
    struct config_plaintext *p = &c->tls.plaintext_for;

    if (strcmp(text, "on") == 0 || strcmp(text, "off") == 0) {
        cidr_list_free(&p->networks);
        p->everybody = text[1] == 'n';
    } else if (strcmp(text, "loopback") == 0) {
        p->everybody = false;
        (void)cidr_list_parse("127.0.0.0/8,::1", &p->networks); /* as the default is */
    } else if (cidr_list_parse(text, &p->networks)) {
        p->everybody = false;
    } else {
        return "write on, loopback, off, or networks as in 10.0.0.0/8,fd00::/8";
    }
    return NULL;
}

const char *config_check_allow(struct config *c, const char *text)
{
    return cidr_list_parse(text, &c->allowed) ? NULL : "write networks, as in 10.0.0.0/8,fd00::/8";
}
