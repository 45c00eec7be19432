/* rdzv-manifest: finds the verb of the command line, and runs it. */
#include "deploy/verbs.h"

#include <stdio.h>
#include <string.h>

static const struct verb {
    const char *name, *help;
    int (*run)(int argc, char **argv);
    const char *summary;
} verbs[] = {
    {"emit", emit_help, verb_emit, "makes the manifests of a job and its store from a user file"},
    {"rewrite", rewrite_help, verb_rewrite,
     "puts rdzvd into manifests with an etcd, or with a store in worker 0"},
    {"check", check_help, verb_check, "finds in manifests what is known to break the rendezvous"},
    {"list", list_help, verb_list,
     "lists platforms, profiles, placements, formats, settings and rules"},
    {"explain", explain_help, verb_explain, "shows all about one setting, or one rule of check"},
};

#define VERB_COUNT (sizeof verbs / sizeof *verbs)

static void print_help(FILE *out)
{
    fputs("rdzv-manifest writes, rewrites and checks Kubernetes manifests of training jobs that "
          "meet at rdzvd.\n\n"
          "  rdzv-manifest VERB [ARGUMENT...]\n"
          "  rdzv-manifest VERB --help\n"
          "  rdzv-manifest --version\n\n",
          out);
    for (size_t i = 0; i < VERB_COUNT; i++)
        fprintf(out, "  %-8s  %s\n", verbs[i].name, verbs[i].summary);
    fputs("\nExit codes: 0 done; 1 nothing to do, or findings; 2 the input or the arguments are "
          "wrong.\n",
          out);
}

static int end(int code)
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

    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(argc < 2 ? stderr : stdout);
        return end(argc < 2 ? 2 : 0);
    }
    if (strcmp(name, "--version") == 0) {
        printf("rdzv-manifest %s\n", RDZV_VERSION);
        return end(0);
    }
    for (size_t i = 0; i < VERB_COUNT; i++) {
        if (strcmp(name, verbs[i].name) != 0)
            continue;
        for (int j = 2; j < argc && strcmp(argv[j], "--") != 0; j++) {
            if (strcmp(argv[j], "--help") == 0 || strcmp(argv[j], "-h") == 0) {
                fputs(verbs[i].help, stdout);
                return end(0);
            }
        }
        return end(verbs[i].run(argc - 1, argv + 1));
    }
    fprintf(stderr, "rdzv-manifest: there is no verb %s: ", name);
    fputs("see rdzv-manifest --help\n", stderr);
    return 2;
}
