#!/usr/bin/env python3
"""Makes the table of metrics in C, their names, types and helps, of the tables in METRICS.md.

    metric_table.py METRICS.md OUT.c OUT.h
"""
import re
import sys


def read(text):
    """Name -> (type, help). A metric that several roles have stands in several tables."""
    found = {}
    for name, kind, about in re.findall(r"^\| `([a-z0-9_]+)(?:\{[a-z0-9_,]+\})?` \| (counter|gauge|histogram|summary) \| (.*) \|$",
                                        text, re.M):
        if found.setdefault(name, (kind, about)) != (kind, about):
            sys.exit("METRICS.md has two rows of %s that differ" % name)
    return found


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        found = read(f.read())
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write('/* Made by rdzv/admin/metric_table.py. */\n#include "rdzv/admin/metrics.h"\n\nconst struct metric_row metric_rows[] = {\n')
        for name, (kind, about) in found.items():
            f.write('    {"%s", "%s", "%s"},\n' % (name, kind, about.replace("\\", "\\\\").replace('"', '\\"')))
        f.write("};\n")
    with open(sys.argv[3], "w", encoding="utf-8") as f:
        f.write("/* Made by rdzv/admin/metric_table.py. */\n#pragma once\n\nenum metric {\n%s};\n" % "".join(
            "    METRIC_%s,\n" % name for name in found))


main()
