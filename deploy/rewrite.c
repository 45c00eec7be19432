/* The verb rewrite: its place, until the verb comes. */
#include "deploy/verbs.h"

#include <stdio.h>

const char rewrite_help[] = "rdzv-manifest rewrite FILE...\n";

int verb_rewrite(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fputs("rdzv-manifest: rewrite is not built in: take a later version\n", stderr);
    return 2;
}
