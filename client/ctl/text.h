/* Texts that rdzvctl prints: ages, sizes, what came from elsewhere, names in short. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Bytes that others chose, so that they do nothing to a terminal: control characters and what is no
 * UTF-8 as \xNN, at most `most` bytes of it ("..." behind what is cut). */
void text_safe(FILE *out, const char *bytes, size_t len, size_t most);

/* True: it can be shown as it is; it is UTF-8 without control characters but tabs and line ends. */
bool text_is_plain(const char *bytes, size_t len);

/* Microseconds since 1970 of "2026-11-20T20:58:18.123456Z"; -1: it is no such time. */
int64_t text_time_us(const char *text);

/* "3s", "4m10s", "2h05m", "3d4h". */
void text_age(int64_t us, char *out, size_t size);

/* "512", "3.4 KiB", "1.2 GiB". */
void text_bytes(double bytes, char *out, size_t size);

/* Names in short: "node-[000-102,104-511]", "alpha", "node-7"; those that differ in their last
 * number alone go together, in order. `names` is sorted in place. Ends with "and N more" beyond
 * `most` pieces. */
void text_names(FILE *out, const char **names, size_t count, size_t most);
