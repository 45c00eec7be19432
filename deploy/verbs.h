/* The verbs of rdzv-manifest. Each gets its own arguments, argv[0] being its name. It prints its
 * result to standard output and its errors and notes to standard error, and returns the exit code.
 * main() handles --help. */
#pragma once

int verb_emit(int argc, char **argv);
int verb_rewrite(int argc, char **argv);
int verb_check(int argc, char **argv);
int verb_list(int argc, char **argv);
int verb_explain(int argc, char **argv);

/* What `rdzv-manifest VERB --help` prints; each text is beside its verb. */
extern const char emit_help[];
extern const char rewrite_help[];
extern const char check_help[];
extern const char list_help[];
extern const char explain_help[];
