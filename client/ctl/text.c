/* Ages, sizes, safe text and names in short; see print.h. */
#include "client/ctl/print.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/utf8.h"

/* The length of the UTF-8 character at `s`, 0 if there is none or a terminal would obey it. */
static size_t text_character(const uint8_t *s, size_t len)
{
    uint32_t point = 0;
    size_t n = utf8_decode((struct slice){s, len}, &point);

    return point < ' ' || (point >= 0x7f && point < 0xa0) ? 0 : n;
}

void text_safe(FILE *out, const char *bytes, size_t len, size_t most)
{
    const uint8_t *s = (const uint8_t *)bytes;
    size_t shown = len < most ? len : most, n;

    for (size_t i = 0; i < shown; i += n) {
        n = text_character(s + i, len - i);
        if (n != 0) {
            fwrite(s + i, 1, n, out);
        } else {
            fprintf(out, "\\x%02x", s[i]);
            n = 1;
        }
    }
    if (shown < len)
        fputs("...", out);
}

void text_put(FILE *out, const char *text, size_t most)
{
    text_safe(out, text, text == NULL ? 0 : strlen(text), most);
}

bool text_is_plain(const char *bytes, size_t len)
{
    const uint8_t *s = (const uint8_t *)bytes;
    size_t n;

    for (size_t i = 0; i < len; i += n) {
        n = s[i] == '\n' || s[i] == '\t' ? 1 : text_character(s + i, len - i);
        if (n == 0)
            return false;
    }
    return true;
}

int64_t text_time_us(const char *text)
{
    struct tm tm = {0};
    int64_t us = 0, unit = 100000;
    const char *rest = text == NULL ? NULL : strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

    if (rest == NULL)
        return -1;
    if (*rest == '.') {
        for (rest++; *rest >= '0' && *rest <= '9'; rest++, unit /= 10)
            us += (*rest - '0') * unit;
    }
    return strcmp(rest, "Z") == 0 ? (int64_t)timegm(&tm) * 1000000 + us : -1;
}

struct short_text text_made(const char *format, ...)
{
    struct short_text out;
    va_list args;

    va_start(args, format);
    vsnprintf(out.text, sizeof out.text, format, args);
    va_end(args);
    return out;
}

struct short_text text_age(int64_t us)
{
    long long s = us < 0 ? 0 : us / 1000000;

    return s < 60      ? text_made("%llds", s)
           : s < 3600  ? text_made("%lldm%02llds", s / 60, s % 60)
           : s < 86400 ? text_made("%lldh%02lldm", s / 3600, s / 60 % 60)
                       : text_made("%lldd%lldh", s / 86400, s / 3600 % 24);
}

struct short_text text_bytes(double bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    size_t i = 0;

    if (bytes < 1024)
        return text_made("%.0f", bytes);
    for (bytes /= 1024; bytes >= 1024 && i < 3; i++)
        bytes /= 1024;
    return text_made("%.1f %s", bytes, units[i]);
}

/* --- Names in short. --- */

/* A name around its last number. */
struct split {
    const char *name;
    size_t head, digits; /* lengths; the tail is what is behind them */
    unsigned long long number;
};

static struct split split_name(const char *name)
{
    struct split s = {.name = name};
    size_t end = strlen(name), start;

    while (end > 0 && !(name[end - 1] >= '0' && name[end - 1] <= '9'))
        end--;
    for (start = end; start > 0 && name[start - 1] >= '0' && name[start - 1] <= '9'; start--)
        continue;
    if (end - start > 18)
        start = end - 18;                     /* what a number holds */
    s.head = end == 0 ? strlen(name) : start; /* of one without a number: all of it */
    s.digits = end - start;
    s.number = strtoull(name + start, NULL, 10);
    return s;
}

static const char *split_tail(const struct split *s)
{
    return s->name + s->head + s->digits;
}

static int by_family(const void *left, const void *right)
{
    const struct split *a = left, *b = right;
    int order = memcmp(a->name, b->name, a->head < b->head ? a->head : b->head);

    if (order == 0)
        order = (a->head > b->head) - (a->head < b->head);
    if (order == 0)
        order = strcmp(split_tail(a), split_tail(b));
    if (order == 0)
        order = (a->digits > b->digits) - (a->digits < b->digits);
    return order != 0 ? order : (a->number > b->number) - (a->number < b->number);
}

/* node-9 and node-10 are no family: numbers of different widths are not joined. */
static bool is_same_family(const struct split *a, const struct split *b)
{
    return a->head == b->head && a->digits == b->digits && memcmp(a->name, b->name, a->head) == 0 &&
           strcmp(split_tail(a), split_tail(b)) == 0;
}

/* "000-102,104-511" */
static void print_numbers(FILE *out, const struct split *s, size_t count)
{
    for (size_t i = 0, n; i < count; i += n) {
        const struct split *last = &s[i];

        for (n = 1; i + n < count && s[i + n].number <= last->number + 1; n++)
            last = &s[i + n];
        fprintf(out, "%s%.*s", i == 0 ? "" : ",", (int)s[i].digits, s[i].name + s[i].head);
        if (last->number > s[i].number)
            fprintf(out, "-%.*s", (int)last->digits, last->name + last->head);
    }
}

static void print_family(FILE *out, const struct split *s, size_t count)
{
    if (s[0].number == s[count - 1].number) {
        text_put(out, s->name, 100);
        if (count > 1)
            fprintf(out, " (%zu)", count);
        return;
    }
    text_safe(out, s->name, s->head, 100);
    fputc('[', out);
    print_numbers(out, s, count);
    fputc(']', out);
    text_put(out, split_tail(s), 100);
}

void text_names(FILE *out, const char *const *names, size_t count, size_t most)
{
    struct split *all = ctl_memory(calloc(count + 1, sizeof *all));
    size_t pieces = 0;

    for (size_t i = 0; i < count; i++)
        all[i] = split_name(names[i]);
    qsort(all, count, sizeof *all, by_family);
    for (size_t i = 0, n; i < count; i += n) {
        if (pieces++ == most) {
            fprintf(out, " and %zu more", count - i);
            break;
        }
        for (n = 1; i + n < count && is_same_family(&all[i], &all[i + n]); n++)
            continue;
        fputs(i == 0 ? "" : ", ", out);
        print_family(out, all + i, n);
    }
    free(all);
}
