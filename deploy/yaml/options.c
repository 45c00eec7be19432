/* Names the option that getopt_long() refuses, and the one that was probably meant. */
#include "deploy/yaml/options.h"

#include "deploy/yaml/nearest.h"

#include <stdio.h>
#include <string.h>

static bool is_long(const struct option *options, int value)
{
    for (; options->name != NULL; options++) {
        if (options->val == value)
            return true;
    }
    return false;
}

static void refuse_unknown(const char *word, const char *verb, const struct option *options,
                           struct diag *d)
{
    struct nearest n = nearest_to(word + strspn(word, "-"));

    for (; options->name != NULL; options++)
        nearest_try(&n, options->name);
    if (n.found != NULL && word[1] == '-')
        options_error(d, "%s is no option of %s: did you mean --%s?", word, verb, n.found);
    else
        options_error(d, "%s is no option of %s: see rdzv-manifest %s --help", word, verb, verb);
}

int options_next(int argc, char **argv, const char *short_options, const struct option *options,
                 struct diag *d)
{
    char word[100];
    bool known;
    int c;

    opterr = 0;
    optopt = 0; /* then set for single letters, and for long options that are known */
    c = getopt_long(argc, argv, short_options, options, NULL);
    if (c != ':' && c != '?')
        return c;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(argv[optind - 1], "="), argv[optind - 1]);
    known = optopt != 0 && strncmp(word, "--", 2) == 0 && is_long(options, optopt);
    if (optopt != 0 && !known)
        snprintf(word, sizeof word, "-%c", optopt);
    if (c == ':')
        options_error(d, "%s needs a value: see rdzv-manifest %s --help", word, argv[0]);
    else if (known)
        options_error(d, "%s takes no value: remove the = and the value", word);
    else
        refuse_unknown(word, argv[0], options, d);
    return 0;
}
