/* The verb emit: from user files to the documents of a job and its store. */
#include "deploy/diag.h"
#include "deploy/verbs.h"

#include <stdio.h>

const char emit_help[] = "rdzv-manifest emit [-f FILE...]\n";
const char list_help[] = "rdzv-manifest list [platforms|profiles|ways|settings]\n";
const char explain_help[] = "rdzv-manifest explain SETTING\n";

static int not_yet(void)
{
    struct diag d = {0};

    diag_error(&d, NULL, (struct yaml_mark){0}, "this verb is not built in: take a later version");
    diag_print(&d, stderr);
    diag_free(&d);
    return 2;
}

int verb_emit(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return not_yet();
}

int verb_list(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return not_yet();
}

int verb_explain(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return not_yet();
}
