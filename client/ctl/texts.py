#!/usr/bin/env python3
"""Makes rdzvctl's tables and texts of commands.py, in C.

    texts.py TABLES.c SOURCE_ROOT VERSION TEXTS.c RUN.h
"""
import os
import re
import sys
import textwrap

sys.path[:0] = [os.path.join(sys.argv[2], "deploy"), os.path.dirname(os.path.abspath(__file__))]
import commands as table  # noqa: E402
from embed import literal  # noqa: E402

OPTIONS = {o.name: o for o in table.OPTIONS}
LISTS = ("runs", "spaces", "keys")  # commands that list what a word may be
NAMES = " ".join(c.name for c in table.COMMANDS)


def ordered(names):
    return [o for o in table.OPTIONS if o.name in names]


def of_command(command):
    return ordered(table.COMMON + command.options)


# ---- help


def wrap(text, indent=0):
    """Lines of 80 columns, every one but the first behind `indent` blanks, where the first begins."""
    blanks = " " * indent
    lines = [textwrap.fill(part, 80, initial_indent=blanks, subsequent_indent=blanks, break_on_hyphens=False,
                           break_long_words=False) for part in text.split("\n")]
    return "\n".join(lines)[indent:] + "\n"


def help_of_options(options):
    text = ""
    for o in options:
        head = "  %s --%s%s" % ("-%s," % o.letter if o.letter else "   ", o.name, " " + o.value if o.value else "")
        text += "%-27s" % head + (" " if len(head) < 28 else "\n" + " " * 28) + wrap(o.help, 28)
    return text


def help_of_all():
    return "".join((
        "usage: rdzvctl [OPTION...] COMMAND [WORD...]\n\n", wrap(table.ABOUT),
        "\nCommands (`rdzvctl help COMMAND` says more):\n",
        *("  %-12s %s\n" % (c.name, c.summary) for c in table.COMMANDS),
        "\nOptions of all commands, before or behind them:\n", help_of_options(ordered(table.COMMON)),
        "\nExit codes:\n", *("  %d  %s\n" % exit for exit in enumerate(table.EXITS)),
        "\nEnvironment:\n", *("  %-24s %s\n" % variable for variable in table.ENVIRONMENT)))


def help_of(command):
    """Without the options of all commands, which are the same behind each."""
    own = "\nOptions:\n" + help_of_options(ordered(command.options)) if command.options else ""
    return "".join((
        "usage: rdzvctl %s [OPTION...]\n\n" % (command.name + " " + command.syntax).rstrip(), wrap(command.about),
        "\nExamples:\n", *("  rdzvctl %-44s  # %s\n" % example for example in command.examples), own))


# ---- the manual page


def roff(text):
    """Text whose marks mean nothing to groff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M).replace("\n\n", "\n.PP\n") + "\n"


def roff_options(options):
    return "".join(".TP\n%s\\fB\\-\\-%s\\fR%s\n%s" % (
        "\\fB\\-%s\\fR, " % o.letter if o.letter else "", o.name.replace("-", "\\-"),
        " \\fI%s\\fR" % o.value if o.value else "", roff(o.help)) for o in options)


def roff_command(c):
    return "".join((
        ".SS %s %s\n" % (c.name, c.syntax), roff(c.about), roff_options(ordered(c.options)),
        *(".TP\n.EX\nrdzvctl %s.EE\n%s" % (roff(command), roff(about)) for command, about in c.examples)))


def manual_page(version):
    return "".join((
        '.\\" Made by `rdzvctl help --man`.\n.TH RDZVCTL 1 "" "rdzv %s" "rdzv"\n' % version,
        ".SH NAME\nrdzvctl \\- look into a rendezvous store of PyTorch\n",
        ".SH SYNOPSIS\n\\fBrdzvctl\\fR [\\fIOPTION\\fR...] \\fICOMMAND\\fR [\\fIWORD\\fR...]\n",
        ".SH DESCRIPTION\n", roff(table.ABOUT), ".SH COMMANDS\n", *map(roff_command, table.COMMANDS),
        ".SH OPTIONS OF ALL COMMANDS\n", roff_options(ordered(table.COMMON)),
        ".SH EXIT STATUS\n", *(".TP\n%d\n%s" % (code, roff(text)) for code, text in enumerate(table.EXITS)),
        ".SH ENVIRONMENT\n", *(".TP\n\\fB%s\\fR\n%s" % (name, roff(text)) for name, text in table.ENVIRONMENT),
        ".SH SEE ALSO\n\\fBrdzvd\\fR(8), \\fBrdzv\\-manifest\\fR(1), \\fBtorchrun\\fR(1)\n"))


# ---- completion


def quoted(text, marks=""):
    """Between single quotes of a shell; what is in `marks` gets a backslash, which the shell leaves there."""
    return "".join("'\\''" if c == "'" else "\\" + c if c in marks else c for c in text)


def flags(o):
    return ["--" + o.name] + (["-" + o.letter] if o.letter else [])


def bash_words(words):
    if words in LISTS:
        return "_rdzvctl_list " + words
    return "echo $commands" if words == "commands" else "echo " + words if words else "true"


def bash():
    """Words are taken from the line itself: bash splits addresses at their colons."""
    valued = [o for o in table.OPTIONS if o.value]

    def pattern(words):
        return " | ".join(flag for o in valued if words is None or o.words == words for flag in flags(o))

    def options(some):
        return "".join(flag + " " for o in some for flag in reversed(flags(o)))

    return """# Completion of rdzvctl for bash; made by `rdzvctl completion bash`.
