/* The status page, GET /: one HTML file that shows /rdzv/v1/status as it changes. Its sources are
 * in page/; a relay has it, too, so that it opens while the store is away. */
#pragma once

#include "rdzv/http/reply.h"

void admin_page_handle(const struct http_request *r);
