/* Libraries take memory through the account. See memory_hooks.h for the contract. */
#include "rdzv/memory_hooks.h"

#include <cjson/cJSON.h>
#include <event2/event.h>
#include <openssl/crypto.h>

#include "proto/torch/torch_state.h"
#include "store/account.h"

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

static void *tls_alloc(size_t len, const char *file, int line)
{
    (void)file;
    (void)line;
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
    if (p != NULL) /* OpenSSL often has nothing to free */
        account_heap_free(ACCOUNT_TLS, p);
}

void memory_hooks_set(void)
{
    CRYPTO_set_mem_functions(tls_alloc, tls_realloc, tls_release);
    event_set_mem_functions(loop_alloc, loop_realloc, loop_free);
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = json_alloc, .free_fn = json_free});
    torch_state_set_memory(
        &(struct torch_memory){.alloc = state_alloc, .grow = state_grow, .free = state_free});
}
