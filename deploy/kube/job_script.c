/* Reads what containers run: the words of their commands, the scripts in these, in ConfigMaps that
 * they mount and in texts that a script writes. Each command that starts torch is a run; the first
 * text that may start it and is not in the files is what was not read. */
#include "deploy/kube/job_parts.h"

#include <string.h>

/* Limits of scripts within scripts, and of all scripts of a container. */
#define SCRIPT_DEPTH_MAX 4
#define SCRIPTS_MAX      64

/* --- The words of a container. --- */

static bool is_shell(const char *text)
{
    return text_is(kube_base_name(text), "sh", "bash", "dash", "ash", "zsh", "ksh");
}

/* The index of the script after `sh -c`, `bash -euo pipefail -c` and the like; `count` if there is
 * none. */
static size_t find_script(const struct arg_word *words, size_t count)
{
    size_t i = 0;

    while (i < count && !is_shell(words[i].text)) {
        if (words[i].text[0] != '-' && i > 2)
            return count;
        i++;
    }
    for (i++; i < count && words[i].text[0] == '-'; i++) {
        const char *options = words[i].text + 1;

        if (*options != '-' && strchr(options, 'c') != NULL) {
            i += i + 1 < count && strcmp(words[i + 1].text, "--") == 0 ? 2 : 1;
            return i < count ? i : count;
        }
        i += *options != '\0' && options[strlen(options) - 1] == 'o'; /* -o NAME */
    }
    return count;
}

struct job_words job_words(struct arena *a, const struct kube_container *c)
{
    struct job_words words = {0};
    size_t cap = 0, script;

    FOREACH_WORD(key, "command", "args") {
        YAML_FOREACH(item, kube_field(c, key)) {
            if (item->kind == YAML_SCALAR)
                arena_push(a, words.list, words.count, cap) = arg_word_of(item);
        }
    }
    script = find_script(words.list, words.count);
    words.script = script < words.count ? &words.list[script] : NULL;
    return words;
}

/* --- A script, while it is read. --- */

struct arg_list {
    struct arg_word *words;
    size_t count, cap;
};

static void push_word(struct arena *a, struct arg_list *list, struct arg_word word)
{
    arena_push(a, list->words, list->count, list->cap) = word;
}

/* The length of NAME in NAME=... and NAME+=..., or 0. */
static size_t assigned_name(const char *text)
{
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

    return text[len + (text[len] == '+')] == '=' && (text[0] < '0' || text[0] > '9') ? len : 0;
}

/* --- Branches. --- */

/* Where the commands of a script stand in `if`, `else` and the like. */
struct branches {
    int depth;     /* how many `if` they are in */
    size_t first;  /* the first assignment behind the outermost of these */
    size_t branch; /* the first one of this branch */
    bool tested;   /* the command is behind a test, and does not run in all pods */
};

/* Reads the words in front of a command, such as `then`; returns their number. */
static size_t read_keywords(struct branches *b, const struct job_scope *scope,
                            const struct arg_word *words, size_t count)
{
    size_t i = 0;

    for (bool keyword = true; keyword && i < count; i += keyword) {
        const char *text = words[i].text;

        keyword =
            text_is(text, "if", "else", "elif", "fi", "then", "do", "{", "!", "while", "until");
        if (strcmp(text, "if") == 0 && b->depth++ == 0)
            b->first = b->branch = scope->count;
        if (text_is(text, "else", "elif"))
            b->branch = scope->count;
        if (strcmp(text, "fi") == 0 && b->depth > 0)
            b->depth--;
    }
    return i;
}

/* Whether only one pod takes the value, as in `[ "$RANK" = 0 ] && HEAD=localhost`. This pod hosts
 * the store; the other pods reach it by another value of the variable. A PET_ variable is the
 * setting itself, and not only a part of it. */
