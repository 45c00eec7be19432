/* A scripted c10d client of a simulated world: it draws its requests, sends them as its socket
 * takes them, and hands each answer to the model. */
#pragma once

#include "tests/sim/relay_model.h"
#include "tests/sim/world.h"

#define OUT_MAX (32u << 10)
#define IN_MAX  16384

enum client_state {
    CLIENT_NONE,
    CLIENT_GREETS, /* until its PING is answered */
    CLIENT_IDLE,
    CLIENT_ASKED, /* one request is open, perhaps with its cancellation behind it */
    CLIENT_DONE,  /* has done all it wanted, and stays */
    CLIENT_ENDED, /* the other side has ended it */
};

struct scripted {
    enum client_state state;
    unsigned id;
    int home; /* the process that it talks to */
    int fd;
    int second;      /* a legacy client's other connection, on which nothing comes; -1: none */
    bool steady;     /* takes part in all barriers, and never leaves */
    bool legacy;     /* of torch 1.9 to 2.0 */
    bool is_late;    /* legacy: the WAIT that it has given up may still end */
    unsigned audits; /* that many clients; 0: it is one itself */
    unsigned left;   /* requests that it wants */
    unsigned rounds; /* barriers that it has entered */
    struct request asked;
    struct request given_up; /* that WAIT */
    bool canceled;
    const char
        *missing; /* a key that the store has lost: the client sends no more, and expects its end */
    size_t out_len, in_len;
    uint8_t out[OUT_MAX], in[IN_MAX];
};

/* False: nobody listens. */
bool scripted_begin(struct scripted *c, unsigned id, int home, unsigned requests, bool steady);
/* The same, as a legacy client: it says no PING, gives a WAIT up by its next request, and holds a
 * second connection, which it never uses. */
bool scripted_begin_legacy(struct scripted *c, unsigned id, int home, unsigned requests);
/* The same, and it asks for all that clients below `ids` may have written. */
void scripted_audit(struct scripted *c, unsigned id, int home, unsigned ids);

/* One step: sends some, takes what has come, asks anew. True: something was done. */
bool scripted_step(struct scripted *c, unsigned participants);

/* It goes, whatever is open. */
void scripted_leave(struct scripted *c);
