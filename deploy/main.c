/* rdzv-manifest: finds the verb of the command line, and runs it. */
#include "deploy/verbs.h"

#include <stdio.h>
#include <string.h>

static int end_output(int code)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("rdzv-manifest: the output could not be written\n", stderr);
        return 2;
    }
    return code;
}

int main(int argc, char **argv)
{
    const char *name = argc < 2 ? "--help" : argv[1];

    if (text_is(name, "--help", "-h", "help")) {
        fputs(verbs_help, argc < 2 ? stderr : stdout);
        return end_output(argc < 2 ? 2 : 0);
    }
    if (strcmp(name, "--version") == 0) {
        printf("rdzv-manifest %s\n", RDZV_VERSION);
        return end_output(0);
    }
    for (size_t i = 0; i < verb_count; i++) {
        if (strcmp(name, verbs[i].name) != 0)
            continue;
        for (int j = 2; j < argc && strcmp(argv[j], "--") != 0; j++) {
            if (text_is(argv[j], "--help", "-h")) {
                fputs(verbs[i].help, stdout);
                return end_output(0);
            }
        }
        return end_output(verbs[i].run(argc - 1, argv + 1));
    }
    fprintf(stderr, "rdzv-manifest: there is no verb %s: ", name);
    fputs("see rdzv-manifest --help\n", stderr);
    return 2;
}
