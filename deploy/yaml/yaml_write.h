/* Writes trees as YAML, as a person would write it, and as JSON. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

#include <stdio.h>

/* Writes block style: indentation of two, lists not indented below their key, keys in the order of
 * the tree, no anchors, texts of several lines as `|` if YAML allows it, quotes if any reader could
 * take a text for something else. A comment is written above its node. Ends with a newline. */
void yaml_write(FILE *out, const struct yaml_node *root);

/* Writes one scalar as in flow style: quoted if necessary. */
void yaml_write_scalar(FILE *out, const struct yaml_node *scalar);

/* Writes indented JSON. Integers keep all digits, even if a double cannot hold them. */
void yaml_write_json(FILE *out, const struct yaml_node *root);