static bool is_of_one_pod(const char *name, const char *value)
{
    return text_begins(value, "localhost", "127.", "0.0.0.0", "$(hostname", "`hostname",
                       "$HOSTNAME", "${HOSTNAME}") &&
           strncmp(name, "PET_", 4) != 0;
}

/* A branch of the script gives the variable another value, and the files do not say which runs. */
static bool differs_elsewhere(const struct job_scope *scope, const struct branches *b,
                              const char *name, const char *value)
{
    const struct job_assignment *all = scope->assigned;

    return b->depth > 0 && ANY(KUBE_FOREACH_HIT(hit, kube_index_find(&scope->names, "", name)),
                               *hit.list >= b->first && *hit.list < b->branch &&
                                   strcmp(all[*hit.list].value.text, value) != 0 &&
                                   !is_of_one_pod(name, all[*hit.list].value.text));
}

static bool may_hold_torchrun(const char *text)
{
    return text_has(text, "torch", "--rdzv", "accelerate", "hyperpodrun", "ft_launcher",
                    "dlrover-run", "tune run");
}

static void read_value(struct job_scope *scope, const struct arg_word *value, struct arg_list *out);

/* Replaces `$FLAGS` by its words, if they are known. A variable stays one word with its `$`, unless
 * its words are those of options. */
static void push_expanded(struct job_scope *scope, struct arg_list *list, struct arg_word word)
{
    struct arena *a = &scope->view->bundle->arena;
    const struct job_assignment *found;
    struct arg_list own = {0};
    struct arg_word text;
    struct job_value value;
    const struct arg_word *words;
    size_t count;

    if (!word.expands || word.text[0] != '$') {
        push_word(a, list, word);
        return;
    }
    if (!job_scope_find(scope, &word, &found, &text)) {
        value = job_scope_value(scope, &word);
        word.single = value.known && *value.text != '-' && *value.text != '\0' &&
                      strpbrk(value.text, " \t\n") == NULL;
        push_word(a, list, word);
        return;
    }
    if (found == NULL)
        read_value(scope, &text, &own);
    words = found == NULL ? own.words : found->words;
    count = found == NULL ? own.count : found->count;
    if (count == 1 && words[0].text[0] != '-' && (found == NULL || !found->array)) {
        word.single = !words[0].expands || words[0].single;
        words = &word;
    }
    for (size_t i = 0; i < count; i++)
        push_word(a, list, words[i]);
}

/* The words that a value becomes where it stands without quotes. */
static void read_value(struct job_scope *scope, const struct arg_word *value, struct arg_list *out)
{
    struct shell_script inner;

    shell_read(&scope->view->bundle->arena, value, &inner);
    for (size_t i = 0; i < inner.count; i++) {
        for (size_t j = 0; j < inner.commands[i].count; j++)
            push_expanded(scope, out, inner.commands[i].words[j]);
    }
}

/* The part of a word between its first `from` and its last `to` bytes. */
static struct arg_word part_of(struct arena *a, const struct arg_word *word, size_t from, size_t to)
{
    struct arg_word part = arg_word_from(word, from);

    part.len -= part.len < to ? part.len : to;
    part.text = arena_copy(a, part.text, part.len);
    return part;
}

/* `NAME=(...)`: the part between the parentheses. */
static bool is_array(struct arena *a, struct arg_word *value)
{
    if (value->len < 2 || value->text[0] != '(' || value->text[value->len - 1] != ')')
        return false;
    *value = part_of(a, value, 1, 1);
    return true;
}

/* What refers to itself is unknown. */
static void make_unknown(struct arena *a, const char *name, struct arg_word *value)
{
    value->text = arena_text(a, "$%s", name);
    value->len = strlen(value->text);
    value->at = NULL;
    value->shell = value->expands = true;
}

