/* CRC32C by instruction or by a table. See crc32c.h for the contract. */
#include "store/disk/crc32c.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#define POLYNOMIAL 0x82f63b78u /* reflected */

/* The checksum of each byte. */
static uint32_t table[256];

__attribute__((constructor)) static void fill_table(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;

        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
        table[b] = crc;
    }
}

uint32_t crc32c_by_table(uint32_t before, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    uint32_t crc = ~before;

    for (; len > 0; len--, p++)
        crc = crc >> 8 ^ table[(crc ^ *p) & 0xff];
    return ~crc;
}

static inline uint64_t load_le64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

#if defined(__x86_64__)

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

#define has_hardware() false
#define by_hardware    crc32c_by_table

#endif

uint32_t crc32c(uint32_t before, const void *bytes, size_t len)
{
    return has_hardware() ? by_hardware(before, bytes, len) : crc32c_by_table(before, bytes, len);
}
