/* forget and clear: what only operators may do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/http.h"
#include "client/ctl/run.h"

#define SPACES "/rdzv/v1/spaces/"

/* With --yes, or when somebody at a terminal says so. */
static bool is_wanted(const struct ctl *ctl, const char *question)
{
    char answer[16];

    if (ctl->yes)
        return true;
    if (!isatty(STDIN_FILENO)) {
        ctl_say(CTL_USAGE, "%s Say so with --yes", question);
        return false;
    }
    fprintf(stderr, "%s [y/N] ", question);
    return fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y');
}

/* Takes `path`. */
static enum ctl_exit delete_path(const struct ctl *ctl, char *path, const char *what)
{
    struct http_answer answer;
    cJSON *json;
    enum ctl_exit code = http_ask(ctl, "DELETE", path, &answer);

    free(path);
    if (code != CTL_FINE)
        return code;
    json = cJSON_Parse(answer.body);
    printf("%s: %.0f keys removed\n", what,
           cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(json, "removed")));
    cJSON_Delete(json);
    free(answer.body);
    return CTL_FINE;
}

enum ctl_exit run_forget(const struct ctl *ctl)
{
    const char *space = ctl->space != NULL ? ctl->space : "default";
    char question[512], *in_space, *path;

    snprintf(question, sizeof question,
             "Forget the run %.200s of the space %.100s at %.100s, and end its agents?",
             ctl->args[0], space, ctl->server);
    if (!is_wanted(ctl, question))
        return CTL_USAGE;
    in_space = http_path(SPACES, space, "/runs/");
    path = http_path(in_space, ctl->args[0], NULL);
    free(in_space);
    return delete_path(ctl, path, ctl->args[0]);
}

enum ctl_exit run_clear(const struct ctl *ctl)
{
    char question[512];

    snprintf(question, sizeof question, "Remove all keys of the space %.200s at %.100s?",
             ctl->args[0], ctl->server);
    if (!is_wanted(ctl, question))
        return CTL_USAGE;
    return delete_path(ctl, http_path(SPACES, ctl->args[0], NULL), ctl->args[0]);
}
