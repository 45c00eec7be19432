/* Completion of rdzvctl's command line for bash, zsh and fish, from the table of commands. */
#include <stdio.h>
#include <string.h>

#include "client/ctl/commands.h"
#include "client/ctl/run.h"

/* The command that lists what a word may be; NULL: there is none. */
static const char *lister(enum ctl_word word)
{
    return word == WORD_RUN     ? "runs"
           : word == WORD_SPACE ? "spaces"
           : word == WORD_KEY   ? "keys"
                                : NULL;
}

/* Words that are known beforehand; NULL: there are none. */
static const char *fixed(enum ctl_word word)
{
    return word == WORD_SHELL    ? "bash zsh fish"
           : word == WORD_OUTPUT ? "table wide name json yaml"
                                 : NULL;
}

/* Between single quotes of a shell; what is in `marks` gets a backslash, which the shell leaves
 * there. */
static void quoted(const char *text, const char *marks)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr(marks, *text) != NULL)
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static unsigned options_of(const struct ctl_command *c)
{
    return c->options | OPTIONS_OF_ALL;
}

static void command_names(void)
{
    for (size_t i = 0; i < ctl_command_count; i++)
        printf("%s%s", i == 0 ? "" : " ", ctl_commands[i].name);
}

/* --- bash --- */

static void bash_option_words(unsigned which)
{
    for (int id = 0; id < OPTION_COUNT_OF_ALL; id++) {
        if ((which & 1u << id) == 0)
            continue;
        if (ctl_options[id].letter != 0)
            printf("-%c ", ctl_options[id].letter);
        printf("--%s ", ctl_options[id].name);
    }
}

/* Options whose value is the next word, as a pattern of `case`. */
static void bash_value_options(enum ctl_word word, bool all)
{
    const char *before = "";

    for (int id = 0; id < OPTION_COUNT_OF_ALL; id++) {
        const struct ctl_option *o = &ctl_options[id];

        if (o->value == NULL || (!all && o->word != word))
            continue;
        printf("%s--%s", before, o->name);
        before = " | ";
        if (o->letter != 0)
            printf(" | -%c", o->letter);
    }
}

static void bash_word(enum ctl_word word)
{
    if (lister(word) != NULL)
        printf("_rdzvctl_list %s", lister(word));
    else if (word == WORD_COMMAND)
        fputs("echo $commands", stdout);
    else if (fixed(word) != NULL)
        printf("echo %s", fixed(word));
    else
        fputs("true", stdout);
}

static void bash_values(void)
{
    static const enum ctl_word words[] = {WORD_SPACE, WORD_OUTPUT};

    fputs("    case $previous in\n    ", stdout);
    bash_value_options(WORD_FILE, false);
    fputs(") compopt -o default; return ;;\n", stdout);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        fputs("    ", stdout);
        bash_value_options(words[i], false);
        fputs(") _rdzvctl_reply \"$(", stdout);
        bash_word(words[i]);
        fputs(")\"; return ;;\n", stdout);
    }
    fputs("    ", stdout);
    bash_value_options(WORD_NONE, false);
    fputs(") return ;;\n    esac\n", stdout);
}

static void bash_commands(void)
{
    fputs("    case $command in\n", stdout);
    for (size_t i = 0; i < ctl_command_count; i++) {
        const struct ctl_command *c = &ctl_commands[i];

        printf("    %s) options='", c->name);
        bash_option_words(options_of(c));
        fputs("'; words() { ", stdout);
        bash_word(c->word);
        fputs("; } ;;\n", stdout);
    }
    fputs("    *) options='", stdout);
    bash_option_words(OPTIONS_OF_ALL);
    fputs("'; words() { echo $commands; } ;;\n    esac\n", stdout);
}

