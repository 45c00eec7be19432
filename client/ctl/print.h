/* Answers of rdzvctl as JSON and YAML. */
#pragma once

#include <cjson/cJSON.h>
#include <stdio.h>

#include "client/ctl/ctl.h"

/* True: `-o json` or `-o yaml` was asked for, and `json` was printed so. */
bool print_structured(const struct ctl *ctl, const cJSON *json);

/* As one document of YAML: what a reader of YAML takes out is what was put in. */
void print_yaml(FILE *out, const cJSON *json);

/* {"key": KEY, "value": "…"}, or "base64" in place of value where it is no text of UTF-8. The
 * caller gives it to cJSON_Delete(). */
cJSON *print_pair(const char *key, size_t key_len, const char *value, size_t len);