_rdzvctl_list()
{
    rdzvctl "${server[@]}" --timeout 1s "$1" -o name 2>/dev/null
}
_rdzvctl_reply()
{
    local stem=${current%%"${current##*:}"} word
    while IFS= read -r word; do
        [[ $word == "$current"* ]] && COMPREPLY+=("${word#"$stem"}")
    done < <(tr ' ' '\\n' <<<"$1")
}
_rdzvctl()
{
    local line=${COMP_LINE:0:COMP_POINT} commands='%s'
    local given current="" previous command="" options i server=()
    read -ra given <<<"$line"
    [[ $line == *' ' ]] || { current=${given[-1]}; unset 'given[-1]'; }
    previous=${given[-1]} COMPREPLY=()
    for ((i = 1; i < ${#given[@]}; i++)); do
        case ${given[i]} in
        -s | --server | --token-file) server+=("${given[i]}" "${given[++i]}") ;;
        %s) i=$((i + 1)) ;;
        -*) ;;
        *) [[ -n $command ]] || command=${given[i]} ;;
        esac
    done
    case $previous in
    %s) compopt -o default; return ;;
%s    %s) return ;;
    esac
    case $command in
%s    *) options='%s'; words() { echo $commands; } ;;
    esac
    if [[ $current == -* ]]; then
        _rdzvctl_reply "$options"
    else
        _rdzvctl_reply "$(words)"
    fi
}
complete -F _rdzvctl rdzvctl
""" % (NAMES, pattern(None), pattern("files"),
       "".join('    %s) _rdzvctl_reply "$(%s)"; return ;;\n' % (pattern(words), bash_words(words))
               for words in ("spaces", table.FORMATS)),
       pattern(""),
       "".join("    %s) options='%s'; words() { %s; } ;;\n" % (c.name, options(of_command(c)), bash_words(c.words))
               for c in table.COMMANDS),
       options(ordered(table.COMMON)))


def zsh_words(words):
    if words in LISTS or words == "commands":
        return "_rdzvctl_" + words
    return "_files" if words == "files" else "(%s)" % words if words else ""


def zsh_options(options):
    text = ""
    for o in options:
        names = "'(-{0} --{1})'{{-{0},--{1}}}'".format(o.letter, o.name) if o.letter else "'--" + o.name
        value = ":%s:%s" % (o.value, zsh_words(o.words) or " ") if o.value else ""
        text += " \\\n        %s[%s]%s'" % (names, quoted(o.help, "[]:"), value)
    return text


def zsh_command(c):
    words = " \\\n        '%s:%s:%s'" % ("*" if c.most > 2 else "1", c.syntax, zsh_words(c.words)) if c.most else ""
    return "    %s)\n        _arguments%s%s ;;\n" % (c.name, zsh_options(of_command(c)), words)


def zsh():
    return """#compdef rdzvctl
# Completion of rdzvctl for zsh; made by `rdzvctl completion zsh`.
_rdzvctl_list()
{
    local -a names
    names=(${(f)"$(rdzvctl ${opt_args[-s]:+-s} ${opt_args[-s]} --timeout 1s $1 -o name 2>/dev/null)"})
    compadd -a names
}
%s_rdzvctl_commands()
{
    local -a commands
    commands=(
%s    )
    _describe command commands
}
_rdzvctl()
{
    local state line
    typeset -A opt_args
    _arguments -C%s \\
        '1:command:_rdzvctl_commands' '*::word:->words'
    [[ $state == words ]] || return
    case $line[1] in
%s    esac
}
if [[ $funcstack[1] == _rdzvctl ]]; then
    _rdzvctl "$@"
else
    compdef _rdzvctl rdzvctl
