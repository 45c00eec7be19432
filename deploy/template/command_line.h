/* Command lines that people write into settings: as words, where no shell is needed, and as text
 * that Kubernetes hands on unchanged. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

/* The words of a line as a list, quotes and backslashes taken off as sh does. NULL when only a
 * shell can tell what it means: an active character outside of quotes, or quotes that do not end.
 */
struct yaml_node *command_line_split(struct arena *a, const struct yaml_node *line);

/* In commands, arguments and values of variables Kubernetes turns $(NAME) into a variable's value
 * and $$ into $. The text with what is needed so that it comes out as it was: the same node when
 * that is nothing. */
struct yaml_node *command_line_escape(struct arena *a, struct yaml_node *text);
