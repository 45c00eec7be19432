/* help and completion: texts that the build has made of the table of commands. */
#include <stdio.h>
#include <string.h>

#include "client/ctl/commands.h"

/* NULL: there is no such text. */
static const char *find_text(const char *kind, const char *name)
{
    for (const struct ctl_text *t = ctl_texts; t->text != NULL; t++) {
        if (strcmp(t->kind, kind) == 0 && strcmp(t->name, name) == 0)
            return t->text;
    }
    return NULL;
}

enum ctl_exit run_help(const struct ctl *ctl)
{
    const char *command = ctl->arg_count > 0 ? ctl->args[0] : "";
    const char *text = find_text("help", command);

    if (text == NULL)
        return ctl_say(CTL_USAGE, "there is no command %s: `rdzvctl help` lists them", command);
    if (ctl->man) {
        fputs(find_text("man", ""), stdout);
        return CTL_FINE;
    }
    fputs(text, stdout);
    if (ctl->arg_count > 0)
        printf("\nOptions of all commands:\n%s", find_text("options", ""));
    return CTL_FINE;
}

enum ctl_exit run_completion(const struct ctl *ctl)
{
    const char *shell = ctl->args[0], *text = find_text("completion", shell);

    if (text == NULL)
        return ctl_say(CTL_USAGE, "there is completion for bash, zsh and fish, not for %s", shell);
    fputs(text, stdout);
    return CTL_FINE;
}
