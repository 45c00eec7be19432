/* /v2/members and /v2/machines: a cluster of one, which cannot be changed, and its ids. */
#pragma once

#include "rdzv/config/config.h"
#include "rdzv/http/reply.h"

/* The ids that etcd derives from its peer URLs and its token. */
void etcd_ids(const struct config *config, uint64_t *member, uint64_t *cluster);

/* An id as etcd shows it; `text` ends up as a terminated string. */
void etcd_format_id(uint64_t id, char text[17]);

/* Answers any request whose path is /v2/members or below it. */
void etcd_members_handle(const struct http_request *r);
void etcd_machines_handle(const struct http_request *r);
