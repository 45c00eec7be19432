"""Properties that rewrite keeps in every file: noise, line ends, other styles; and files that it changes in place. The
cases run with rewrite.py."""

import collections
import json
import os
import random
import re
import subprocess
import tempfile

from manifests import MANIFEST, Failed, check, documents, read, yaml
from rewrite_tool import GOLDEN, INPUTS, rewrite, same, same_objects


# ------------------------------------------------------------ properties


def apply_diff(old, diff):
    """Applies a diff like `patch`, to prove that every byte of the diff is right."""
    lines, out, at = old.splitlines(True), [], 0
    body = diff.splitlines(True)
    i = 0
    while i < len(body):
        if body[i].startswith((b"--- ", b"+++ ")):
            i += 1
            continue
        head = re.match(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", body[i])
        check(head, "no head of a hunk: %r" % body[i])
        start = int(head.group(1)) - (0 if head.group(2) == b"0" else 1)
        out += lines[at:start]
        at, i = start, i + 1
        while i < len(body) and not body[i].startswith((b"@@", b"--- ")):
            sign, text = body[i][:1], body[i][1:]
            if i + 1 < len(body) and body[i + 1].startswith(b"\\ No newline"):
                text, i = text[:-1], i + 1
            if sign in b" -":
                check(lines[at] == text, "line %d is %r, not %r" % (at + 1, lines[at], text))
                at += 1
            if sign in b" +":
                out.append(text)
            i += 1
    return b"".join(out + lines[at:])


def changes(args, data):
    """The output, and the lines that went and came."""
    out, _ = rewrite(args + ["-"], data=data)
    diff, _ = rewrite(args + ["--diff", "-"], data=data)
    same(apply_diff(data, diff), out, "the input with its own diff applied")
    lines = [line for line in diff.splitlines(True)[2:] if not line.startswith(b"@@")]
    return out, [[line[1:] for line in lines if line[:1] == sign] for sign in (b"-", b"+")]


NOISE = re.compile(rb"[ ]*# noise \d+ .*")

PLAIN_INPUTS = [(args, files[0]) for _, args, files, _ in GOLDEN if len(files) == 1 and
                files[0].endswith(".yaml")]


def quiet(gone, come):
    """What went and came without the noise, without what only noise moves (empty lines), and
    without lines that stay but for a comment behind them."""
    sides = []
    for lines in (gone, come):
        lines = [NOISE.sub(b"", line).rstrip() for line in lines]
        sides.append(collections.Counter(line for line in lines if line))
    return sides[0] - sides[1], sides[1] - sides[0]


def add_noise(data, rng):
    """Comments and blank lines wherever they mean nothing: not in block scalars."""
    out, tokens, block = [], [], None
    for line in data.splitlines(True):
        indent = len(line) - len(line.lstrip(b" "))
        if block is not None and line.strip() and indent <= block:
            block, fresh = None, False  # a comment here could be a line of the block yet
        else:
            fresh = True
        if block is None:
            while fresh and rng.random() < 0.15:
                tokens.append(b"# noise %d %s" % (len(tokens), rng.choice(
                    [b"{{ .x }}", b"'\"", b"- a: b", "ä€😀".encode(), b"&a *b |", b"--- etcd:2379"])))
                out.append(b" " * rng.randrange(12) + tokens[-1] + b"\n")
            if rng.random() < 0.1:
                out.append(rng.choice([b"\n", b"   \n"]))
            if re.search(rb"[|>][-+]?\s*$", line):
                block = indent
                dash = re.match(rb" *(- +)+", line)
                block = len(dash.group(0)) - 2 if dash else indent
            elif rng.random() < 0.2 and line.endswith(b"\n") and line.strip() not in (b"---", b"") \
                    and b" #" not in line and not line.startswith(b"#"):
                tokens.append(b"# noise %d %s" % (len(tokens), rng.choice([b"'", b"x: y", b"[", b"|"])))
                line = line[:-1] + b"  " + tokens[-1] + b"\n"
        out.append(line)
    return b"".join(out), tokens


def noise_stays(options):
    """rewrite keeps every comment, blank line and byte outside its edits, and its edits are the same as without the
    noise."""
    for i in range(options.rounds):
        seed = options.seed + i
        rng = random.Random(seed)
        args, name = rng.choice(PLAIN_INPUTS)
        plain = read(os.path.join(INPUTS, name))
        noisy, tokens = add_noise(plain, rng)
        try:
            check(documents(noisy) == documents(plain), "the noise means something")
            plain_out, (plain_gone, plain_come) = changes(args, plain)
            out, (gone, come) = changes(args, noisy)
            check(documents(out) == documents(plain_out), "the noise has changed the result")
            for now, then, what in zip(quiet(gone, come), quiet(plain_gone, plain_come),
                                       ("went", "came")):
                check(now == then, "other lines %s: %s" % (what, (now - then) + (then - now)))
            for line in come:
                noise = NOISE.search(line)
                check(noise is None or any(noise.group(0).strip() in g for g in gone),
                      "noise came: %r" % line)
            kept = sum(token in out for token in tokens)
            lost = sum(any(token in g for g in gone) and not any(token in c for c in come)
                       for token in tokens)
            check(kept + lost == len(tokens), "%d comments, %d kept, %d lost with their lines" % (
                len(tokens), kept, lost))
            again, _ = rewrite(args + ["-"], data=out, code=1)
            same(again, out, "what was rewritten, rewritten again,")
        except Failed as e:
            raise Failed("rewrite.py --only noise --seed %d --rounds 1 (%s %s): %s" % (
                seed, " ".join(args), name, e))


def line_ends(_):
    """CR LF stays CR LF, also in lines that are new; a file without a last newline stays without."""
    for args, name in PLAIN_INPUTS:
        plain = read(os.path.join(INPUTS, name))
        out, _ = rewrite(args + ["-"], data=plain)
        dos, _ = rewrite(args + ["-"], data=plain.replace(b"\n", b"\r\n"))
        same(dos, out.replace(b"\n", b"\r\n"), "%s with CR LF" % name)
        changes(args, plain.replace(b"\n", b"\r\n"))
        bare, _ = rewrite(args + ["-"], data=plain[:-1])
        same(bare, out[:-1], "%s without its last newline" % name)
        changes(args, plain[:-1])


def other_styles(options):
    """The same objects in JSON, and in other styles of YAML, come out with the same meaning."""
    for args, name in PLAIN_INPUTS:
        docs = documents(read(os.path.join(INPUTS, name)))
        want = unpacked(documents(rewrite(args + ["-"], data=read(os.path.join(INPUTS, name)))[0]))
        as_list = {"apiVersion": "v1", "kind": "List", "items": docs}
        dump = {"width": 1000, "sort_keys": False}
        for style, text in {
                "json": json.dumps(as_list), "indented json": json.dumps(as_list, indent=2),
                "flow": yaml.safe_dump_all(docs, default_flow_style=True, **dump),
                "block": yaml.safe_dump_all(docs, default_flow_style=False, **dump),
                "list": yaml.safe_dump(as_list, default_flow_style=False, **dump),
                "double": yaml.safe_dump_all(docs, default_style='"', **dump),
                "single": yaml.safe_dump_all(docs, default_style="'", **dump),
                "indented": "\n".join("   " + line for line in yaml.safe_dump(
                    as_list, default_flow_style=False, **dump).split("\n")).rstrip() + "\n"}.items():
            try:
                out = documents(rewrite(args + ["-"], data=text.encode())[0])
            except Failed as e:
                raise Failed("%s as %s: %s" % (name, style, e))
            out = unpacked(out)
            if style in ("double", "single"):  # there numbers are strings, and stay so
                out, wanted = texts(out), texts(want)
            else:
                wanted = want
            same_objects(one_line(out), one_line(wanted), "%s as %s" % (name, style))
            if style in ("json", "indented json"):
                json.loads(rewrite(args + ["-"], data=text.encode())[0])


def unpacked(docs):
    """The objects, without Lists around them."""
    out = []
    for doc in docs:
        out += unpacked(doc["items"]) if doc["kind"] == "List" else [doc]
    return out


def one_line(node):
    """Continued lines joined: where the style has no lines, an added flag stands beside another."""
    if isinstance(node, dict):
        return {k: one_line(v) for k, v in node.items()}
    if isinstance(node, list):
        return [one_line(v) for v in node]
    return re.sub(r" *\\\n *", " ", node) if isinstance(node, str) else node


def texts(node):
    if isinstance(node, dict):
        return {k: texts(v) for k, v in node.items()}
    if isinstance(node, list):
        return [texts(v) for v in node]
    if isinstance(node, bool):
        return str(node).lower()
    return "null" if node is None else str(node)


def in_place(_):
    """New files in place of the old, the old ones beside them, and nothing else."""
    source = ["files-etcd.yaml", "files-jobs.yaml", "untouched.yaml"]
    with tempfile.TemporaryDirectory() as folder:
        for name in source:
            with open(os.path.join(folder, name), "wb") as f:
                f.write(read(os.path.join(INPUTS, name)))
            os.chmod(os.path.join(folder, name), 0o640)
        os.symlink("files-jobs.yaml", os.path.join(folder, "link.yaml"))
        with open(os.path.join(folder, "files-etcd.yaml.bak"), "w") as f:
            f.write("an older one")
        files = ["files-etcd.yaml", "link.yaml", "untouched.yaml"]
        want = {}
        for name in source[:2]:
            diff, _ = rewrite(["--diff"] + source, code=0)
            part = diff.split(b"--- " + name.encode())[1].split(b"--- files")[0]
            want[name] = apply_diff(read(os.path.join(INPUTS, name)),
                                    b"--- " + name.encode() + part)
        out, err = rewrite(["--in-place"] + files, code=0, cwd=folder)
        check(out == b"", "it printed, too")
        check(sorted(os.listdir(folder)) == sorted(source + [
            "link.yaml", "files-etcd.yaml.bak", "files-etcd.yaml.bak.2", "files-jobs.yaml.bak"]),
            str(os.listdir(folder)), err.decode())
        for name, backup in (("files-etcd.yaml", ".bak.2"), ("files-jobs.yaml", ".bak")):
            same(read(os.path.join(folder, name)), want[name], name)
            same(read(os.path.join(folder, name + backup)), read(os.path.join(INPUTS, name)), backup)
            check(os.stat(os.path.join(folder, name)).st_mode & 0o777 == 0o640, "its rights changed")
        check(os.path.islink(os.path.join(folder, "link.yaml")), "the link is gone")
        before = sorted(os.listdir(folder))
        rewrite(["--in-place"] + files, code=1, cwd=folder)
        check(sorted(os.listdir(folder)) == before, "a second time left something")


def in_place_fails_whole(_):
    """If rewrite cannot write one of the files, it changes no file."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("files-etcd.yaml", "files-jobs.yaml"):
            with open(os.path.join(folder, name), "wb") as f:
                f.write(read(os.path.join(INPUTS, name)))
        fifo = os.path.join(folder, "fifo.yaml")
        os.mkfifo(fifo)
        process = subprocess.Popen([MANIFEST, "rewrite", "--in-place", "files-etcd.yaml",
                                    "fifo.yaml"], cwd=folder, stderr=subprocess.PIPE)
        with open(fifo, "wb") as f:
            f.write(read(os.path.join(INPUTS, "files-jobs.yaml")))
        err = process.communicate()[1]
        check(process.returncode == 2 and b"fifo.yaml: cannot be written" in err, err.decode())
        same(read(os.path.join(folder, "files-etcd.yaml")),
             read(os.path.join(INPUTS, "files-etcd.yaml")), "the file that could be written")
        check(sorted(os.listdir(folder)) == ["fifo.yaml", "files-etcd.yaml", "files-jobs.yaml"],
              str(os.listdir(folder)))