/* `NAME=${NAME:-...}`: the part behind the sign is the value of a variable that is not set. */
static bool is_default_of(struct arena *a, const char *name, struct arg_word *value)
{
    size_t len = strlen(name);
    const char *text = value->text;

    if (strncmp(text, "${", 2) != 0 || strncmp(text + 2, name, len) != 0 ||
        !text_begins(text + 2 + len, ":-", ":=") || text[strcspn(text, "}") + 1] != '\0')
        return false;
    *value = text[len + 4] == '"' ? part_of(a, value, len + 5, 2) : part_of(a, value, len + 4, 1);
    return true;
}

static void assign(struct job_scope *scope, const struct branches *b, const char *name,
                   struct arg_word value, bool adds)
{
    struct arena *a = &scope->view->bundle->arena;
    const struct job_assignment *old = job_scope_assigned(scope, name, strlen(name));
    bool before = old != NULL || job_variable(scope->view, scope->container, name) != NULL;
    struct job_assignment new = {.name = name, .array = is_array(a, &value)};
    struct arg_list words = {0};

    if (is_default_of(a, name, &value) && before)
        return;
    if ((b->tested || b->depth > 0) && before && is_of_one_pod(name, value.text))
        return;
    if (adds) {
        for (size_t i = 0; old != NULL && i < old->count; i++)
            push_word(a, &words, old->words[i]);
        new.array = new.array || (old != NULL && old->array);
    }
    if (differs_elsewhere(scope, b, name, value.text)) {
        make_unknown(a, name, &value);
        push_word(a, &words, value);
    } else {
        read_value(scope, &value, &words);
    }
    if (adds)
        make_unknown(a, name, &value);
    new.value = value;
    new.words = words.words;
    new.count = words.count;
    job_scope_assign(scope, &new);
}

/* Puts the assignments of a command into the scope; returns the first word that is none. */
static size_t read_assignments(struct job_scope *scope, const struct branches *b,
                               const struct arg_word *words, size_t count)
{
    struct arena *a = &scope->view->bundle->arena;
    size_t i =
        count > 0 && text_is(words[0].text, "export", "declare", "readonly", "local", "typeset");

    for (; i < count; i++) {
        size_t len = assigned_name(words[i].text);
        bool adds = words[i].text[len] == '+';

        if (len == 0 && words[i].text[0] != '-')
            break;
        if (len > 0)
            assign(scope, b, arena_copy(a, words[i].text, len),
                   arg_word_from(&words[i], len + 1 + adds), adds);
    }
    return i;
}

/* --- Runs. --- */

static struct job_run *new_run(struct job_view *v, const struct kube_container *c)
{
    struct job_run *r = arena_alloc(&v->bundle->arena, sizeof *r);

    *r = (struct job_run){.container = c};
    arena_push(&v->bundle->arena, v->runs, v->all_count, v->cap) = r;
    return r;
}

/* The file from which `accelerate launch` takes what it is not given; NULL: none. */
static const struct arg_word *config_file_of(const struct torchrun_args *args)
{
    const struct arg_word *file = NULL;
    size_t given = 0;

    FOREACH(const struct torchrun_flag, f, args->flags, args->count) {
        given += f->option == TORCHRUN_MASTER_ADDR || f->option == TORCHRUN_NNODES;
        if (f->value.text != NULL && text_begins(f->flag.text, "--config_file", "--config-file"))
            file = &f->value;
    }
    return given < 2 ? file : NULL;
}

