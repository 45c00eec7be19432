"""The examples of deploy/README.md: its files, its emit commands, and their output, line by line.

In the section Six stories a block that begins with `# NAME.yaml` is a file, `rdzv-manifest emit` in a
block of sh runs with the files above it, and the next block that begins with `# after` holds lines
of its output, in their order; `...` stands for others.
"""

import os
import re
import shlex
import subprocess
import tempfile

import tool


def blocks():
    section = re.search(r"^## Six stories\n(.*?)^## ", read("deploy", "README.md"), re.M | re.S).group(1)
    return re.findall(r"^```(\w+)\n(.*?)^```", section, re.M | re.S)


def missing_line(shown, output):
    """The first line that is not there, behind those before it; without `...` it must come next."""
    lines, at, anywhere = output.split("\n"), 0, True
    for line in shown.rstrip("\n").split("\n"):
        if line == "...":
            anywhere = True
            continue
        found = [i for i in range(at, len(lines)) if lines[i] == line]
        if not found or (not anywhere and found[0] != at):
            return line
        at, anywhere = found[0] + 1, False
    return None


def read(*path):
    with open(os.path.join(tool.ROOT, *path), encoding="utf-8") as f:
        return f.read()


def functions(check):
    """deploy/data/README.md names the functions that templates can call, and no others."""
    code = re.findall(r'^    \{"(\w+)", \d, \d, fn_', read("deploy", "template", "functions.c"), re.M)
    text = re.search(r"^Functions: (.*?) Each ", read("deploy", "data", "README.md"), re.M | re.S).group(1)
    check(code and sorted(code) == sorted(re.findall(r"`(\w+)`", text)),
          "deploy/data/README.md has other functions than functions.c: %s" % sorted(
              set(code) ^ set(re.findall(r"`(\w+)`", text))))


def short_file(check):
    """The short user file of the section emit makes a job and its store."""
    section = re.search(r"^## emit.*?\n(.*?)^## ", read("deploy", "README.md"), re.M | re.S).group(1)
    text = re.search(r"^```yaml\n(.*?)^```", section, re.M | re.S).group(1)
    code, out, err = tool.run("emit", "-f", "-", stdin=text.encode())
    check(code == 0 and b"kind: Job\n" in out and b"kind: StatefulSet\n" in out,
          "deploy/README.md: job.yaml: %s" % err.decode())


KUBECTL = '''#!/bin/sh
# kubectl create secret generic NAME -n NAMESPACE --from-file=KEY=FILE...: puts the files into NAMESPACE/NAME.
to=$6/$4; mkdir -p "$to"; shift 6
for arg; do pair=${arg#--from-file=}; cp "${pair#*=}" "$to/${pair%%=*}"; done
'''


def own_secrets(check):
    """The commands of the section TLS make the Secrets of which emit's notes speak, with the names in them."""
    section = re.search(r"^### TLS\n(.*?)^### ", read("deploy", "README.md"), re.M | re.S).group(1)
    script, = re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)
    text, = re.findall(r"^```yaml\n(.*?)^```", section, re.M | re.S)
    base = b"jobName: my-job\nplatform: job\ncontainerImage: b:1\nnumPods: 2\nmainProgram: t.py\n"
    notes = tool.run("emit", "-f", "-", stdin=base + text.encode())[2].decode()
    wanted = re.findall(r"create the Secret (\S+) -n (\S+) with (.*?): the certificate has the (URI|DNS name) (\S+?),? ", notes)
    check(len(wanted) == 2, "deploy/README.md, TLS: notes: %s" % notes)
    with tempfile.TemporaryDirectory() as folder:
        stub = os.path.join(folder, "kubectl")
        with open(stub, "w", encoding="utf-8") as f:
            f.write(KUBECTL)
        os.chmod(stub, 0o755)
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder, capture_output=True, text=True,
                              env=dict(os.environ, PATH=folder + ":" + os.environ["PATH"]), timeout=60)
        check(done.returncode == 0, "deploy/README.md, TLS: %s" % done.stderr)
        for secret, namespace, keys, kind, name in wanted:
            made = os.path.join(folder, namespace, secret)
            check(sorted(os.listdir(made)) == sorted(re.findall(r"[\w.]+\.(?:crt|key)", keys)), "%s: %s" % (made, keys))
            names = subprocess.run(["openssl", "x509", "-in", os.path.join(made, "tls.crt"), "-noout", "-ext", "subjectAltName"],
                                   capture_output=True, text=True, check=True, timeout=30).stdout
            check("%s:%s\n" % (kind.split()[0], name) in names, "%s: %s is not in %s" % (secret, name, names))


def test(check, skip):
    own_secrets(check)
    functions(check)
    short_file(check)
    output, commands, shown = None, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, text in blocks():
            first, rest = (text.split("\n", 1) + [""])[:2]
            if kind == "yaml" and re.match(r"# [\w.-]+\.yaml$", first):
                with open(os.path.join(folder, first[2:]), "w", encoding="utf-8") as f:
                    f.write(rest)
            elif kind == "yaml" and first == "# after":
                shown += 1
                line = missing_line(rest, output)
                check(line is None, "deploy/README.md: not printed there: %r" % line)
            elif kind == "sh" and text.count("\n") == 1 and text.startswith("rdzv-manifest emit"):
                commands += 1
                code, out, err = tool.run(*shlex.split(text)[1:], cwd=folder)
                output = out.decode()
                check(code == 0, "deploy/README.md: %s: %s" % (text.strip(), err.decode()))
    check(commands == 5 and shown == 5, "deploy/README.md: %d commands, %d outputs" % (commands, shown))
