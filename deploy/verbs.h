/* The verbs of rdzv-manifest. Each gets its own arguments, argv[0] being its name, prints to
 * standard output what was asked for and to standard error what is to be said about it, and returns
 * the exit code. main() has taken --help already. */
#pragma once

int verb_emit(int argc, char **argv);
int verb_rewrite(int argc, char **argv);
int verb_check(int argc, char **argv);
int verb_list(int argc, char **argv);
int verb_explain(int argc, char **argv);

/* What `rdzv-manifest VERB --help` prints, each beside its verb. */
extern const char emit_help[];
extern const char rewrite_help[];
extern const char check_help[];
extern const char list_help[];
extern const char explain_help[];