/* Words are taken from the line itself: bash splits addresses at their colons. */
static enum ctl_exit bash(void)
{
    fputs("# Completion of rdzvctl for bash; made by `rdzvctl completion bash`.\n"
          "_rdzvctl_list()\n{\n"
          "    rdzvctl \"${server[@]}\" --timeout 1s \"$1\" -o name 2>/dev/null\n}\n"
          "_rdzvctl_reply()\n{\n"
          "    local stem=${current%\"${current##*:}\"} word\n"
          "    while IFS= read -r word; do\n"
          "        [[ $word == \"$current\"* ]] && COMPREPLY+=(\"${word#\"$stem\"}\")\n"
          "    done < <(tr ' ' '\\n' <<<\"$1\")\n}\n"
          "_rdzvctl()\n{\n"
          "    local line=${COMP_LINE:0:COMP_POINT} commands='",
          stdout);
    command_names();
    fputs("'\n    local given current=\"\" previous command=\"\" options i server=()\n"
          "    read -ra given <<<\"$line\"\n"
          "    [[ $line == *' ' ]] || { current=${given[-1]}; unset 'given[-1]'; }\n"
          "    previous=${given[-1]} COMPREPLY=()\n"
          "    for ((i = 1; i < ${#given[@]}; i++)); do\n"
          "        case ${given[i]} in\n"
          "        -s | --server | --token-file) server+=(\"${given[i]}\" \"${given[++i]}\") ;;\n"
          "        ",
          stdout);
    bash_value_options(WORD_NONE, true);
    fputs(") i=$((i + 1)) ;;\n        -*) ;;\n        *) [[ -n $command ]] || command=${given[i]} "
          ";;\n"
          "        esac\n    done\n",
          stdout);
    bash_values();
    bash_commands();
    fputs("    if [[ $current == -* ]]; then\n        _rdzvctl_reply \"$options\"\n    else\n"
          "        _rdzvctl_reply \"$(words)\"\n    fi\n}\ncomplete -F _rdzvctl rdzvctl\n",
          stdout);
    return CTL_FINE;
}

/* --- zsh --- */

static void zsh_option(const struct ctl_option *o)
{
    if (o->letter != 0)
        printf(" \\\n        '(-%c --%s)'{-%c,--%s}'[", o->letter, o->name, o->letter, o->name);
    else
        printf(" \\\n        '--%s[", o->name);
    quoted(o->help, "[]:");
    fputs("]", stdout);
    if (o->value != NULL)
        printf(":%s:", o->value);
    if (o->value != NULL && fixed(o->word) != NULL)
        printf("(%s)", fixed(o->word));
    else if (o->word == WORD_FILE)
        fputs("_files", stdout);
    else if (lister(o->word) != NULL)
        printf("_rdzvctl_%s", lister(o->word));
    else if (o->value != NULL)
        putchar(' ');
    putchar('\'');
}

static void zsh_options(unsigned which)
{
    for (int id = 0; id < OPTION_COUNT_OF_ALL; id++) {
        if ((which & 1u << id) != 0)
            zsh_option(&ctl_options[id]);
    }
}

static void zsh_command(const struct ctl_command *c)
{
    printf("    %s)\n        _arguments", c->name);
    zsh_options(options_of(c));
    if (c->most > 0) {
        printf(" \\\n        '%s:%s:", c->most > 2 ? "*" : "1", c->words);
        if (lister(c->word) != NULL)
            printf("_rdzvctl_%s", lister(c->word));
        else if (fixed(c->word) != NULL)
            printf("(%s)", fixed(c->word));
        else if (c->word == WORD_COMMAND)
            fputs("_rdzvctl_commands", stdout);
        putchar('\'');
    }
    fputs(" ;;\n", stdout);
}

static enum ctl_exit zsh(void)
{
    static const char *const lists[] = {"runs", "spaces", "keys"};

