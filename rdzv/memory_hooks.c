/* Libraries take memory through the account. See memory_hooks.h for the contract. */
#include "rdzv/memory_hooks.h"

#include <cjson/cJSON.h>
#include <event2/event.h>
#include <malloc.h>
#include <openssl/crypto.h>

#include "proto/torch/torch_state.h"
#include "store/memory/account.h"

/* --- libevent. --- */

static void *loop_alloc(size_t len)
{
    return account_heap_alloc(ACCOUNT_LOOP, len);
}

static void *loop_realloc(void *old, size_t len)
{
    return account_heap_realloc(ACCOUNT_LOOP, old, len);
}

static void loop_free(void *p)
{
    account_heap_free(ACCOUNT_LOOP, p);
}

/* --- cJSON: trees of a request's body. --- */

static void *json_alloc(size_t len)
{
    return account_heap_request(ACCOUNT_INPUT, ACCOUNT_ORDINARY, len);
}

static void json_free(void *p)
{
    account_heap_free(ACCOUNT_INPUT, p);
}

/* --- States of torch's runs: the change that brings one has been let through already. --- */

static void *state_alloc(size_t len)
{
    return account_heap_request(ACCOUNT_RUNS, ACCOUNT_SMALL, len);
}

static void *state_grow(void *old, size_t count, size_t size)
{
    size_t len;

    if (__builtin_mul_overflow(count, size, &len))
        return NULL;
    return account_heap_resize(ACCOUNT_RUNS, ACCOUNT_SMALL, old, len);
}

static void state_free(void *p)
{
    account_heap_free(ACCOUNT_RUNS, p);
}

/* --- OpenSSL: a handshake, or a record. Small, since it holds no more than some of each. --- */

/* An idle connection has no buffers: OpenSSL takes one for each record that comes or goes, and
 * gives it back behind that (SSL_MODE_RELEASE_BUFFERS). Some are kept, so that malloc() is not
 * asked for 16 KiB each time. */
#define RECORD_LEAST ((size_t)16 << 10)
#define RECORD_ROOM  ((size_t)17 << 10)
#define RECORDS_KEPT 4
static void *records[RECORDS_KEPT];
static size_t record_count;

static bool is_record(size_t len)
{
    return len >= RECORD_LEAST && len <= RECORD_ROOM;
}

/* malloc() may give some bytes more. */
static bool has_room_of_record(void *p)
{
    size_t len = malloc_usable_size(p);

    return len >= RECORD_ROOM && len < RECORD_ROOM + 64;
}

static void *tls_alloc(size_t len, const char *file, int line)
{
    (void)file;
    (void)line;
    if (is_record(len)) {
        if (record_count > 0)
            return records[--record_count];
        len = RECORD_ROOM;
    }
    return account_heap_request(ACCOUNT_TLS, ACCOUNT_SMALL, len);
}

static void *tls_realloc(void *old, size_t len, const char *file, int line)
{
    (void)file;
    (void)line;
    return account_heap_resize(ACCOUNT_TLS, ACCOUNT_SMALL, old, len);
}

static void tls_release(void *p, const char *file, int line)
{
    (void)file;
    (void)line;
    if (p == NULL) /* often */
        return;
    if (record_count < RECORDS_KEPT && has_room_of_record(p))
        records[record_count++] = p;
    else
        account_heap_free(ACCOUNT_TLS, p);
}

void memory_hooks_give_back(void)
{
    while (record_count > 0)
        account_heap_free(ACCOUNT_TLS, records[--record_count]);
}

void memory_hooks_set(void)
{
    CRYPTO_set_mem_functions(tls_alloc, tls_realloc, tls_release);
    event_set_mem_functions(loop_alloc, loop_realloc, loop_free);
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = json_alloc, .free_fn = json_free});
    torch_state_set_memory(
        &(struct torch_memory){.alloc = state_alloc, .grow = state_grow, .free = state_free});
}
