/* The functions to which the linker leads malloc() and its kin with -Wl,--wrap=malloc, and the real
 * ones. */
#pragma once

#include <stddef.h>

void *__wrap_malloc(size_t size);
void *__real_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);
void __wrap_free(void *p);
void __real_free(void *p);
char *__wrap_strdup(const char *s);
char *__real_strdup(const char *s);
void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, long offset);
void *__real_mmap64(void *at, size_t len, int prot, int flags, int fd, long offset);
