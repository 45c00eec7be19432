/* CRC32C by instruction or by tables. See crc32c.h for the contract. */
#include "store/disk/crc32c.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#define POLYNOMIAL 0x82f63b78u /* reflected */

/* table[k][b]: the checksum of the byte b with k zero bytes behind it. */
static uint32_t table[8][256];

__attribute__((constructor)) static void fill_tables(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;

        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
        table[0][b] = crc;
    }
    for (int k = 1; k < 8; k++) {
        for (int b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
    }
}

static uint64_t load_le64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

static uint32_t step_by_table(uint32_t crc, uint64_t v)
{
    v ^= crc;
    return table[7][v & 0xff] ^ table[6][v >> 8 & 0xff] ^ table[5][v >> 16 & 0xff] ^
           table[4][v >> 24 & 0xff] ^ table[3][v >> 32 & 0xff] ^ table[2][v >> 40 & 0xff] ^
           table[1][v >> 48 & 0xff] ^ table[0][v >> 56];
}

uint32_t crc32c_by_tables(uint32_t before, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    uint32_t crc = ~before;

    for (; len >= 8; len -= 8, p += 8)
        crc = step_by_table(crc, load_le64(p));
    for (; len > 0; len--, p++)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xff];
    return ~crc;
}

#if defined(__x86_64__)

#define HARDWARE_NAME "sse4.2"

static bool has_hardware(void)
{
    return __builtin_cpu_supports("sse4.2");
}

__attribute__((target("sse4.2"))) static uint32_t by_hardware(uint32_t before, const uint8_t *p,
                                                              size_t len)
{
    uint64_t crc = (uint32_t)~before;

    for (; len >= 8; len -= 8, p += 8)
        crc = __builtin_ia32_crc32di(crc, load_le64(p));
    for (; len > 0; len--, p++)
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *p);
    return ~(uint32_t)crc;
}

#elif defined(__aarch64__)

#define HARDWARE_NAME "arm64"
#define HWCAP_HAS_CRC (1ul << 7) /* HWCAP_CRC32 of the kernel's asm/hwcap.h */

static unsigned long hwcap;

__attribute__((constructor)) static void read_hwcap(void)
{
    hwcap = getauxval(AT_HWCAP);
}

static bool has_hardware(void)
{
    return (hwcap & HWCAP_HAS_CRC) != 0;
}

/* As assembly, since compilers name their own functions for it differently. */
static uint32_t by_hardware(uint32_t before, const uint8_t *p, size_t len)
{
    uint32_t crc = ~before;

    for (; len >= 8; len -= 8, p += 8)
        __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(load_le64(p)));
    for (; len > 0; len--, p++)
        __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)*p));
    return ~crc;
}

#else

#define HARDWARE_NAME "tables"

static bool has_hardware(void)
{
    return false;
}

static uint32_t by_hardware(uint32_t before, const uint8_t *p, size_t len)
{
    return crc32c_by_tables(before, p, len);
}

#endif

uint32_t crc32c(uint32_t before, const void *bytes, size_t len)
{
    return has_hardware() ? by_hardware(before, bytes, len) : crc32c_by_tables(before, bytes, len);
}

const char *crc32c_kind(void)
{
    return has_hardware() ? HARDWARE_NAME : "tables";
}
