/* Nodes in flow style, on one line, for files that are written so: JSON is one of them. */
#pragma once

#include "deploy/yaml/buf.h"
#include "deploy/yaml/yaml_doc.h"

struct flow_style {
    bool json;   /* keys and strings in double quotes */
    bool spaced; /* { a: b } */
};

void flow_print(struct buf *out, const struct yaml_node *n, struct flow_style style);

/* The one node of a text in block style, as flow_print would have it; with `bare` without the outer
 * braces. False when the text is no YAML. */
bool flow_print_block(struct buf *out, const char *block, struct flow_style style, bool bare);
