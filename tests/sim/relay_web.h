/* Clients of etcd's API in a simulated world: two clients create keys in order, one polls for
 * events, and one reads them as a stream. Whatever dies, an answered key exists once, an unanswered
 * key once at most, a refused key never; and a watch tells each of them once, in order, and leaves
 * none out, for as long as its connection lives. */
#pragma once

#include "tests/sim/world.h"

#define WEBS 4

/* A new world. */
void web_reset(void);

enum web_news {
    WEB_NOTHING,
    WEB_MOVED,
    WEB_ENDED, /* its connection has ended, or a stream: no answer was open but a watch's */
};

/* One step of a client; `asks`: it may ask for something new. */
enum web_news web_step(unsigned i, bool asks);

/* The process that it talks to. */
int web_home(unsigned i);

/* It goes, whatever is open; what it asked for, nobody knows. */
void web_leave(unsigned i);

/* Called after each step of the end: the first client lists all keys, and the events of all clients
 * are checked against the list. True when this is done and the polling client has seen all keys. */
bool web_judge(void);
