"""without_libuv.py DIR: makes torch/distributed in DIR ask for stores without libuv.

Debian builds torch without libuv, and such a build raises from every TCPStore(...) that does not
say use_libuv=False; torchrun's c10d backend says nothing. Only a copy made for tests is to be
changed. The bytes a client sends do not depend on it.
"""

import ast
import os
import re
import sys


def edit(source):
    """`source` with use_libuv=False in every TCPStore call and every default, and the count."""
    text = source.encode()  # ast counts bytes
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def at(line, column):
        return starts[line - 1] + column

    places = []  # (where, how many bytes go, what comes)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name == "TCPStore" and not any(k.arg == "use_libuv" for k in node.keywords):
                end = at(node.end_lineno, node.end_col_offset) - 1  # the closing bracket
                parts = [node.func, *node.args, *[k.value for k in node.keywords]]
                gap = text[max(at(p.end_lineno, p.end_col_offset) for p in parts):end]
                gap = re.sub(rb"#.*", b"", gap).rstrip()  # a comma may be there, and comments
                comma = b"" if gap.endswith((b",", b"(")) else b", "
                places.append((end, 0, comma + b"use_libuv=False"))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            named = node.args.args[len(node.args.args) - len(node.args.defaults):]
            pairs = list(zip(named, node.args.defaults))
            pairs += zip(node.args.kwonlyargs, node.args.kw_defaults)
            for arg, default in pairs:
                if arg.arg == "use_libuv" and getattr(default, "value", None) is True:
                    places.append((at(default.lineno, default.col_offset), len("True"), b"False"))
    for where, size, new in sorted(places, reverse=True):
        text = text[:where] + new + text[where + size:]
    return text.decode(), len(places)


def main():
    total = 0
    for folder, _, names in os.walk(sys.argv[1]):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not name.endswith(".py"):
                continue
            with open(path, encoding="utf-8") as f:
                source = f.read()
            if "TCPStore(" not in source and "use_libuv" not in source:
                continue
            changed, count = edit(source)
            if count:
                ast.parse(changed)
                with open(path, "w", encoding="utf-8") as f:
                    f.write(changed)
                print("install: without libuv: %s: %d places" % (path, count))
                total += count
    if total == 0:
        sys.exit("without_libuv.py: nothing to change under %s" % sys.argv[1])


if __name__ == "__main__":
    main()