fi
""" % ("".join("_rdzvctl_%s() { _rdzvctl_list %s }\n" % (name, name) for name in LISTS),
       "".join("        '%s:%s'\n" % (c.name, quoted(c.summary, ":")) for c in table.COMMANDS),
       zsh_options(ordered(table.COMMON)), "".join(map(zsh_command, table.COMMANDS)))


def fish_words(words):
    if words in LISTS:
        return " -a '(rdzvctl --timeout 1s %s -o name 2>/dev/null)'" % words
    return " -F" if words == "files" else " -a '%s'" % (NAMES if words == "commands" else words) if words else ""


def fish_options(options, when=""):
    return "".join("complete -c rdzvctl%s -l %s%s%s%s -d '%s'\n" % (
        when, o.name, " -s " + o.letter if o.letter else "",
        (" -r" if o.words == "files" else " -x") if o.value else "",  # x: and no files
        fish_words(o.words), quoted(o.help)) for o in options)


def fish():
    text = "# Completion of rdzvctl for fish; made by `rdzvctl completion fish`.\ncomplete -c rdzvctl -f\n"
    text += fish_options(ordered(table.COMMON))
    for c in table.COMMANDS:
        when = " -n '__fish_seen_subcommand_from %s'" % c.name
        text += "complete -c rdzvctl -n __fish_use_subcommand -a %s -d '%s'\n" % (c.name, quoted(c.summary))
        text += fish_options(ordered(c.options), when)
        text += "complete -c rdzvctl%s%s\n" % (when, fish_words(c.words)) if c.words else ""
    return text


# ---- C


def ids(options):
    return " | ".join("1u << OPTION_" + o.name.upper().replace("-", "_") for o in options)


def columns(table):
    """The columns of one of commands.TABLES."""
    parts = [re.fullmatch(r"([A-Z0-9 ]+) ([a-z0-9_-]+)(?: (\w+))?", column).groups() for column in table.split(", ")]
    return ", ".join('{"%s", %s, cell_%s}' % (head, "NULL" if member == "-" else '"%s"' % member, kind or "text")
                     for head, member, kind in parts)


def write_tables(f):
    f.write("/* Made by client/ctl/texts.py. */\n")
    f.write('#include "client/ctl/commands.h"\n\n#include "client/ctl_run.h"\n\n')
    f.write("const struct ctl_option ctl_options[OPTION_COUNT_OF_ALL] = {\n")
    for o in table.OPTIONS:
        f.write('    [%s] = {"%s", %s, %s, %s},\n' % (
            ids([o]).split()[-1], o.name, "'%s'" % o.letter if o.letter else "0",
            '"%s"' % o.value if o.value else "NULL", "offsetof(struct ctl, %s)" % o.member if o.member else "0"))
    f.write("};\n\nconst struct ctl_command ctl_commands[] = {\n")
    for c in table.COMMANDS:
        run = "run_over_c10d" if c.name in table.OVER_C10D else "run"
        f.write('    {"%s", "%s", %d, %d,\n     %s,\n     %s, .%s = run_%s%s},\n' % (
            c.name, c.syntax, c.least, c.most, ids(of_command(c)),
            '"%s"' % table.QUESTIONS[c.name] if c.name in table.QUESTIONS else "NULL",
            run, "order" if c.name in table.ORDERS else "list" if c.name in table.LISTS else c.name,
            ", .print = print_" + c.name if c.name in table.LISTS else ""))
    f.write("    {.name = NULL},\n};\n")


def write_functions(f):
    f.write('/* Made by client/ctl/texts.py. */\n#pragma once\n\n#include "client/ctl/ctl.h"\n\n')
    f.write("struct ctl_view;\nstruct rdzv_client;\n\n")
    f.write("enum ctl_option_id {\n%s    OPTION_COUNT_OF_ALL,\n};\n\n" % "".join(
        "    %s,\n" % ids([o]).split()[-1] for o in table.OPTIONS))
    for name, text in table.TABLES.items():
        f.write("#define COLUMNS_%s {%s, {.head = NULL}}\n" % (name.upper(), columns(text)))
    f.write("\nenum ctl_exit run_order(const struct ctl *ctl);\nenum ctl_exit run_list(const struct ctl *ctl);\n")
    f.writelines("enum ctl_exit print_%s(const struct ctl_view *view);\n" % name for name in table.LISTS)
    for c in table.COMMANDS:
        if c.name in table.ORDERS + table.LISTS:
            continue
        f.write("enum ctl_exit run_%s(const struct ctl *ctl%s);\n" % (
            c.name, ", struct rdzv_client *c" if c.name in table.OVER_C10D else ""))


def write_texts(f, version):
    texts = [("help", "", help_of_all()), ("options", "", help_of_options(ordered(table.COMMON)))]
    texts += [("help", c.name, help_of(c)) for c in table.COMMANDS]
    texts += [("man", "", manual_page(version))]
    texts += [("completion", "bash", bash()), ("completion", "zsh", zsh()), ("completion", "fish", fish())]
    f.write('/* Made by client/ctl/texts.py. */\n#include "client/ctl/commands.h"\n\n')
    f.write("const struct ctl_text ctl_texts[] = {\n")
    for kind, name, text in texts:
        f.write('    {"%s", "%s",\n%s},\n' % (kind, name, literal(text.encode())))
    f.write("    {.text = NULL},\n};\n")


def main():
    tables, _, version, texts, functions = sys.argv[1:]
    with open(tables, "w", encoding="ascii") as f:
        write_tables(f)
    with open(texts, "w", encoding="ascii") as f:
        write_texts(f, version)
    with open(functions, "w", encoding="ascii") as f:
        write_functions(f)


if __name__ == "__main__":
    main()
