#!/usr/bin/env python3
"""Makes manual pages and completions of shells from what a program says of its own options.

    pages.py man TABLE PAGE.in VERSION       the page, with @NAME@ replaced by what is in the table
    pages.py bash|zsh|fish TABLE PROGRAM     the completion

A table is what `rdzvd --help` or deploy/verbs.py prints: settings, or verbs with their options. The words "@platforms" and so on stand for files of deploy/data. The result goes to standard output.
"""
import json
import os
import re
import sys

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
FILES = {"@files": ("compopt -o default; return", ":_files", "-r -F"),
         "@folders": ("compopt -o default; return", ":_files -/", "-r -F")}


# ---- manual pages


def roff(text):
    """Text whose marks mean nothing to groff; `commands` in bold."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha").replace("~", "\\(ti")
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", text)
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def paragraphs(text):
    return "\n.PP\n".join(roff(p) for p in text.split("\n\n")) if text else ""


def flag(option, joint):
    value = option.get("value")
    names = ["\\fB\\-%s\\fR" % option["letter"]] if option.get("letter") else []
    names.append("\\fB\\-\\-%s\\fR" % roff(option["name"]))
    return ", ".join(names) + ("%s\\fI%s\\fR" % (joint, roff(value)) if value else "")


def about(option):
    default = option.get("default")
    return roff(option["help"] + (" (%s)" % default if default else ""))


def grouped(settings, head):
    lines, group = [], None
    for s in settings:
        if s["group"] != group:
            group = s["group"]
            lines.append(".SS %s" % group)
        lines.append(".TP\n%s\n%s" % (head(s), about(s)))
    return "\n".join(lines)


def page_of_settings(table):
    in_file = [s for s in table if s["in_file"]]
    return {
        "options": grouped(table, lambda s: flag(s, "=")),
        "settings": grouped(in_file, lambda s: "\\fB%s\\fR: \\fI%s\\fR" % (
            roff(s["name"]), roff(s["value"] if s["type"] == "word" else s["type"]))),
        "off": ", ".join("\\fB%s\\fR" % roff(s["name"]) for s in table if "off" in s["words"].split()
                         and s["type"] != "word"),
    }


def page_of_verbs(table):
    lines = []
    for verb in table["verbs"]:
        lines.append(".SS %s %s" % (verb["name"], roff(verb["syntax"])))
        lines.append(paragraphs(verb["about"]))
        lines += [".TP\n%s\n%s" % (flag(o, " "), about(o)) for o in verb["options"]]
        if verb.get("more"):
            lines.append(".PP\n" + paragraphs(verb["more"]))
    return {"verbs": "\n".join(lines)}


def man(table, template, version):
    with open(template, encoding="utf-8") as f:
        text = f.read()
    parts = page_of_settings(table) if isinstance(table, list) else page_of_verbs(table)
    return re.sub(r"@(\w+)@", lambda m: version if m.group(1) == "version" else parts[m.group(1)], text)


# ---- completion: the tables of options as contexts, each option with its words for completion


def listed(kind):
    """What `rdzv-manifest list KIND` lists, from the data files that the program embeds."""
    if kind in ("rules", "settings"):
        with open(os.path.join(DATA, kind + ".yaml"), encoding="utf-8") as f:
            return re.findall(r"^- id: (\S+)" if kind == "rules" else r"^(\w+):", f.read(), flags=re.M)
    return sorted(name[:-len(".yaml")] for name in os.listdir(os.path.join(DATA, kind)))


def contexts(table):
    """(verb or "", options, words); words as in the table, with lists in place of their names."""
    if isinstance(table, list):
        return [("", table, "")]

    def expand(words):
        return " ".join(" ".join(listed(w[1:])) if w[0] == "@" and w not in FILES else w
                        for w in (words or "").split())

    return [(v["name"], [dict(o, words=expand(o.get("words"))) for o in v["options"]],
             expand(v.get("words"))) for v in table["verbs"]]


def spellings(option):
    return ["--" + option["name"]] + (["-" + option["letter"]] if option.get("letter") else [])


def quoted(text, marks=""):
    return "".join("'\\''" if c == "'" else "\\" + c if c in marks else c for c in text)


def bash(table, program):
    joint = "=" if isinstance(table, list) else ""
    cases, verbs = [], []
    for verb, options, words in contexts(table):
        for o in options:
            if o.get("value"):
                act = FILES[o["words"]][0] if o["words"] in FILES else "words='%s'" % quoted(o["words"])
                cases.append("    %s) %s ;;" % (
                    " | ".join("%s:%s" % (verb, name) for name in spellings(o)), act))
        names = ["%s%s" % (n, joint if o.get("value") and n.startswith("--") else "")
                 for o in options for n in spellings(o)] + ["--help"] * bool(verb)
        act = "compopt -o default; words=''" if words in FILES else "words='%s'" % quoted(words)
        verbs.append("        %s:-*) words='%s' ;;\n        %s:*) %s ;;" % (
            verb, " ".join(names), verb, act))
    if not isinstance(table, list):
        verbs.insert(0, "        :*) words='%s --help --version' ;;" % " ".join(
            v["name"] for v in table["verbs"]))
    return """# Completion of {0} for bash; made from its own table of options.
