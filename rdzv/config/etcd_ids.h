/* The ids that etcd derives from its peer URLs and its token, and their text. */
#pragma once

#include "rdzv/config/config.h"

/* The ids of the one member and of its cluster. */
void etcd_ids(const struct config *config, uint64_t *member, uint64_t *cluster);

/* An id as etcd shows it; `text` ends up as a terminated string. */
void etcd_format_id(uint64_t id, char text[17]);