/* first: the index after the word torchrun, or of the first of its options */
static void add_run(struct job_scope *scope, const struct arg_word *words, size_t count,
                    size_t first, bool torchrun)
{
    struct job_view *v = scope->view;
    struct job_run *r = new_run(v, scope->container);
    struct torchrun_args *args = arena_alloc(&v->bundle->arena, sizeof *args);
    bool accelerate = !torchrun && torchrun_find_accelerate(words, count) > 0;

    torchrun_parse(&v->bundle->arena, words, count, first, args);
    /* xargs adds words of its own, and rewrite adds none to `env NAME=VALUE` in a list. */
    FOREACH(const struct arg_word, word, words, first) {
        if (text_is(kube_base_name(word->text), "xargs", "parallel") ||
            (!word->shell && strncmp(word->text, "PET_", 4) == 0))
            args->unread = word;
    }
    args->opaque = args->opaque || (!torchrun && !accelerate);
    args->is_other = !torchrun;
    args->is_accelerate = accelerate;
    torchrun = torchrun && strcmp(words[first - 1].text, "run") != 0 &&
               !text_is(kube_base_name(words[first - 1].text), "ft_launcher", "dlrover-run");
    FOREACH(struct torchrun_flag, f, args->flags, torchrun ? 0 : args->count) {
        f->option = accelerate ? f->of_accelerate : f->option;
        if (f->option == TORCHRUN_UNKNOWN)
            f->option = TORCHRUN_OTHER; /* an option of the launcher */
    }
    r->args = args;
    r->unread = args->unread == NULL && accelerate ? config_file_of(args) : args->unread;
    r->map = scope->map;
    r->cleared = scope->cleared;
    job_read_settings(scope, r);
}

/* Whether the words start torchrun, or a program that passes options on to it. */
static bool find_command(struct job_scope *scope, const struct arg_word *words, size_t count)
{
    size_t first = torchrun_find(words, count);

    for (size_t i = 0; i < first; i++) /* env NAME=VALUE torchrun */
        read_assignments(scope, &(struct branches){0}, &words[i], 1);
    if (first > 0) {
        add_run(scope, words, count, first, true);
        return true;
    }
    first = torchrun_find_accelerate(words, count); /* its own options may come first */
    if (first == 0)
        first = torchrun_find_option(words, count);
    if (first < count)
        add_run(scope, words, count, first, false);
    return first < count;
}

/* Programs whose arguments are no command that starts. */
static bool is_talk(const struct arg_word *words, size_t count)
{
    if (count > 1 && text_is(words[0].text, "conda", "uv"))
        return strcmp(words[1].text, "run") != 0; /* it installs something */
    if (count > 1 && strcmp(words[0].text, "command") == 0)
        return words[1].text[0] == '-';
    return count > 0 && text_is_one_of(kube_base_name(words[0].text), command_talkers);
}

static bool may_be_script(const struct arg_word *word)
{
    return strpbrk(word->text, " \n") != NULL && may_hold_torchrun(word->text);
}

static bool find_in_script(struct job_scope *scope, const struct arg_word *whole, int depth);

/* Reads a text for this program, which may be no shell: torchrun in a list of Python is unread. */
static bool find_in_text(struct job_scope *scope, const struct arg_word *program,
                         const struct arg_word *text, int depth)
{
    if (!text_has(text->text, "torchrun\",", "torchrun',", "torch.distributed.run\",",
                  "torch.distributed.run',"))
        return find_in_script(scope, text, depth + 1);
    scope->unread = program;
    return false;
}

/* The words behind a script are its $1, $2 and $@. */
static void assign_arguments(struct job_scope *scope, const struct arg_word *words, size_t count)
{
    struct arena *a = &scope->view->bundle->arena;
    struct job_assignment all = {.name = "@", .words = words, .count = count, .array = true};

    for (size_t i = 0; i < count; i++)
        job_scope_assign(scope, &(struct job_assignment){.name = arena_text(a, "%zu", i + 1),
                                                         .value = words[i],
                                                         .words = &words[i],
                                                         .count = 1});
    make_unknown(a, "@", &all.value);
    job_scope_assign(scope, &all);
}

/* --- Launchers without a rendezvous, whose rank 0 serves the store. --- */

static const char *foreign_remedy(const char *launcher)
{
    return !text_is(kube_base_name(launcher), "deepspeed", "deepspeed.launcher.runner", "ipexrun",
                    "mpirun", "mpiexec", "srun")
               ? NULL
               : "it has no rendezvous, and rank 0 serves the store: with "
                 "TORCHELASTIC_USE_AGENT_STORE=True and an rdzvd at MASTER_ADDR and MASTER_PORT, "
                 "the ranks meet there (deploy/README.md, Other launchers)";
}