    fputs("#compdef rdzvctl\n# Completion of rdzvctl for zsh; made by `rdzvctl completion zsh`.\n"
          "_rdzvctl_list()\n{\n    local -a names\n"
          "    names=(${(f)\"$(rdzvctl ${opt_args[-s]:+-s} ${opt_args[-s]} --timeout 1s $1 -o name "
          "2>/dev/null)\"})\n    compadd -a names\n}\n",
          stdout);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        printf("_rdzvctl_%s() { _rdzvctl_list %s }\n", lists[i], lists[i]);
    fputs("_rdzvctl_commands()\n{\n    local -a commands\n    commands=(\n", stdout);
    for (size_t i = 0; i < ctl_command_count; i++) {
        printf("        '%s:", ctl_commands[i].name);
        quoted(ctl_commands[i].summary, ":");
        fputs("'\n", stdout);
    }
    fputs("    )\n    _describe command commands\n}\n"
          "_rdzvctl()\n{\n    local state line\n    typeset -A opt_args\n    _arguments -C",
          stdout);
    zsh_options(OPTIONS_OF_ALL);
    fputs(" \\\n        '1:command:_rdzvctl_commands' '*::word:->words'\n"
          "    [[ $state == words ]] || return\n    case $line[1] in\n",
          stdout);
    for (size_t i = 0; i < ctl_command_count; i++)
        zsh_command(&ctl_commands[i]);
    fputs("    esac\n}\nif [[ $funcstack[1] == _rdzvctl ]]; then\n    _rdzvctl \"$@\"\nelse\n"
          "    compdef _rdzvctl rdzvctl\nfi\n",
          stdout);
    return CTL_FINE;
}

/* --- fish --- */

static void fish_word(enum ctl_word word)
{
    if (lister(word) != NULL)
        printf(" -a '(rdzvctl --timeout 1s %s -o name 2>/dev/null)'", lister(word));
    else if (fixed(word) != NULL)
        printf(" -a '%s'", fixed(word));
    else if (word == WORD_FILE)
        fputs(" -F", stdout);
}

static void fish_options(unsigned which, const char *command)
{
    for (int id = 0; id < OPTION_COUNT_OF_ALL; id++) {
        const struct ctl_option *o = &ctl_options[id];

        if ((which & 1u << id) == 0)
            continue;
        fputs("complete -c rdzvctl", stdout);
        if (command != NULL)
            printf(" -n '__fish_seen_subcommand_from %s'", command);
        printf(" -l %s", o->name);
        if (o->letter != 0)
            printf(" -s %c", o->letter);
        if (o->value != NULL)
            fputs(o->word == WORD_FILE ? " -r" : " -x", stdout); /* x: and no files */
        fish_word(o->value != NULL ? o->word : WORD_NONE);
        fputs(" -d '", stdout);
        quoted(o->help, "");
        fputs("'\n", stdout);
    }
}

static enum ctl_exit fish(void)
{
    fputs("# Completion of rdzvctl for fish; made by `rdzvctl completion fish`.\n"
          "complete -c rdzvctl -f\n",
          stdout);
    fish_options(OPTIONS_OF_ALL, NULL);
    for (size_t i = 0; i < ctl_command_count; i++) {
        const struct ctl_command *c = &ctl_commands[i];

        printf("complete -c rdzvctl -n __fish_use_subcommand -a %s -d '", c->name);
        quoted(c->summary, "");
        fputs("'\n", stdout);
        fish_options(c->options, c->name);
        if (c->word == WORD_COMMAND) {
            printf("complete -c rdzvctl -n '__fish_seen_subcommand_from %s' -a '", c->name);
            command_names();
            fputs("'\n", stdout);
        } else if (c->word != WORD_NONE) {
            printf("complete -c rdzvctl -n '__fish_seen_subcommand_from %s'", c->name);
            fish_word(c->word);
            putchar('\n');
        }
    }
    return CTL_FINE;
}

enum ctl_exit run_completion(const struct ctl *ctl)
{
    const char *shell = ctl->args[0];

    if (strcmp(shell, "bash") == 0)
        return bash();
    if (strcmp(shell, "zsh") == 0)
        return zsh();
    if (strcmp(shell, "fish") == 0)
        return fish();
    return ctl_say(CTL_USAGE, "there is completion for bash, zsh and fish, not for %s", shell);
}
