#!/usr/bin/env python3
"""Writes the YAML files that describe settings, platforms, profiles and placements, or what rules say, as a table in C.

    embed.py OUT.c ROOT FILE...     each FILE is named as seen from ROOT
    embed.py --rules OUT.c FILE     a list of id, title, why and remedy, all but the id as folded text (>-)
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


def rules(out, path):
    """A build has no library for YAML: this reads the one form that the file has."""
    found, key = [], None
    with open(path, encoding="utf-8") as f:
        for line in f:
            text = line.strip()
            if text.startswith("- id: "):
                found.append({"id": text[6:]})
            elif line.startswith("    "):
                found[-1][key] += (" " if found[-1][key] else "") + text
            elif text and not text.startswith("#"):
                key, style = text.split(": ")
                if style != ">-" or key not in ("title", "why", "remedy"):
                    sys.exit("%s: %s: write `title: >-`, `why: >-` or `remedy: >-`" % (path, text))
                found[-1][key] = ""
    with open(out, "w", encoding="ascii") as f:
        f.write('/* Made by deploy/embed.py. */\n#include "deploy/check/check.h"\n\nconst struct check_text check_texts[] = {\n')
        for rule in found:
            f.write("    {%s},\n" % ",".join(literal(rule[k].encode()) for k in ("id", "title", "why", "remedy")))
        f.write("};\n")


def main():
    if sys.argv[1] == "--rules":
        rules(*sys.argv[2:])
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
