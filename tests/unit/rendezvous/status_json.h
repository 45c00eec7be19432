/* The status of a run as JSON, and what two nodes "a" and "b" write: what the tests of the status
 * share. */
#pragma once

#include "tests/unit/rendezvous/scene.h"

#include <cjson/cJSON.h>

#include "rdzv/admin/run_status.h"
#include "rdzv/admin/status.h"

#define TEXT_MAX (1u << 20)

/* The status as text, borrowed until the next one. */
static inline const char *text_of(const struct run_facts *facts, const struct status_form *form)
{
    static uint8_t text[TEXT_MAX];
    struct writer w = {.ptr = text, .cap = sizeof text - 2};

    status_run_write(&w, facts, form);
    writer_u8(&w, '}');
    assert_true(w.len <= w.cap);
    text[w.len] = '\0';
    return (const char *)text;
}

static inline cJSON *json_of(const struct run_facts *facts)
{
    const struct status_form form = {.rounds = HISTORY_ROUNDS, .nodes = STATUS_NODES_LISTED};
    cJSON *json = cJSON_Parse(text_of(facts, &form));

    assert_non_null(json);
    return json;
}

static inline const cJSON *get(const cJSON *json, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(json, name);
}

static inline const char *str(const cJSON *json, const char *name)
{
    const char *text = cJSON_GetStringValue(get(json, name));

    return text == NULL ? "" : text;
}

/* -1: it is not there. */
static inline int num(const cJSON *json, const char *name)
{
    return cJSON_IsNumber(get(json, name)) ? get(json, name)->valueint : -1;
}

static inline int count(const cJSON *json, const char *name)
{
    return cJSON_GetArraySize(get(json, name));
}

static inline const cJSON *item(const cJSON *json, const char *name, int i)
{
    return cJSON_GetArrayItem(get(json, name), i);
}

static inline bool hints_at(const cJSON *json, const char *words)
{
    const cJSON *hint;

    cJSON_ArrayForEach(hint, get(json, "hints"))
    {
        if (strstr(hint->valuestring, words) != NULL)
            return true;
    }
    return false;
}

/* --- Writes. --- */

static inline void b_joins_for_a_last_call(struct scene *s, struct torch_state *st)
{
    scene_beat(st, "b", scene_now_us(s));
    scene_node(st, "b")->participant = true;
    st->has_deadline = true;
    st->deadline_us = scene_now_us(s) + 30 * SECOND;
}

static inline void it_is_complete(struct scene *s, struct torch_state *st)
{
    scene_beat(st, "a", scene_now_us(s) + 1);
    scene_complete(st);
}

static inline void a_closes(struct scene *s, struct torch_state *st)
{
    (void)s;
    st->closed = true;
}