/* The command starts ranks that are programs of Python. */
static void find_foreign(struct job_scope *scope, const struct arg_word *words, size_t first,
                         size_t count)
{
    size_t at = first + 2 < count && strcmp(words[first + 1].text, "-m") == 0 ? first + 2 : first;

    for (size_t i = at + 1; i < count && scope->foreign == NULL; i++) {
        if (foreign_remedy(words[at].text) != NULL &&
            (text_ends_with(words[i].text, ".py") ||
             strncmp(kube_base_name(words[i].text), "python", 6) == 0))
            scope->foreign = &words[at];
    }
}

/* --- Scripts in files. --- */

/* The program of a command, or the script that a shell reads: the first word that is no option, no
 * shell and nothing else that may stand in front; *shell: there is a shell in front. */
static size_t find_operand(const struct arg_word *words, size_t count, bool *shell)
{
    size_t i = 0;

    *shell = false;
    for (; i < count; i++) {
        const char *text = words[i].text, *base = kube_base_name(text);
        bool starts = is_shell(text) || text_is(text, "source", ".");

        if (!starts &&
            !text_is(base, "exec", "nohup", "time", "nice", "sudo", "env", "stdbuf", "tini",
                     "timeout", "dumb-init") &&
            text[0] != '-' && assigned_name(text) == 0 &&
            text[strspn(text, "0123456789smh")] != '\0')
            break;
        *shell = *shell || starts;
    }
    return i;
}

static bool is_shell_text(const struct yaml_node *text, const char *path)
{
    const char *line = text->text;

    return !text_ends_with(path, ".py") &&
           (strncmp(line, "#!", 2) != 0 || strstr(line, "sh") != NULL) &&
           (text_ends_with(path, ".sh") || strncmp(line, "#!", 2) == 0 || may_hold_torchrun(line));
}

static bool is_started(const struct job_view *v, const struct kube_object *map, const char *key)
{
    return ANY(KUBE_FOREACH_HIT(hit, kube_index_find(&v->started, map->name, key)),
               *hit.list == map->index);
}

/* The file of a ConfigMap at this path, also as `<(cat PATH)`. With `by_name`, the path may differ
 * from that of the mount, as it may if an init container copies the file. */
static struct kube_file file_at(const struct job_scope *scope, const char *path, bool by_name)
{
    struct kube_bundle *b = scope->view->bundle;
    struct kube_file file;

    if (text_begins(path, "<(cat "))
        path = arena_copy(&b->arena, path + 6, strcspn(path + 6, " )"));
    file = kube_file_at(b, scope->container, path, by_name);
    KUBE_FOREACH_CONTAINER(c, scope->container->pods) {
        if (c->init && file.text == NULL && strchr(path, '/') != NULL &&
            text_has(kube_print(&b->arena, c->node), "cp ", "- cp\n"))
            file = kube_file_at(b, c, path, true);
    }
    return file;
}

/* Reads the script of a ConfigMap that the command starts. */
static bool find_in_file(struct job_scope *scope, const struct arg_word *words, size_t count,
                         int depth)
{
    const struct kube_object *map = scope->map;
    bool shell, found;
    size_t operand = find_operand(words, count, &shell);

    for (size_t i = 0; i < count; i++) {
        const char *path = words[i].text;
        const struct kube_file file = file_at(scope, path, path[0] != '/' || scope->copies);
        struct arg_word whole;

        if (path[0] == '-' || file.text == NULL || !is_shell_text(file.text, path))
            continue;
        scope->map = file.map;
        if (!is_started(scope->view, file.map, file.key))
            kube_index_add(&scope->view->bundle->arena, &scope->view->started, file.map->name,
                           file.key, file.map->index);
        assign_arguments(scope, words + i + 1, count - i - 1);
        whole = arg_word_of(file.text);
        found = find_in_script(scope, &whole, depth + 1);
        scope->map = map;
        return found;
    }
    find_foreign(scope, words, operand, count);
    if (operand < count && scope->unread == NULL && !is_talk(words + operand, count - operand) &&
        (shell || text_ends_with(words[operand].text, ".sh") || words[operand].text[0] == '$') &&
        kube_index_find(&scope->written, "", kube_base_name(words[operand].text)).count == 0)
        scope->unread = &words[operand];
    return false;
}

