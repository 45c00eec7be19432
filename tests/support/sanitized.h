/* How much a test does under AddressSanitizer, where each step takes about ten times as long. */
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED
#endif

/* A test that lets one allocation fail after the other lets every one fail in a plain build. Under
 * a sanitizer it lets every 7th fail. */
#ifdef SANITIZED
#define ALLOCATION_STEP    7
#define SANITIZED_OR(a, b) (a)
#else
#define ALLOCATION_STEP    1
#define SANITIZED_OR(a, b) (b)
#endif
