/* The status page as it is sent. The build makes these, see page/join.py. */
#pragma once

#include <stddef.h>

extern const char page_headers[]; /* whole lines */
extern const char page_etag[];    /* one of these, in its quotes */
extern const char page_text[];    /* page_text_len bytes */
extern const size_t page_text_len;
