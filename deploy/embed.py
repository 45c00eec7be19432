#!/usr/bin/env python3
"""Writes files as tables in C: the YAML of settings, platforms, profiles and placements; the rules of check; verbs.py.

    embed.py OUT.c ROOT FILE...         each FILE is named as seen from ROOT
    embed.py --rules OUT.c OUT.h FILE   a list of rules, their texts folded (>-); the prototypes of their functions
    embed.py --kube OUT.c FOLDER        what check knows of Kubernetes, torch and rdzvd: kinds, variables, keys of --rdzv_conf, words,
                                        options
    embed.py --verbs OUT.c              the verbs, each with its options
"""
import os
import sys


def literal(data):
    """The bytes as C strings, a line each; numbers in octal, which end after three digits."""
    lines = []
    for line in data.splitlines(keepends=True):
        text = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else "\\%03o" % b for b in line)
        lines.append('     "%s"' % text)
    return "\n".join(lines) or '     ""'


def read_rules(path):
    """A build has no library for YAML: this reads the one form that the file has."""
    found, key = [], None
    with open(path, encoding="utf-8") as f:
        for line in f:
            text = line.strip()
            if text.startswith("- id: "):
                found.append({"id": text[6:], "first": ""})
            elif line.startswith("    "):
                found[-1][key] += (" " if found[-1][key] else "") + text
            elif text and not text.startswith("#"):
                key, value = text.split(": ")
                if (key in ("title", "why", "remedy")) != (value == ">-"):
                    sys.exit("%s: %s: write `title: >-`, `why: >-` or `remedy: >-`" % (path, text))
                found[-1][key] = "" if value == ">-" else value
    return found


def calls(words):
    return "{%s}" % ", ".join(".%s = check_%s" % tuple(call.split()) for call in words.split(",") if call)


def rules(out, header, path):
    found = read_rules(path)
    with open(header, "w", encoding="ascii") as f:
        f.write("/* Made by deploy/embed.py. */\n#pragma once\n\n")
        names = {call.strip() for rule in found for call in (rule["first"] + "," + rule["per"]).split(",")}
        f.writelines("check_per_%s check_%s;\n" % tuple(name.split()) for name in sorted(names - {""}))
    with open(out, "w", encoding="ascii") as f:
        f.write('/* Made by deploy/embed.py. */\n#include "deploy/check/check.h"\n\n')
        f.write("const struct check_rule check_rules[] = {\n")
        for rule in found:
            f.write('    {"%s", CHECK_%s, %s, %s,\n%s},\n' % (
                rule["id"], rule["severity"].upper(), calls(rule["first"]), calls(rule["per"]),
                ",".join(literal(rule[key].encode()) for key in ("title", "why", "remedy"))))
        f.write("};\n\nconst size_t check_rule_count = sizeof check_rules / sizeof *check_rules;\n")


def read_rows(path):
    """A list of mappings of plain words, a pair on each line."""
    found = []
    with open(path, encoding="utf-8") as f:
        for line in f:
            text = line.split("#")[0].strip()
            if text.startswith("- "):
                found.append({})
            if text:
                key, value = text.removeprefix("- ").split(": ")
                found[-1][key] = value
    return found


def quoted(word):
    return "NULL" if word is None else '"%s"' % word


def rdzvd_options(root):
    sys.path.append(os.path.join(root, "..", "..", "rdzv", "config"))
    import settings

    def row(s):
        words, kind, parse = (s["takes"] or "").split("|"), s["kind"], "NULL"
        if kind in ("duration", "size", "count"):
            parse = "units_parse_duration" if kind == "duration" else "units_parse_size"
            words += ["none"] * ("off" in words)
        elif words in (["on", "off"], ["true", "false"]):  # every boolean of Go
            words += "true false True False TRUE FALSE T F t f 1 0".split()
        elif s["name"] == "log-level":
            words += ["panic", "fatal"]
        hints = "units_%s_hints" % kind if kind in ("duration", "size") else "NULL"
        known = "WORDS(%s)" % ", ".join(map(quoted, words)) if parse != "NULL" or kind == "choice" else "NULL"
        return quoted(s["name"]), quoted(s["takes"]), known, parse, hints, str(s.get("least", 0))

    return [row(s) for s in settings.rows()]


def bits(form, words):
    return " | ".join(form % word for word in words.split())


