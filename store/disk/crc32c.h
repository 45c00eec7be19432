/* CRC32C (Castagnoli), the checksum of the journal: by the processor's instruction where it has one
 * (x86-64 with SSE 4.2, arm64 with CRC), else by a table. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Goes on from the checksum of what stands before; that of nothing is 0. */
uint32_t crc32c(uint32_t before, const void *bytes, size_t len);

/* By a table, on any processor: for tests and measurements. */
uint32_t crc32c_by_table(uint32_t before, const void *bytes, size_t len);
