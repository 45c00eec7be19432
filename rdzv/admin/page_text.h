/* The status page as it is sent. The build makes these, see page/join.py. */
#pragma once

#include <stddef.h>

extern const char page_policy[]; /* Content-Security-Policy */
extern const char page_etag[];   /* in its quotes */
extern const char page_text[];   /* page_text_len bytes */
extern const size_t page_text_len;
