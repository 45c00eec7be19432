/* Finds torchrun and its options: the rules of argparse for them. */
#include "deploy/kube/torchrun_args.h"

#include "deploy/kube/kube_view.h"

#include <string.h>

#define NO_OPTION SIZE_MAX

enum torchrun_option torchrun_option_of_variable(const char *variable)
{
    enum torchrun_option o = 0;

    while (o < TORCHRUN_OPTIONS && strcmp(variable, torchrun_variables[o]) != 0)
        o++;
    return o < TORCHRUN_OPTIONS ? o : TORCHRUN_UNKNOWN;
}

/* --- Finding torchrun. --- */

/* Takes the options of torchrun, and perhaps more. */
static bool is_torchrun(struct arena *a, const char *text)
{
    size_t len = strlen(text);
    const char *blank = strrchr(text, ' ');

    if (blank != NULL && blank[1] != '\0' && /* $(which torchrun) */
        (strncmp(text, "$(", 2) == 0 || text[0] == '`'))
        text = arena_copy(a, blank + 1, len - (size_t)(blank - text) - 2);
    return text_is(kube_base_name(text), "torchrun", "torchrun.py", "hyperpodrun", "ft_launcher",
                   "dlrover-run");
}

/* In front of torchrun may stand any wrapper with words of its own. Behind a script, torchrun may
 * be the value of an option. */
size_t torchrun_find(const struct arg_word *words, size_t count)
{
    struct arena scratch = {0};
    bool script = false;
    size_t found = 0;

    for (size_t i = 0; i < count && found == 0; i++) {
        const char *text = words[i].text, *next = i + 1 < count ? words[i + 1].text : "";
        bool module = text_is(text, "-m", "--module");

        if (is_torchrun(&scratch, text) && (!script || strcmp(words[i - 1].text, "--") == 0 ||
                                            strncmp(words[i - 1].text, "--", 2) != 0))
            found = i + 1;
        else if ((module && text_is(next, "torch.distributed.run", "torch.distributed.launch",
                                    "torchelastic.distributed.launch")) ||
                 (strcmp(kube_base_name(text), "tune") == 0 && strcmp(next, "run") == 0))
            found = i + 2;
        script = script || module || text_ends_with(text, ".py") || text_ends_with(text, ".sh");
    }
    arena_free(&scratch);
    return found;
}

size_t torchrun_find_accelerate(const struct arg_word *words, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++) {
        if (strcmp(kube_base_name(words[i].text), "accelerate") == 0)
            return strcmp(words[i + 1].text, "launch") == 0 ? i + 2 : 0;
        if (strcmp(words[i].text, "-m") == 0)
            return strcmp(words[i + 1].text, "accelerate.commands.launch") == 0 ? i + 2 : 0;
    }
    return 0;
}

/* --- Reading options. --- */

/* The names under which `accelerate launch` takes options of torchrun. */
static enum torchrun_option accelerate_option(const char *name)
{
    return strcmp(name, "num_machines") == 0        ? TORCHRUN_NNODES
           : strcmp(name, "machine_rank") == 0      ? TORCHRUN_NODE_RANK
           : strcmp(name, "main_process_ip") == 0   ? TORCHRUN_MASTER_ADDR
           : strcmp(name, "main_process_port") == 0 ? TORCHRUN_MASTER_PORT
                                                    : TORCHRUN_UNKNOWN;
}

/* argparse accepts the beginning of a name, if only one name begins so. */
static size_t option_index(const char *name, size_t len)
{
    size_t found = NO_OPTION;

    for (size_t i = 0; torchrun_options[i] != NULL; i++) {
        if (strncmp(torchrun_options[i], name, len) != 0)
            continue;
        if (torchrun_options[i][len] == '\0')
            return i;
        if (found != NO_OPTION)
            return NO_OPTION;
        found = i;
    }
    return found;
}

/* Whether the word is nothing but an expansion, which may become any words. */
static bool is_opaque(const struct arg_word *word)
{
    const char *text = word->text;
    size_t len = strcspn(text, "/.:=");

    return (word->shell && strncmp(text, "--{", 3) == 0) ||
           (word->expands && !word->single && (text[0] == '$' || text[0] == '`') &&
            (text[0] == '`' || text[1] == '{' || text[1] == '('
                 ? strchr("})`", text[word->len - 1]) != NULL
                 : text[len] == '\0'));
}

