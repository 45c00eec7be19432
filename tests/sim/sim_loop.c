/* libevent as the servers of a simulated world know it: what is ready, and whose time has come, is
 * called in any order, and now and then only in a later pass. See world.h. */
#include <event2/event.h>
#include <event2/event_struct.h>

#include "store/memory/xalloc.h"
#include "tests/sim/world.h"

#define INITIALIZED 0x80
#define TIMED       0x01
#define INSERTED    0x02
#define EVENTS_MAX  256

struct event_base {
    struct event *items[EVENTS_MAX];
    size_t count;
    bool broken;
};

bool *loop_stop;

struct event_config *event_config_new(void)
{
    static int any;

    return (struct event_config *)(void *)&any;
}

void event_config_free(struct event_config *c)
{
    (void)c;
}

int event_config_set_flag(struct event_config *c, int flag)
{
    (void)c;
    return flag < 0;
}

void event_set_mem_functions(void *(*a)(size_t), void *(*r)(void *, size_t), void (*f)(void *))
{
    (void)a;
    (void)r;
    (void)f;
}

int evutil_make_socket_nonblocking(evutil_socket_t fd)
{
    return fd < 0 ? -1 : 0;
}

struct event_base *event_base_new_with_config(const struct event_config *c)
{
    (void)c;
    return xcalloc(1, sizeof(struct event_base));
}

void event_base_free(struct event_base *b)
{
    free(b);
}

int event_base_loopbreak(struct event_base *b)
{
    b->broken = true;
    return 0;
}

/* --- Events. --- */

int event_assign(struct event *e, struct event_base *b, evutil_socket_t fd, short what,
                 event_callback_fn call, void *arg)
{
    *e = (struct event){.ev_base = b, .ev_fd = fd, .ev_events = what};
    e->ev_evcallback.evcb_flags = INITIALIZED;
    e->ev_evcallback.evcb_cb_union.evcb_callback = call;
    e->ev_evcallback.evcb_arg = arg;
    return 0;
}

int event_initialized(const struct event *e)
{
    return (e->ev_evcallback.evcb_flags & INITIALIZED) != 0;
}

evutil_socket_t event_get_fd(const struct event *e)
{
    return e->ev_fd;
}

event_callback_fn event_get_callback(const struct event *e)
{
    return e->ev_evcallback.evcb_cb_union.evcb_callback;
}

static uint64_t ns_of(const struct timeval *t)
{
    return (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_usec * 1000;
}

static void set_timer(struct event *e)
{
    uint64_t at = world_now_ns + ns_of(&e->ev_.ev_io.ev_timeout);

    e->ev_timeout = (struct timeval){.tv_sec = (time_t)(at / 1000000000),
                                     .tv_usec = (suseconds_t)(at % 1000000000 / 1000)};
}

int event_add(struct event *e, const struct timeval *timeout)
{
    struct event_base *b = e->ev_base;

    if (timeout != NULL) {
        e->ev_.ev_io.ev_timeout = *timeout;
        e->ev_evcallback.evcb_flags |= TIMED;
        set_timer(e);
    }
    if ((e->ev_evcallback.evcb_flags & INSERTED) == 0) {
        if (b->count == EVENTS_MAX)
            world_fail("more than %d events", EVENTS_MAX);
        b->items[b->count++] = e;
    }
    e->ev_evcallback.evcb_flags |= INSERTED;
    return 0;
}

int event_del(struct event *e)
{
    struct event_base *b = e->ev_base;

    for (size_t i = 0; e->ev_evcallback.evcb_flags & INSERTED && i < b->count; i++) {
        if (b->items[i] == e) {
            b->items[i] = b->items[--b->count];
            break;
        }
    }
    e->ev_evcallback.evcb_flags &= (short)~(INSERTED | TIMED);
    return 0;
}

int event_pending(const struct event *e, short what, struct timeval *at)
{
    (void)at;
    return (e->ev_evcallback.evcb_flags & INSERTED) != 0 ? what : 0;
}

void event_active(struct event *e, int what, short calls)
{
    (void)e;
    (void)what;
    (void)calls;
    world_fail("event_active() is not simulated");
}

/* --- A pass. --- */

static short ready_of(const struct event *e)
{
    short what = 0;

    if ((e->ev_evcallback.evcb_flags & INSERTED) == 0)
        return 0;
    if (e->ev_evcallback.evcb_flags & TIMED && ns_of(&e->ev_timeout) <= world_now_ns)
        what |= EV_TIMEOUT;
    if (e->ev_fd >= 0 && (e->ev_events & EV_SIGNAL) == 0)
        what |= (short)(net_sim_ready(e->ev_fd) & e->ev_events);
    return what;
}

bool loop_is_ready(const struct event_base *b)
{
    for (size_t i = 0; i < b->count; i++) {
        if (ready_of(b->items[i]) != 0)
            return true;
    }
    return false;
}

uint64_t loop_next_ns(const struct event_base *b)
{
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < b->count; i++) {
        const struct event *e = b->items[i];

        if (e->ev_evcallback.evcb_flags & TIMED && ns_of(&e->ev_timeout) < next)
            next = ns_of(&e->ev_timeout);
    }
    return next;
}

static bool is_there(const struct event_base *b, const struct event *e)
{
    for (size_t i = 0; i < b->count; i++) {
        if (b->items[i] == e)
            return true;
    }
    return false;
}

static void call(struct event *e, short what)
{
    if ((e->ev_events & EV_PERSIST) == 0)
        event_del(e);
    else if (what & EV_TIMEOUT)
        set_timer(e);
    event_get_callback(e)(e->ev_fd, what, e->ev_evcallback.evcb_arg);
}

int event_base_loop(struct event_base *b, int flags)
{
    struct event *ready[EVENTS_MAX];
    size_t count = 0;

    (void)flags;
    b->broken = false;
    for (size_t i = 0; i < b->count; i++) {
        if (ready_of(b->items[i]) != 0)
            ready[count++] = b->items[i];
    }
    while (count > 0 && !b->broken) {
        size_t at = (size_t)draw(count);
        struct event *e = ready[at];

        ready[at] = ready[--count];
        if (!chance(8) && is_there(b, e) && ready_of(e) != 0)
            call(e, ready_of(e));
    }
    if (loop_stop != NULL)
        *loop_stop = true;
    return 0;
}
