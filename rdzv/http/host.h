/* Which Host headers are answered. A web page can give its own name our address (DNS rebinding):
 * the browser then takes this daemon for a part of the page, and tells its scripts what it answers.
 * It still sends the page's name as Host, so a listener on loopback, which only this machine
 * reaches, answers to no names but its own. Pure. */
#pragma once

#include "proto/bytes.h"

struct string_list;

/* Is a Host header (with or without a port; empty when there is none) welcome? `allowed` is that
 * of --host-whitelist: with a list, its names alone are, as with etcd; `*` in it is any name. On
 * `loopback`, and for probes, numeric addresses and localhost are welcome beside them, and no other
 * names. */
bool http_host_is_welcome(struct slice host, const struct string_list *allowed, bool loopback);