/* --- Commands. --- */

/* What the words start: torch itself, a script, or a shell with a text. */
static bool find_in_command(struct job_scope *scope, const struct arg_word *words, size_t count,
                            int depth)
{
    size_t script = find_script(words, count);
    bool found = find_command(scope, words, count);

    if (found || depth >= SCRIPT_DEPTH_MAX || scope->scripts >= SCRIPTS_MAX)
        return found;
    if (script < count) {
        if (script + 2 < count)
            assign_arguments(scope, words + script + 2, count - script - 2);
        return find_in_script(scope, &words[script], depth + 1);
    }
    if (count > 1 && strcmp(words[0].text, "eval") == 0)
        return find_in_script(scope, &words[1], depth + 1);
    found = find_in_file(scope, words, count, depth);
    /* `command: [tune run]` with args behind it. */
    if (depth < 0 && count > 1 && may_be_script(&words[0]) &&
        kube_field(scope->container, "command") != NULL) {
        struct arg_list all = {0};

        read_value(scope, &words[0], &all);
        for (size_t i = 1; i < count; i++)
            push_word(&scope->view->bundle->arena, &all, words[i]);
        return find_command(scope, all.words, all.count);
    }
    /* An unknown program may run texts that it gets as arguments. */
    for (size_t i = 0; i < count; i++) {
        if (may_be_script(&words[i]))
            found = find_in_text(scope, &words[0], &words[i], depth) || found;
    }
    return found;
}

/* The program among the words that starts another one without the variables, or NULL. */
static const struct arg_word *find_clearing(const struct arg_word *words, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++) {
        const char *name = kube_base_name(words[i].text), *next = words[i + 1].text;

        if ((strcmp(name, "env") == 0 && text_is(next, "-", "-i", "--ignore-environment")) ||
            (strcmp(name, "su") == 0 && text_is(next, "-", "-l", "--login")) ||
            (strcmp(name, "sudo") == 0 &&
             !ANY(FOREACH(const struct arg_word, word, words + i, count - i),
                  text_begins(word->text, "-E", "--preserve-env"))))
            return &words[i];
    }
    return NULL;
}

static bool find_in_words(struct job_scope *scope, const struct arg_word *words, size_t count,
                          int depth)
{
    const struct arg_word *outer = scope->cleared, *inner = find_clearing(words, count);
    bool found;

    scope->cleared = inner != NULL ? inner : outer;
    found = find_in_command(scope, words, count, depth);
    scope->cleared = outer;
    return found;
}

/* A text that goes to a shell, or into a file that a shell may read later. */
static bool is_for_shell(struct job_scope *scope, const struct shell_command *c, bool last)
{
    const char *target = c->target.text == NULL ? "" : kube_base_name(c->target.text);
    bool file = *target != '\0' && (strchr(target, '.') == NULL || text_ends_with(target, ".sh"));

    if (file)
        kube_index_add(&scope->view->bundle->arena, &scope->written, "", target, 0);
    return file || (c->pipes && !last && is_shell(c[1].words[0].text));
}

/* A command that does not start what its words say. */
static bool find_in_talk(struct job_scope *scope, const struct shell_command *c, bool last,
                         int depth)
{
    bool found = false;

    scope->copies = scope->copies || text_is(kube_base_name(c->words[0].text), "cp", "mv", "ln");
    if (strcmp(c->words[0].text, "set") == 0 && c->count > 1 && strcmp(c->words[1].text, "--") == 0)
        assign_arguments(scope, c->words + 2, c->count - 2);
    if (!is_for_shell(scope, c, last) || depth >= SCRIPT_DEPTH_MAX)
        return false;
    for (size_t i = 1; i < c->count && !found; i++)
        found = may_be_script(&c->words[i]) && find_in_script(scope, &c->words[i], depth + 1);
    return found || find_command(scope, c->words + 1, c->count - 1);
}

