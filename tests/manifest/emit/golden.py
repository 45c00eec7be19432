"""What emit prints for given files, byte for byte: golden/NAME.yaml for the input of that name.

An input's first line holds the arguments: `# emit -f FILE ARGUMENT...`, files as seen from golden/.
`run_emit.py --update` writes the expected files; read what changed before you commit it.
"""

import json
import os
import re
import shlex

import tool

FOLDER = os.path.join(tool.HERE, "golden")


def cases():
    for name in sorted(os.listdir(FOLDER)):
        if name.endswith(".in.yaml"):
            with open(os.path.join(FOLDER, name), encoding="utf-8") as f:
                first = f.readline()
            match = re.match(r"# emit (.*)", first)
            if match:
                yield name[:-len(".in.yaml")], shlex.split(match.group(1))


def test(check, skip, update=False):
    count = 0
    for name, args in cases():
        count += 1
        code, out, err = tool.run("emit", *args, cwd=FOLDER)
        for suffix, text in ((".yaml", out), (".notes", err)):
            path = os.path.join(FOLDER, name + suffix)
            if update:
                with open(path, "wb") as f:
                    f.write(text)
                continue
            with open(path, "rb") as f:
                want = f.read()
            check(code == 0 and text == want,
                  "%s%s: exit %d, and not as expected: diff it with: (cd %s && %s emit %s)"
                  % (name, suffix, code, os.path.relpath(FOLDER), tool.TOOL, shlex.join(args)))
        again = tool.run("emit", *args, cwd=FOLDER)
        check(again == (code, out, err), "%s: a second run prints something else" % name)
        same = json.loads(tool.run("emit", *args, "-o", "json", cwd=FOLDER)[1])
        same = same["items"] if same["kind"] == "List" else [same]
        lines = tool.differences(tool.documents(out), same)
        check(not lines, "%s: JSON is not the same: %s" % (name, lines[:5]))
    check(count > 0, "no golden files in %s" % FOLDER)
