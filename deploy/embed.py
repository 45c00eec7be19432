#!/usr/bin/env python3
"""Writes the YAML files that describe settings, platforms, profiles and placements as a table in C.

    embed.py OUT.c ROOT FILE...     each FILE is named as seen from ROOT
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


def main():
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
