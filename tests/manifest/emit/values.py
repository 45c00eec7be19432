"""Text comes through as it was: any bytes in values, and command lines as a shell reads them.

Random, from seed $RDZV_SEED, else 1.
"""

import os
import random
import re
import subprocess

import yaml

import tool

TRAPS = ["", " ", "yes", "No", "on", "OFF", "y", "N", "true", "null", "~", "Null", "1", "0x10", "0o7",
         "010", "1e3", "1_000", ".5", "5.", "+1", "-0", ".inf", "-.INF", ".NaN", "1:30", "1:4",
         "2001-01-01", "2001-01-01T00:00:00Z", "=", "<<", "- a", "-a", "--a", "---", "...", "? a",
         "?a", ": a", ":a", "a: b", "a:b", "a:", "a #b", "a#b", "#a", "&a", "*a", "!a", "|", ">", "%a",
         "@a", "`a`", "'a'", '"a"', "{a}", "[a]", ",a", "a, b", "\ta", "a\t", "a\\nb", "\\", "a\nb",
         "a\nb\n", "a\n\nb\n\n", "\na", " a\nb", "a \nb ", "a\n  b\n c", "\t\n", "a\n\tb", "# a\nb",
         "a\r\nb", "\x7f", "\x85", "\u2028", "\ufeff", "\u00e4\u20ac", "\U0001f600", "0b11", "12e03",
         "1.2.3", "10.0.0.1", "0.5", "1,000", "0xZ", "e3", "_1", "$(A)", "$$", "${A}", "a" * 5000,
         "\u200b", "--- a", "-1x", "-.", "- ", "<", ">=", "~/x", "null ", "=x"]


def scalars(check, rng, seed):
    """Through a user file that PyYAML wrote, in JSON's manner, and back through PyYAML."""
    alphabet = "ab1 :#-?'\"\\\n\t$(){}[]&*!|>%@`,=~._\u00e4\u20ac\U0001f600\x7f\u2028"
    values = list(TRAPS)
    for _ in range(400):
        values.append("".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 30))))
    env = [{"name": "V%d" % i, "value": v} for i, v in enumerate(values)]
    source = yaml.safe_dump({"jobName": "a", "containerImage": "b", "platform": "job",
                             "mainProgram": "t.py", "environmentVariables": env}).encode()
    for extra in ([], ["-o", "json"]):
        documents = tool.emit("-f", "-", *extra, stdin=source)
        got = {e["name"]: e.get("value") for e in list(tool.containers(documents))[-1]["env"]}
        for i, value in enumerate(values):
            check(got.get("V%d" % i) == value, "%s: %r came out as %r (seed %d)"
                  % (extra, value, got.get("V%d" % i), seed))


def kubernetes(text, variables):
    """What Kubernetes makes of $(NAME) and $$ in a command."""
    out, i = "", 0
    while i < len(text):
        if text[i] == "$" and i + 1 < len(text):
            if text[i + 1] == "$":
                out, i = out + "$", i + 2
                continue
            match = re.match(r"\$\(([^)]*)\)", text[i:])
            if match:
                out += variables.get(match.group(1), match.group(0))
                i += match.end()
                continue
        out, i = out + text[i], i + 1
    return out


SHOW = "import sys; sys.stdout.write(repr(sys.argv[1:]))"
VARIABLES = {"A": "from-kubernetes", "PET_RDZV_ID": "an-id", "hostname": "from-kubernetes"}


def run_words(words):
    """The arguments that a program gets when these words are run; torchrun is a program that shows them."""
    script = 'torchrun() { python3 -c "$SHOW" "$@"; }\n'
    if words[:2] == ["sh", "-c"]:
        text = words[2].replace("exec torchrun", "torchrun")
        done = subprocess.run(["bash", "--posix", "-c", script + text], capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "SHOW": SHOW, "A": "from-the-shell"},
                              timeout=60)
        return done.stdout
    return repr(words[1:])


COMMANDS = [
    "t.py", "t.py --a b", "t.py  --a   b ", "t.py 'a b' \"c d\"", "t.py a'b c'd", "t.py ''", "t.py \\ a",
    "t.py 'a\\b' \"a\\\"b\" a\\'b", "t.py \"$A\" $A", "t.py '$A'", "t.py '$(A)' '$$' a$b", "t.py $(echo x)",
    "t.py `echo y`", "t.py \"$(hostname)\" '|| true'", "t.py a=b=c --x=,y", "t.py '\"'", "t.py a~b",
    "t.py $$$$a", "t.py '$$$(A)'", "t.py \"a\\$b\"", "t.py 'a;b' a\\;b", "t.py \u00e4 '\u20ac'",
    "t.py $(echo a; echo b | cat && echo \"c)\")", "t.py `echo a; echo b`", "t.py \"${B:-it's; & |}\" 2>&1",
    "t.py a # don't; stop", "t.py \\\n  --a \\\n  b", "t.py $((1 + (2 * 3)))", "t.py a#'b;'", "t.py \"'\" '\"'",
    "t.py '*' a\\*b", "t.py a#b", "t.py \"a\\nb\"", "t.py 'a\nb'",
]


def commands(check):
    for command in COMMANDS:
        for setup in ([], ["true"]):
            source = yaml.safe_dump({"jobName": "a", "containerImage": "b", "platform": "pytorchjob",
                                     "setupCommands": setup, "mainProgram": command}).encode()
            words = next(c["command"] for c in tool.containers(tool.emit("-f", "-", stdin=source))
                         if c["name"] == "pytorch")
            got = run_words([kubernetes(w, VARIABLES) for w in words])
            plain = run_words(["sh", "-c", "torchrun " + command])
            # $$ is the number of a process: it must reach the shell, and differs from run to run.
            if "$$" in command and "'" not in command:
                check("$$$$" in words[-1].replace("$$$$$$$$", "$$$$") and words[0] == "sh", repr(words))
                continue
            check(got == plain, "%r with %r: %s, but a shell gives %s: %r"
                  % (command, setup, got, plain, words))


def test(check, skip):
    seed = int(os.environ.get("RDZV_SEED", "1"))
    rng = random.Random(seed)
    print("values: seed %d" % seed)
    scalars(check, rng, seed)
    commands(check)
