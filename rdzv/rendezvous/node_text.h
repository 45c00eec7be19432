/* Nodes of torch as text, for logs, the status and the history of a run. */
#pragma once

#include "proto/torch/torch_state.h"

#define NODE_TEXT_MAX 320

/* "host/pid/local id": how torch tells nodes apart. Returns `text`. */
const char *node_text(const struct torch_node *node, char text[NODE_TEXT_MAX]);

/* "host (pid N)" of that, for people. Returns `words`. */
const char *node_words(const char *node, char words[NODE_TEXT_MAX]);
