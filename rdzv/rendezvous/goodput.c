/* The time that a run spends with each part of its life. See history.h for the contract. */
#include "rdzv/rendezvous/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const goodput_names[GOODPUT_PARTS] = {
    [GOODPUT_TRAINS] = "training",   [GOODPUT_FIRST] = "first_nodes", [GOODPUT_LOST] = "lost_node",
    [GOODPUT_LEFT] = "node_left",    [GOODPUT_NEWCOMER] = "new_node", [GOODPUT_ORDER] = "operator",
    [GOODPUT_STORE] = "store_start",
};

int64_t goodput_spent_us(const struct goodput *g, enum goodput_part part, int64_t now_us)
{
    bool goes_on = g->since_us != 0 && g->now == part && now_us > g->since_us;

    return g->us[part] + (goes_on ? now_us - g->since_us : 0);
}

void goodput_end(struct goodput *g, int64_t now_us)
{
    g->us[g->now] = goodput_spent_us(g, g->now, now_us);
    g->since_us = 0;
    g->is_unsaved = true;
}

void goodput_enter(struct goodput *g, enum goodput_part part, int64_t now_us)
{
    if (g->since_us != 0 &&
        (part == g->now || (part != GOODPUT_TRAINS && g->now != GOODPUT_TRAINS)))
        return;
    goodput_end(g, now_us);
    g->now = part;
    g->since_us = now_us;
    g->times[part]++;
}

void goodput_skip(struct goodput *g, int64_t from_us, int64_t to_us)
{
    if (g->since_us != 0 && to_us > from_us && from_us >= g->since_us)
        g->since_us += to_us - from_us;
}

/* "PART SINCE", then of each part " SPENT TIMES". */
void goodput_save(struct goodput *g, char text[GOODPUT_TEXT_MAX])
{
    int len = snprintf(text, GOODPUT_TEXT_MAX, "%d %" PRId64, (int)g->now, g->since_us);

    for (int i = 0; i < GOODPUT_PARTS; i++)
        len += snprintf(text + len, (size_t)(GOODPUT_TEXT_MAX - len), " %" PRId64 " %" PRId64,
                        g->us[i], g->times[i]);
    g->is_unsaved = false;
}

void goodput_load(struct goodput *g, struct slice text)
{
    char copy[GOODPUT_TEXT_MAX] = "";
    struct goodput read = {0};
    const char *at = copy;
    int part, len;

    if (text.len < sizeof copy)
        memcpy(copy, text.ptr, text.len);
    if (sscanf(at, "%d %" SCNd64 "%n", &part, &read.since_us, &len) != 2 || part < 0 ||
        part >= GOODPUT_PARTS)
        return;
    read.now = (enum goodput_part)part;
    for (int i = 0; i < GOODPUT_PARTS; i++) {
        at += len;
        if (sscanf(at, "%" SCNd64 " %" SCNd64 "%n", &read.us[i], &read.times[i], &len) != 2)
            return;
    }
    *g = read;
}
