/* Writes trees as human-style YAML or as JSON; and single values on one line, for edits of
   files. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

/* Block style: indentation of two, lists not indented below their key, keys in the order of the
 * tree, no anchors, texts of several lines as `|` if YAML allows it, quotes if any reader could
 * take a text for something else. A comment stands above its node. Ends with a newline. */
char *yaml_write(struct arena *a, const struct yaml_node *root);
/* All documents of a list, with `---` between them. */
const char *yaml_write_documents(struct arena *a, const struct yaml_node *documents);

/* JSON in lines that are indented by `tab`, without a newline behind it. Integers keep all digits,
 * even if a double cannot hold them. */
char *yaml_write_json(struct arena *a, const struct yaml_node *root, const char *tab);

/* --- Strings as scalars. --- */

/* The text as a scalar that every reader takes for a string, in block and in flow style: quoted if
 * necessary. */
const char *scalar_text(struct arena *a, const char *text);

/* The text as it is written between double quotes, also in JSON. */
void scalar_add_quoted(struct buf *out, const char *text);
void scalar_add_string(struct buf *out, const char *text); /* with the quotes */

/* --- Nodes in flow style, on one line, for files that are written so: JSON is one of them. --- */

struct flow_style {
    bool json;   /* keys and strings in double quotes */
    bool spaced; /* { a: b } */
};

/* Prints the one node of a text in block style; with `bare` without the outer braces. False when
 * the text is no YAML. */
bool flow_print_block(struct buf *out, const char *block, struct flow_style style, bool bare);