/* `--name` or `--name=value`; *used is the number of words. */
static void parse_long(struct arena *a, const struct arg_word *words, size_t count,
                       struct torchrun_flag *out, size_t *used)
{
    const char *text = words[0].text + 2, *equals = strchr(text, '=');
    size_t len = equals == NULL ? strlen(text) : (size_t)(equals - text), index;
    char *name = arena_copy(a, text, len);

    for (char *c = name; *c != '\0'; c++)
        *c = (char)(*c == '-' ? '_' : *c);
    index = len == 0 ? NO_OPTION : option_index(name, len);
    *out = (struct torchrun_flag){
        .option = index == NO_OPTION          ? TORCHRUN_UNKNOWN
                  : index >= TORCHRUN_OPTIONS ? TORCHRUN_OTHER
                                              : (enum torchrun_option)index,
        .flag = arg_word_from(&words[0], 0),
    };
    *used = 1;
    out->of_accelerate = index == NO_OPTION ? accelerate_option(name) : out->option;
    out->nearest = index == NO_OPTION ? nearest_name(name, torchrun_options) : NULL;
    if (equals != NULL) {
        out->value = arg_word_from(&words[0], len + 3);
    } else if (count > 1 &&
               (index == NO_OPTION ? words[1].text[0] != '-'
                                   : !text_is_one_of(torchrun_options[index], torchrun_switches))) {
        out->value = arg_word_from(&words[1], 0);
        out->separate = true;
        *used = 2;
    }
}

/* -m, -r, -t, -h */
static void parse_short(const struct arg_word *words, size_t count, struct torchrun_flag *out,
                        size_t *used)
{
    char letter = words[0].text[1];
    bool takes_value = (letter == 'r' || letter == 't') && words[0].text[2] == '\0';

    *out = (struct torchrun_flag){
        .option = strchr("mrth", letter) != NULL ? TORCHRUN_OTHER : TORCHRUN_UNKNOWN,
        .flag = arg_word_from(&words[0], 0),
    };
    *used = takes_value && count > 1 ? 2 : 1;
}

void torchrun_parse(struct arena *a, const struct arg_word *words, size_t count, size_t first,
                    struct torchrun_args *out)
{
    size_t i = first;

    *out = (struct torchrun_args){.command = arg_word_from(&words[first > 0 ? first - 1 : 0], 0)};
    out->flags = arena_alloc(a, (count - first + 1) * sizeof *out->flags);
    while (i < count) {
        const char *text = words[i].text;
        size_t used = 1;

        if (is_opaque(&words[i])) {
            out->opaque = true; /* options, or the script: the rest may be either */
            out->unread = out->unread == NULL ? &words[i] : out->unread;
        } else if (strncmp(text, "--", 2) == 0 && text[2] != '\0') {
            parse_long(a, words + i, count - i, &out->flags[out->count++], &used);
        } else if (text[0] == '-' && text[1] != '\0' && text[1] != '-') {
            parse_short(words + i, count - i, &out->flags[out->count++], &used);
        } else if (out->opaque && i + 1 < count && words[i + 1].text[0] == '-') {
            /* the value of an option whose name is in a variable */
        } else {
            out->program = &words[i];
            return;
        }
        i += used;
    }
}

size_t torchrun_find_option(const struct arg_word *words, size_t count)
{
    struct arena scratch = {0};
    struct torchrun_args args;
    size_t first = 0;

    for (bool found = false; first < count && !found; first += !found) {
        torchrun_parse(&scratch, words, first + 1, first, &args);
        if (args.count == 0 || args.flags[0].option >= TORCHRUN_OTHER)
            continue;
        torchrun_parse(&scratch, words, count, first, &args);
        found = ANY(FOREACH(const struct torchrun_flag, f, args.flags, args.count),
                    f->option < TORCHRUN_OTHER && strncmp(f->flag.text, "--rdzv", 6) == 0);
        if (!found) /* the next options are behind the program */
            first = args.program == NULL ? count - 1 : (size_t)(args.program - words);
    }
    arena_free(&scratch);
    return first;
}