def kube(out, root):
    def rows(name):
        return read_rows(os.path.join(root, name + ".yaml"))

    tables = {
        "struct kube_kind kube_kind": [
            (quoted(r.get("group", "")), quoted(r["kind"]), "KUBE_" + r["type"], quoted(r.get("platform"))) for r in rows("kinds")],
        "struct made_row made_row": [
            (bits("1u << KUBE_%s", r["types"]), "WORDS(%s)" % ", ".join(quoted(name) for name in r["names"].split()),
             "MADE_" + r.get("when", "ALWAYS"), quoted(r.get("key")), r.get("init", "false")) for r in rows("variables")],
        "struct rdzv_conf_key rdzv_conf_key": [
            (quoted(r["key"]), bits("RDZV_CONF_%s", r["backends"])) for r in rows("conf")],
        "struct job_option job_option": rdzvd_options(root)}
    with open(out, "w", encoding="ascii") as f:
        f.write('/* Made by deploy/embed.py. */\n#include "deploy/kube/job_parts.h"\n#include "deploy/kube/rdzv_conf.h"\n'
                '#include "deploy/kube/torchrun_args.h"\n')
        for table, lines in tables.items():
            name = table.split()[-1]
            f.write("\nconst %ss[] = {\n%s};\n" % (table, "".join("    {%s},\n" % ", ".join(line) for line in lines)))
            f.write("const size_t %s_count = sizeof %ss / sizeof *%ss;\n" % (name, name, name))
        lists = {}
        for r in rows("words"):
            lists.setdefault(r["list"], []).extend(r["words"].split())
        for name, words in lists.items():
            f.write("\nconst char *const %s[] = {%s, NULL};\n" % (name, ", ".join(map(quoted, words))))


COLUMNS = 100


def wrapped(text, indent=0, label=""):
    """The words behind `indent` blanks, as many on a line as fit; the label stands in the first blanks."""
    lines = [label.ljust(indent)]
    for word in text.split(" "):
        if len(lines[-1]) > indent and len(lines[-1]) + 1 + len(word) > COLUMNS:
            lines.append(" " * indent)
        lines[-1] += (" " if len(lines[-1]) > indent else "") + word
    return "\n".join(lines) + "\n"


def help_of(verb):
    def paragraphs(text):
        return "".join("\n" + wrapped(part) for part in text.split("\n\n") if text)

    options = ["  %s--%s%s" % ("-%s, " % o.letter if o.short else "    ", o.name, " " + o.value if o.value else "")
               for o in verb.options]
    return "rdzv-manifest %s %s\n%s%s%s" % (
        verb.name, verb.syntax, paragraphs(verb.about),
        "".join(["\n" * bool(options)] + [wrapped(o.help, 30, label) for o, label in zip(verb.options, options)]),
        paragraphs(verb.more))


def verbs(out):
    import verbs as table

    with open(out, "w", encoding="ascii") as f:
        f.write('/* Made by deploy/embed.py. */\n#include "deploy/verbs.h"\n')
        for verb in (verb for verb in table.VERBS if verb.options):
            f.write("\nstatic const struct option %s_names[] = {\n" % verb.name)
            for o in verb.options:
                f.write('    {"%s", %s, NULL, \'%s\'},\n' % (
                    o.name, "required_argument" if o.value else "no_argument", o.letter))
            f.write("    {0}};\nconst struct verb_options %s_options = {\":%s\", %s_names};\n" % (
                verb.name, "".join(o.letter + ":" * bool(o.value) for o in verb.options if o.short), verb.name))
        f.write("\nconst struct verb verbs[] = {\n")
        for verb in table.VERBS:
            f.write('    {"%s", run_%s,\n%s},\n' % (verb.name, verb.name, literal(help_of(verb).encode())))
        overview = table.HELP % "".join("  %-8s  %s\n" % (verb.name, verb.summary) for verb in table.VERBS)
        f.write("};\n\nconst size_t verb_count = sizeof verbs / sizeof *verbs;\n\nconst char verbs_help[] =\n%s;\n" %
                literal(overview.encode()))


def main():
    made = {"--rules": rules, "--kube": kube, "--verbs": verbs}
    if sys.argv[1] in made:
        made[sys.argv[1]](*sys.argv[2:])
        return
    out, root, files = sys.argv[1], sys.argv[2], sys.argv[3:]
    parts = ['/* Made by deploy/embed.py. */\n#include "deploy/template/files.h"\n\nconst struct embedded_file embedded_files[] = {\n']
    for path in sorted(files):
        with open(path, "rb") as f:
            data = f.read()
        parts.append('    {"%s", %d,\n%s},\n' % (os.path.relpath(path, root), len(data), literal(data)))
    parts.append("};\n\nconst size_t embedded_file_count = sizeof embedded_files / sizeof *embedded_files;\n")
    with open(out, "w", encoding="ascii") as f:
        f.write("".join(parts))


if __name__ == "__main__":
    main()
