/* Names the option that getopt_long() refuses, and the one that was probably meant. */
#include "deploy/yaml/options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void refuse_unknown(const char *word, const char *verb, const struct option *names,
                           struct diag *d)
{
    struct nearest n = nearest_to(word + strspn(word, "-"));

    for (; names->name != NULL; names++)
        nearest_try(&n, names->name);
    if (n.found != NULL && word[1] == '-')
        options_error(d, "%s is no option of %s: did you mean --%s?", word, verb, n.found);
    else
        options_error(d, "%s is no option of %s: see rdzv-manifest %s --help", word, verb, verb);
}

int options_next(int argc, char **argv, const struct verb_options *options, struct diag *d)
{
    const struct option *known = options->names;
    char word[100];
    int c;

    opterr = 0;
    optopt = 0; /* getopt_long() sets it for single letters, and for known long options */
    c = getopt_long(argc, argv, options->letters, options->names, NULL);
    if (c != ':' && c != '?')
        return c;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(argv[optind - 1], "="), argv[optind - 1]);
    while (known->name != NULL && (known->val != optopt || strncmp(word, "--", 2) != 0))
        known++;
    if (optopt != 0 && known->name == NULL)
        snprintf(word, sizeof word, "-%c", optopt);
    if (c == ':')
        options_error(d, "%s needs a value: see rdzv-manifest %s --help", word, argv[0]);
    else if (known->name != NULL)
        options_error(d, "%s takes no value: remove the = and the value", word);
    else
        refuse_unknown(word, argv[0], options->names, d);
    return 0;
}

size_t options_files(int argc, char **argv, char ***files, struct diag *d)
{
    static char *stream[] = {"-"};

    *files = argv + optind;
    if (argc > optind)
        return (size_t)(argc - optind);
    *files = stream; /* behind helm */
    if (isatty(STDIN_FILENO) == 0)
        return 1;
    options_error(d, "no file is given: name manifests, or - for the standard input");
    return 0;
}
