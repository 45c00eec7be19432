#!/usr/bin/env python3
"""Writes files as tables in C: the YAML of settings, platforms, profiles and placements; the rules of check; verbs.py.

    embed.py OUT.c ROOT FILE...         each FILE is named as seen from ROOT
    embed.py --rules OUT.c OUT.h FILE   a list of rules, their texts folded (>-); the prototypes of their functions
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


def text(words):
    return literal(words.encode()) if words else " NULL"


def verbs(out):
    import verbs as table
    with open(out, "w", encoding="ascii") as f:
        f.write('/* Made by deploy/embed.py. */\n#include "deploy/verbs.h"\n')
        for verb in table.VERBS:
            f.write("\nconst struct verb_option %s_options[] = {\n" % verb.name)
            for o in verb.options:
                f.write("    {%s, '%s', %s,%s,\n%s},\n" % (text(o.name), o.letter, str(o.short).lower(), text(o.value),
                                                       text(o.help)))
            f.write("    {0}};\n")
        f.write("\nconst struct verb verbs[] = {\n")
        for verb in table.VERBS:
            parts = [text(part) for part in (verb.name, verb.syntax, verb.summary, verb.about, verb.more)]
            f.write("    {%s, %s_options, run_%s},\n" % (",\n".join(parts), verb.name, verb.name))
        f.write("};\n\nconst size_t verb_count = sizeof verbs / sizeof *verbs;\n")


def main():
    made = {"--rules": rules, "--verbs": verbs}
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