/* What `$(...)` at the end of a word starts. */
static bool find_in_substitution(struct job_scope *scope, const struct arg_word *word, int depth)
{
    const char *from = word->expands ? strstr(word->text, "$(") : NULL;
    struct arg_word inner;

    if (from == NULL || from[2] == '(' || word->text[word->len - 1] != ')' ||
        !may_hold_torchrun(from) || depth >= SCRIPT_DEPTH_MAX)
        return false;
    inner = part_of(&scope->view->bundle->arena, word, (size_t)(from + 2 - word->text), 1);
    return find_in_script(scope, &inner, depth + 1);
}

/* `depth` counts scripts within scripts. */
static bool find_in_script(struct job_scope *scope, const struct arg_word *whole, int depth)
{
    struct shell_script script;
    struct branches b = {0};
    bool found = false;

    scope->scripts++;
    shell_read(&scope->view->bundle->arena, whole, &script);
    for (size_t i = 0; i < script.count; i++) {
        struct arg_list list = {0};
        const struct shell_command *c = &script.commands[i];
        bool talk, last = i + 1 == script.count;
        size_t skip;

        for (size_t j = 0; j < c->count; j++) {
            push_expanded(scope, &list, c->words[j]);
            found = find_in_substitution(scope, &c->words[j], depth) || found;
        }
        skip = read_keywords(&b, scope, list.words, list.count);
        b.tested = c->maybe && i > 0 && text_is(c[-1].words[0].text, "[", "[[", "test");
        skip += read_assignments(scope, &b, list.words + skip, list.count - skip);
        talk = is_talk(list.words + skip, list.count - skip);
        if (c->heredoc.text != NULL && depth < SCRIPT_DEPTH_MAX && scope->scripts < SCRIPTS_MAX &&
            (!talk || is_for_shell(scope, c, last)))
            found = find_in_text(scope, &c->words[0], &c->heredoc, depth) || found;
        if (talk)
            found = find_in_talk(scope, c, last, depth) || found;
        else
            found = find_in_words(scope, list.words + skip, list.count - skip, depth) || found;
    }
    return found;
}

/* --- Containers, and ConfigMaps. --- */

/* Finds a run in a container without a visible torchrun: its PET_ variables configure a torchrun
 * that the container's program may start. */
static void find_in_variables(struct job_scope *scope)
{
    struct job_view *v = scope->view;
    const struct kube_object *o = scope->container->pods->object;
    struct job_run *r;
    bool wanted = o->type == KUBE_PYTORCHJOB && kube_get(o->spec, "elasticPolicy") != NULL &&
                  strcmp(scope->container->name, "pytorch") == 0;

    /* The operator sets them for sidecars, too. */
    FOREACH_WORD(name, "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT") {
        const struct job_variable *set = job_variable(v, scope->container, name);

        wanted = wanted || job_scope_assigned(scope, name, strlen(name)) != NULL ||
                 (set != NULL && !set->is_made);
    }
    if (!wanted && o->type != KUBE_ELASTIC_JOB)
        return;
    r = new_run(v, scope->container);
    r->unread = scope->unread;
    job_read_settings(scope, r);
}

static void add_closed(struct job_view *v, const struct kube_container *c, const char *program,
                       const struct yaml_node *at, const char *remedy)
{
    arena_push(&v->bundle->arena, v->closed, v->closed_count, v->closed_cap) =
        (struct job_closed){c, program, at, remedy};
}

