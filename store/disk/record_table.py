#!/usr/bin/env python3
"""Makes of proto/record.proto the table of store/disk/record.c: for each kind of change, the fields of its message; and the
kinds themselves, for store/change/change.h.

    record_table.py RECORD.proto TABLE.h KINDS.h

In a comment of the proto, `-> MEMBER` names the member of struct change for a kind, or for a field; with a full stop behind
it, the member is a struct, in which each field has a member of its own name.
"""
import re
import sys

TYPES = {"bytes": "BYTES", "bool": "BOOL", "uint32": "UINT32(%s)", "uint64": "U64", "fixed64": "FIXED", "sfixed64": "FIXED"}


def read(text):
    """The messages and the enums, each a list of (type, name, number, comment)."""
    found, parts = {}, None
    for line in text.splitlines():
        head = re.match(r"(?:message|enum) (\w+) \{", line)
        part = re.match(r" +(?:repeated )?(?:(\w+) )?(\w+) = (\d+);(.*)", line)
        if head:
            parts = found[head[1]] = []
        elif part:
            parts.append((part[1], part[2], int(part[3]), part[4]))
    return found


def member(comment, otherwise):
    said = re.search(r"-> ([\w.\[\]]+)", comment)
    return said[1] if said else otherwise


def row(found, type, number, name, comment):
    """One field: its number, its type, the place, and the first and the last of an enum."""
    if type not in found:
        kind = TYPES[type]
        return "{%d, %s, AT(%s)}" % (number, kind % name if "%" in kind else kind, name)
    of = {n: v for _, n, v, _ in found[type]}
    first, last = re.search(r"([A-Z\d_]+) to ([A-Z\d_]+)", comment).groups()
    return "{%d, ENUM, AT(%s), %d, %d}" % (number, name, of[first], of[last])


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        found = read(f.read())
    with open(sys.argv[2], "w", encoding="utf-8") as out, open(sys.argv[3], "w", encoding="utf-8") as kinds:
        for message, kind, number, comment in found["Record"]:
            if message not in found:
                continue  # a field of the record itself
            kinds.write("CHANGE_%s = %d,\n" % (kind.upper(), number))
            base = member(comment, None)
            rows = [row(found, t, n, base + member(c, name) if base.endswith(".") else base, c)
                    for t, name, n, c in found[message]]
            out.write("[%d] = {%s}, /* CHANGE_%s */\n" % (number, ", ".join(rows), kind.upper()))


main()
