/* The description of settings (settings.yaml) in the words of JSON Schema, for editors. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

#include <stdio.h>

/* Prints a schema (draft 7) of a user file with these settings. What it refuses, schema_check()
 * refuses, too; it knows the form of texts and numbers, and no rule about several settings. */
void json_schema_print(FILE *out, const struct yaml_node *settings);
