/* The forms in which the verb check prints its findings and its rules. */
#pragma once

#include "deploy/check/check.h"

#include <stdio.h>

const char *check_severity_name(enum check_severity severity);

/* `file:line:column: severity: what [rule]`, with why and remedy. */
void check_print_text(FILE *out, const struct check *c);
void check_print_json(FILE *out, const struct check *c);
void check_print_sarif(FILE *out, struct check *c);
/* Commands that GitHub's runners show beside the lines of a pull request. */
void check_print_github(FILE *out, const struct check *c);
/* One line: the number of findings. */
void check_print_sum(FILE *out, const struct check *c);
/* All rules: what each finds, what breaks then, and how to mend it. */
void check_print_rules(FILE *out);
/* One rule; false if there is none of that name. */
bool check_print_rule(FILE *out, const char *id);