_{1}()
{{
    local line=${{COMP_LINE:0:COMP_POINT}} given current="" cut=${{COMP_WORDS[COMP_CWORD]}}
    local verb="" flag="" words=""
    read -ra given <<<"$line"
    [[ $line == *' ' ]] || {{ current=${{given[-1]}}; unset 'given[-1]'; }}
    COMPREPLY=()
    {2}
    case $current in
    --*=*) flag=${{current%%=*}} current=${{current#*=}} ;;
    *) flag=${{given[-1]}} ;;
    esac
    case $verb:$flag in
{3}
    *)
        case $verb:$current in
{4}
        esac
        ;;
    esac
    [[ $cut != [=:] ]] || cut=""
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    COMPREPLY=("${{COMPREPLY[@]#"${{current%"$cut"}}"}}")
    [[ ${{COMPREPLY-}} != *= ]] || compopt -o nospace
}}
complete -F _{1} {0}
""".format(program, program.replace("-", "_"),
           "verb=\"\"" if isinstance(table, list) else "verb=${given[1]-}",
           "\n".join(cases), "\n".join(verbs))


def zsh_option(o, joint):
    value = ""
    if o.get("value"):
        words = o.get("words") or ""
        what = FILES[words][1] if words in FILES else ":(%s)" % quoted(words) if words else ": "
        value = ":%s%s" % (quoted(o["value"], ":"), what)
    text = "[%s]%s" % (quoted(o["help"], "[]:"), value)
    again = o.get("repeatable") or "repeatable" in o["help"]
    joint = joint if o.get("value") else ""
    return " \\\n        ".join("'%s%s%s%s'" % ("*" if again else "", name, joint if name[1] == "-" else "",
                                               text) for name in spellings(o))


def zsh(table, program):
    name = "_" + program  # that of the file, which zsh loads as a function
    out = ["#compdef %s\n# Completion of %s for zsh; made from its own table of options.\n%s()\n{" % (
        program, program, name)]
    if isinstance(table, list):
        out.append("    _arguments \\\n        " + " \\\n        ".join(zsh_option(o, "=-") for o in table))
    else:
        out.append("    local state line\n    local -a verbs\n    typeset -A opt_args\n    verbs=(%s)\n"
                   "    _arguments -C '--help[print the verbs]' '--version[print the version]' \\\n"
                   "        '1:verb:->verbs' '*::word:->words'\n"
                   "    [[ $state != verbs ]] || _describe verb verbs\n"
                   "    [[ $state == words ]] || return\n    case $line[1] in" % " ".join(
                       "'%s:%s'" % (v["name"], quoted(v["summary"], ":")) for v in table["verbs"]))
        for verb, options, words in contexts(table):
            specs = [zsh_option(o, "=") for o in options] + ["'--help[say what it does]'"]
            if words:
                specs.append("'*:word%s'" % (FILES[words][1] if words in FILES else ":(%s)" % words))
            out.append("    %s)\n        _arguments %s ;;" % (verb, " \\\n        ".join(specs)))
        out.append("    esac")
    out.append("}\nif [[ $funcstack[1] == %s ]]; then\n    %s \"$@\"\nelse\n    compdef %s %s\nfi\n" % (
        name, name, name, program))
    return "\n".join(out)


def fish(table, program):
    out = ["# Completion of %s for fish; made from its own table of options.\ncomplete -c %s -f" % (
        program, program)]
    if not isinstance(table, list):
        for v in table["verbs"]:
            out.append("complete -c %s -n __fish_use_subcommand -a %s -d '%s'" % (
                program, v["name"], quoted(v["summary"])))
    for verb, options, words in contexts(table):
        when = " -n '__fish_seen_subcommand_from %s'" % verb if verb else ""
        for o in options:
            line = "complete -c %s%s -l %s" % (program, when, o["name"])
            line += " -s %s" % o["letter"] if o.get("letter") else ""
            if o.get("value"):
                known = o.get("words") or ""
                line += " " + (FILES[known][2] if known in FILES else
                               "-x" + (" -a '%s'" % quoted(known) if known else ""))
            out.append("%s -d '%s'" % (line, quoted(o["help"])))
        if words:
            out.append("complete -c %s%s %s" % (program, when, "-F" if words in FILES else
                                                "-a '%s'" % quoted(words)))
    return "\n".join(out) + "\n"


# ---- the help of rdzvd


def kind_of_value(value):
    """The type that a value has in a file, for a person."""
    if re.search(r"NAMES|NAME,|^ADDR", value):
        return "text, or a list of texts"
    kinds = {"DURATION": "duration", "SIZE": "size", "COUNT": "number"}
    return "word" if "|" in value and value.islower() else kinds.get(value.split("|")[0], "text")


def words_of(name, value):
    """The words for completion; "@files" and "@folders" stand for names of files and folders."""
    if name.endswith("-file") or name == "config":
        return "@files"
    if value == "DIR":
        return "@folders"
    return " ".join(word for word in value.split("|") if "|" in value and word.islower() and word != "system")


def settings_of_help(text):
    settings, group = [], None
    for line in text.splitlines():
        option = re.match(r"  --([a-z0-9-]+)(?:=(\S+))?  +(.*?)(?: \(([^()]*)\))?$", line)
        if option is None:
            group = line[:-1] if line.endswith(":") else group
            continue
        name, value, about_it, default = option.groups()
        settings.append({"group": group, "name": name, "value": value, "help": about_it, "default": default,
                         "type": kind_of_value(value or ""), "words": words_of(name, value or ""),
                         "in_file": value is not None and name != "config" and not name.startswith("check-")})
    return settings


def main():
    kind, path, *rest = sys.argv[1:]
    with open(path, encoding="utf-8") as f:
        text = f.read()
    table = json.loads(text) if text.startswith("{") else settings_of_help(text)
    sys.stdout.write({"man": man, "bash": bash, "zsh": zsh, "fish": fish}[kind](table, *rest))


if __name__ == "__main__":
    main()
