/* Command lines of the user file: split into words if no shell is needed, and escaped so that
 * Kubernetes passes them on unchanged. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

/* The words of a line as a list, without quotes and backslashes, as sh reads them. NULL if only a
 * shell can tell: there is an active character outside of quotes, or quotes that do not end. */
struct yaml_node *command_line_split(struct arena *a, const struct yaml_node *line);

/* What ends the first command of the line before the line ends: `&&`, `||`, `;`, `&`, `|` or
 * `newline`. NULL: the line is one command. Redirections, comments, continued lines, and what is
 * within quotes or a substitution, are parts of a command. */
const char *command_line_break(struct arena *a, const struct yaml_node *line);

/* The quote, or the beginning of a substitution, that the line does not close: `'`, `"`, a
 * backquote, `$(`, `${`, `<(` or `>(`. NULL: all are closed. */
const char *command_line_open(struct arena *a, const struct yaml_node *line);

/* The same of all commands of a script, and a backslash that continues its last line. NULL also of
 * a script with here-documents, which hold any text. */
const char *command_script_open(struct arena *a, const struct yaml_node *script);

/* In commands, arguments and values of variables, Kubernetes replaces $(NAME) by the value of a
 * variable, and $$ by $. Returns the text with each such $ doubled, so that Kubernetes gives back
 * the original; the same node if there is none. */
struct yaml_node *command_line_escape(struct arena *a, struct yaml_node *text);
