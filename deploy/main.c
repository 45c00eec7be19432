/* rdzv-manifest: finds the verb of the command line, and runs it. */
#include "deploy/verbs.h"
#include "deploy/yaml/diag.h"

#include <stdio.h>
#include <string.h>

static void print_help(FILE *out)
{
    fputs("rdzv-manifest writes, reads, rewrites and checks Kubernetes manifests of training jobs "
          "that meet at rdzvd.\n\n"
          "  rdzv-manifest VERB [ARGUMENT...]\n"
          "  rdzv-manifest VERB --help\n"
          "  rdzv-manifest --version\n\n",
          out);
    for (size_t i = 0; i < verb_count; i++)
        fprintf(out, "  %-8s  %s\n", verbs[i].name, verbs[i].summary);
    fputs("\nExit codes: 0 done; 1 check found something, emit --diff a difference, or rewrite "
          "--exit-code nothing to do; 2 the input or the arguments are wrong.\n",
          out);
}

/* Paragraphs, an empty line in front of each. */
static void print_paragraphs(const char *text)
{
    while (text != NULL) {
        const char *end = strstr(text, "\n\n");
        int len = end == NULL ? (int)strlen(text) : (int)(end - text);
        char paragraph[1000];

        snprintf(paragraph, sizeof paragraph, "%.*s", len, text);
        putchar('\n');
        text_wrap(stdout, NULL, 0, paragraph);
        text = end == NULL ? NULL : end + 2;
    }
}

static void print_options(const struct verb_option *o)
{
    for (putchar('\n'); o->name != NULL; o++) {
        char label[64];

        snprintf(label, sizeof label, "  %c%c%s--%s%s%s", o->letter ? '-' : ' ',
                 o->letter ? o->id : ' ', o->letter ? ", " : "  ", o->name,
                 o->value == NULL ? "" : " ", o->value == NULL ? "" : o->value);
        text_wrap(stdout, label, 30, o->help);
    }
}

static void print_verb(const struct verb *v)
{
    printf("rdzv-manifest %s %s\n", v->name, v->words);
    print_paragraphs(v->about);
    if (v->options->name != NULL)
        print_options(v->options);
    print_paragraphs(v->more);
}

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

    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(argc < 2 ? stderr : stdout);
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
            if (strcmp(argv[j], "--help") == 0 || strcmp(argv[j], "-h") == 0) {
                print_verb(&verbs[i]);
                return end_output(0);
            }
        }
        return end_output(verbs[i].run(argc - 1, argv + 1));
    }
    fprintf(stderr, "rdzv-manifest: there is no verb %s: ", name);
    fputs("see rdzv-manifest --help\n", stderr);
    return 2;
}
