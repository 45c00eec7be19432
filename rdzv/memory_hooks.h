/* What libraries take of memory goes through the account (store/memory/account.h), too. */
#pragma once

/* Once, before any of them has taken some; again does nothing. libevent's is counted alone: it
 * grows with connections, which are refused before. OpenSSL, cJSON and the reader of torch's
 * states are refused what is over the limit. */
void memory_hooks_set(void);

/* No connection is left: the buffers that were kept for their records are given back. */
void memory_hooks_give_back(void);
