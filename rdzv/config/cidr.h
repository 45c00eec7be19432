/* Lists of networks, as 10.0.0.0/8 or fd00::/8: read from a setting, asked of an address. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cidr {
    uint8_t address[16]; /* IPv6, or IPv4 mapped into it; zero behind the bits */
    uint8_t bits;        /* of those 128 */
};

/* Owned; cidr_list_free() frees and zeroes it. */
struct cidr_list {
    struct cidr *items;
    size_t count;
};

/* Commas between them, and blanks where one likes. An address alone is itself. False: one is none,
 * and *out is as it was. */
bool cidr_list_parse(const char *text, struct cidr_list *out);
void cidr_list_free(struct cidr_list *list);

/* `address` is as struct cidr has it. */
bool cidr_list_has(const struct cidr_list *list, const uint8_t address[16]);