/* A container without a run, of a job or of several pods that name the master of their ranks. */
static void find_closed(const struct job_scope *scope, bool has_program)
{
    const struct kube_container *c = scope->container;
    struct job_view *v = scope->view;
    const struct job_variable *master = job_variable(v, c, "MASTER_ADDR");
    const struct arg_word *program = scope->foreign != NULL ? scope->foreign : scope->unread;
    bool meets = master != NULL && !master->is_made && c->pods->replicas != 1;

    if (!meets && (!c->pods->ends || (program == NULL && has_program)))
        return;
    if (program == NULL && meets)
        add_closed(v, c, "MASTER_ADDR", NULL, NULL);
    else if (has_program || scope->foreign != NULL)
        add_closed(v, c, program->text, program->node,
                   scope->foreign == NULL ? NULL : foreign_remedy(program->text));
    else
        add_closed(v, c, NULL, NULL, NULL);
}

/* Whether the text starts torch on several nodes, in whatever language. */
static bool names_torchrun(const char *text)
{
    return text_has(text, "torchrun", "torch.distributed.run", "--rdzv") &&
           strstr(text, "--standalone") == NULL;
}

void job_find_runs(struct job_view *v, const struct kube_container *c)
{
    struct job_scope scope = {.view = v, .container = c};
    size_t before = v->all_count, operand;
    struct arena *a = &v->bundle->arena;
    struct job_words words = job_words(a, c);
    const struct yaml_node *entry = kube_get(c->pods->object->spec, "entrypoint");
    bool shell;

    if (c->init) {
        if (names_torchrun(arena_joined(a, kube_print(a, kube_field(c, "command")), " ",
                                        kube_print(a, kube_field(c, "args")))))
            add_closed(v, c, "torchrun", c->node,
                       "it runs in an init container, whose launches nothing reads here");
        return;
    }
    find_in_words(&scope, words.list, words.count, -1);
    if (c->pods->object->type == KUBE_RAY && c == c->pods->containers && yaml_text(entry) != NULL &&
        strcmp(c->pods->role, "head") == 0) { /* Ray runs it there, and nowhere else */
        const struct arg_word whole = arg_word_of(entry);

        find_in_script(&scope, &whole, 0);
    }
    operand = find_operand(words.list, words.count, &shell);
    /* python, and programs that talk, start nothing but what their arguments name: no torch. */
    if (scope.unread == NULL && words.script == NULL && operand < words.count &&
        !is_talk(words.list + operand, words.count - operand) &&
        strncmp(kube_base_name(words.list[operand].text), "python", 6) != 0)
        scope.unread = &words.list[operand];
    if (v->all_count == before)
        find_in_variables(&scope);
    if (v->all_count == before)
        find_closed(&scope, words.count > 0 && words.list[0].text[0] != '-');
}

/* The scripts of a ConfigMap that no pods of these files start. Each is read as the script of a
 * container that has nothing else. */
void job_find_scripts(struct job_view *v, const struct kube_object *map)
{
    struct arena *a = &v->bundle->arena;
    const struct yaml_node *data = kube_get(map->node, "data");

    YAML_FOREACH_PAIR(entry, data) {
        const struct yaml_node *text = entry->value;
        struct arg_word whole;
        struct kube_container *c;
        struct kube_pods *p;
        struct job_scope scope = {.view = v};
        const char *key = entry->key->text;

        if (text->kind != YAML_SCALAR || !may_hold_torchrun(text->text) || is_started(v, map, key))
            continue;
        whole = arg_word_of(text);
        c = arena_alloc(a, sizeof *c);
        p = arena_alloc(a, sizeof *p);
        *p = (struct kube_pods){.object = map, .role = "", .part = data, .spec = data};
        p->replicas = -1;
        p->restart = p->host_domain = "";
        *c = (struct kube_container){.pods = p, .node = data, .name = key, .image = ""};
        scope.container = c;
        scope.map = map;
        if (is_shell_text(text, key))
            find_in_script(&scope, &whole, 0);
        else if (names_torchrun(text->text))
            add_closed(v, c, key, text, "it starts torch in another language than that of a shell");
    }
}
