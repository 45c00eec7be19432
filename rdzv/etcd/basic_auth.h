/* HTTP basic credentials as Go's net/http reads them. Pure. */
#pragma once

#include "proto/bytes.h"

/* Reads the value of an Authorization header into `out`, which needs header.len bytes; *user and
 * *password point there. False when it is none: another scheme, bad base64, no colon. */
bool basic_auth_parse(struct slice header, uint8_t *out, struct slice *user,
                      struct slice *password);
