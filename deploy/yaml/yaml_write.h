/* Trees as text: YAML as a person would write it, and JSON. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

#include <stdio.h>

/* Block style, two spaces, lists not indented below their key, keys in the order of the tree, no
 * anchors; texts of several lines as `|` where YAML can; quotes where any reader could take a text
 * for something else. Comments are written above what they belong to. Ends with a newline. */
void yaml_write(FILE *out, const struct yaml_node *root);

/* The same as one scalar of a flow: quoted if it must be. */
void yaml_write_scalar(FILE *out, const struct yaml_node *scalar);

/* Indented JSON. Integers keep their digits, whatever a double can hold. */
void yaml_write_json(FILE *out, const struct yaml_node *root);
