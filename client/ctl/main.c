/* rdzvctl: looks into a rendezvous store, and tells whether it can be used. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/commands.h"
#include "proto/queue.h"

/* --- help and completion: texts that the build has made of the table of commands. --- */

/* NULL: there is no such text. */
static const char *find_text(const char *kind, const char *name)
{
    return FIND(t->text, for (const struct ctl_text *t = ctl_texts; t->text != NULL; t++),
                strcmp(t->kind, kind) == 0 && strcmp(t->name, name) == 0);
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

/* --- The command line. --- */

/* Colours are for terminals; see no-color.org. */
static bool wants_colour(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && (no == NULL || no[0] == '\0') && term != NULL &&
           strcmp(term, "dumb") != 0;
}

/* What was printed has to arrive, or a full disk would pass for an answer. */
static enum ctl_exit close_output(enum ctl_exit code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    return ctl_say(CTL_FAILED, "the answer cannot be written: %m");
}

int main(int argc, char **argv)
{
    struct ctl ctl;
    char error[600];
    enum ctl_exit code;

    if (!options_parse(argc, argv, getenv, &ctl, error, sizeof error))
        return (int)ctl_say(CTL_USAGE, "%s", error);
    if (ctl.command == NULL) {
        puts("rdzvctl " RDZV_VERSION);
        return (int)close_output(CTL_FINE);
    }
    ctl.colour = wants_colour();
    curl_global_init(CURL_GLOBAL_DEFAULT);
    code = ctl.command->run != NULL ? ctl.command->run(&ctl)
                                    : store_run(&ctl, ctl.command->run_over_c10d);
    curl_global_cleanup();
    return (int)close_output(code);
}
