/* Clients of etcd's API in a simulated world: two create keys in order, one polls what comes, and
 * one has it streamed. Whatever dies, a key that was answered is there once, one of which nobody
 * knows once at most, one that was refused never; and a watch tells each of them once, in order,
 * and leaves none out, for as long as its connection lives. */
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

/* At the end, after each step: the first client reads all there is, and it is judged what all of
 * them have seen. True: that was done, and the one who polls has heard of all. */
bool web_judge(void);
