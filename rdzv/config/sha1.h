/* SHA-1 (FIPS 180-4), which etcd derives its member and cluster ids with. For nothing that has to
 * withstand somebody who looks for collisions. */
#pragma once

#include "proto/bytes.h"

#define SHA1_SIZE 20

void sha1(struct slice in, uint8_t out[SHA1_SIZE]);
