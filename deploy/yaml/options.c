/* Names the option that getopt_long() refuses, and the one that was probably meant. */
#include "deploy/yaml/options.h"

#include "deploy/yaml/diag.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The table as getopt_long() wants it: `letters` begins with `:`, so that a lacking value is told
 * from an unknown option. */
static void make_tables(const struct verb_option *options, struct option *names, char *letters)
{
    *letters++ = ':';
    for (; options->name != NULL; options++) {
        *names++ =
            (struct option){options->name, options->value == NULL ? no_argument : required_argument,
                            NULL, options->id};
        if (!options->letter)
            continue;
        *letters++ = (char)options->id;
        if (options->value != NULL)
            *letters++ = ':';
    }
    *names = (struct option){0};
    *letters = '\0';
}

static void refuse_unknown(const char *word, const char *verb, const struct verb_option *options,
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

int options_next(int argc, char **argv, const struct verb_option *options, struct diag *d)
{
    struct option names[OPTIONS_MAX + 1];
    char letters[2 * OPTIONS_MAX + 2], word[100];
    size_t count = 0;
    bool known;
    int c;

    while (options[count].name != NULL)
        count++;
    assert(count <= OPTIONS_MAX);
    make_tables(options, names, letters);
    opterr = 0;
    optopt = 0; /* getopt_long() sets it for single letters, and for known long options */
    c = getopt_long(argc, argv, letters, names, NULL);
    if (c != ':' && c != '?')
        return c;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(argv[optind - 1], "="), argv[optind - 1]);
    known = false;
    for (size_t i = 0; i < count && optopt != 0 && strncmp(word, "--", 2) == 0; i++)
        known = known || options[i].id == optopt;
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
