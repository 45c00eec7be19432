/* Members of JSON objects, each behind another: ,"name":value. */
#pragma once

#include <stdio.h>

#include "proto/json.h"

static inline void json_name(struct writer *w, const char *name)
{
    writer_str(w, ",\"");
    writer_str(w, name);
    writer_str(w, "\":");
}

static inline void json_member(struct writer *w, const char *name, struct slice text)
{
    json_name(w, name);
    json_string(w, text);
}

static inline void json_member_str(struct writer *w, const char *name, const char *text)
{
    json_member(w, name, slice_str(text));
}

static inline void json_member_u64(struct writer *w, const char *name, uint64_t value)
{
    json_name(w, name);
    json_u64(w, value);
}

static inline void json_member_i64(struct writer *w, const char *name, int64_t value)
{
    json_name(w, name);
    json_i64(w, value);
}

/* Microseconds since 1970. */
static inline void json_member_time(struct writer *w, const char *name, int64_t us)
{
    json_name(w, name);
    json_time_us(w, us);
}

/* The same, but for 0, which is no time. */
static inline void json_member_known(struct writer *w, const char *name, int64_t us)
{
    if (us != 0)
        json_member_time(w, name, us);
}

/* Microseconds as seconds with three digits. */
static inline void json_member_seconds(struct writer *w, const char *name, int64_t us)
{
    char text[32];

    snprintf(text, sizeof text, "%.3f", (double)us / 1e6);
    json_name(w, name);
    writer_str(w, text);
}
