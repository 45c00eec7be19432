"""Rows of rdzv/TROUBLESHOOTING.md, and what is started for them: what the rows of troubleshooting.py share."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("support", "elastic", "torch")]
import torches  # noqa: E402
from agents import Agent  # noqa: E402
from c10d import Peer  # noqa: E402
from cases import check  # noqa: E402
from servers import ROOT, Rdzvd, rdzvd_binary  # noqa: E402


DOCUMENT = os.path.join(ROOT, "rdzv", "TROUBLESHOOTING.md")
WORKER = os.path.join(HERE, "troubleshooting_worker.py")
TOKEN = os.path.join(ROOT, "tests", "support", "operator.token")
TORCH_SECTION = "torch prints a message"
PROGRAMS = ("rdzvctl", "rdzvd", "rdzv-manifest", "curl", "ss", "python3")
AT_ONCE = 8  # the rows mostly wait
TORCH = torches.TORCHES["2.13.0"]
ROWS = {}  # symptom -> (function, instead)

NOT_STARTED = {
    "AssertionError in torch 2.5 to 2.11": "takes torch 2.6: tests/torch/repair.py --all",
    "exit code 137": "takes a kernel or a kubelet that kills rdzvd",
    "ImagePullBackOff of rdzvd": "takes a kubelet",
}


def row(symptom, instead=None):
    """The function starts the row whose symptom begins with this text."""
    def keep(function):
        ROWS[symptom] = (function, instead)
        return function
    return keep


# ------------------------------------------------------------ a row of the document


def plain(cell):
    """The text of a cell without marks and targets of links."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell).replace("`", "")


def same_digits(text):
    return re.sub(r"\d+", "0", text).lower()


class Row:
    def __init__(self, section, cells):
        self.symptom = plain(cells[0])
        leading = re.match(r"(`[^`]+`(, )?)*", cells[0]).group()
        self.unseen = set(re.findall(r"`([^`]+)`", leading)) if section == TORCH_SECTION else set()
        self.clauses = re.split(r"; (?=`|event)", re.sub(r"\]\([^)]*\)", "]", cells[2]))
        self.shown = False

    def see(self, *outputs):
        """Torch's messages, any numbers in them."""
        for output in outputs:
            text = same_digits(output)
            self.unseen -= {m for m in self.unseen if same_digits(m) in text}

    def show(self, store=None, relay=None, manifest=None, folder="DIR", logs=(), within=()):
        """Runs the commands of the third column and waits for its events; the outputs of the commands. `within`: the
        words that start a command."""
        places = {"STORE_HOST:29400": "127.0.0.1:%s" % store, "localhost:29400": "localhost:%s" % relay,
                  "job.yaml": manifest or "job.yaml", "DIR": folder}
        server = store if isinstance(store, str) else "127.0.0.1:%s" % (store or relay)
        env = dict(os.environ, RDZVCTL_SERVER=server, RDZVCTL_TOKEN_FILE=TOKEN)
        programs = os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary())))
        manifest_tool = os.environ.get("RDZV_MANIFEST", os.path.join(programs, "deploy", "rdzv-manifest"))
        env["PATH"] = ":".join([os.path.join(programs, "client"), os.path.dirname(os.path.abspath(rdzvd_binary())),
                                os.path.dirname(manifest_tool), env["PATH"]])
        outputs = []
        for clause in self.clauses:
            texts = re.findall(r'"([^"]+)"', clause)
            spans = re.findall(r"`([^`]+)`", clause)
            if re.match("events? ", clause):
                self.wait_event(clause, spans, texts, logs)
                self.shown = True
                continue
            output = ""
            for command in (s for s in spans if s.split()[0] in PROGRAMS):
                for word, place in places.items():
                    command = command.replace(word, place)
                done = subprocess.run([*within, "sh", "-c", command], env=env, capture_output=True, text=True,
                                      timeout=60)
                self.shown = True
                output += "$ %s\n%s%s" % (command, done.stdout, done.stderr)
            found = [text in output for text in texts]
            check(any(found) if '" or "' in clause else all(found), "%r is not in the output:\n%s" % (texts, output))
            outputs.append(output)
        return outputs

    def wait_event(self, clause, spans, texts, logs):
        """Until a line of a log has an event that the clause names, the fields and the texts."""
        names = re.findall(r"`(\w+)`", re.match(r"events? ((?:`\w+`(?: or )?)+)", clause).group(1))
        fields = [s for s in spans if s not in names and re.fullmatch(r"\w+", s)]
        texts = [re.escape(t) for t in texts]
        if '" or "' in clause:
            texts = ["|".join(texts)]
        pattern = r"event=(%s)\b" % "|".join(names) + "".join(
            "(?=.*(%s))" % t for t in texts + [r"\b%s=" % f for f in fields])
        wait_until(lambda: any(re.search(pattern, line) for d in logs for line in d.log().splitlines()),
                   lambda: "no %r in\n%s" % (pattern, "\n".join(d.log() for d in logs)))


def wait_until(condition, complaint, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < deadline, complaint())
        time.sleep(0.05)


def rows_of_document():
    with open(DOCUMENT, encoding="utf-8") as f:
        text = f.read()
    tables = re.findall(r"^## (.*)\n\n(?:[^|#].*\n+)*\| symptom \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M)
    found = [Row(section, line[2:-2].split(" | ")) for section, table in tables for line in table.splitlines()]
    check(len(found) >= 40, "only %d rows in %s" % (len(found), DOCUMENT))
    return found


# ------------------------------------------------------------ what a scene starts


class Torchrun:
    """A torchrun of torch 2.13.0, or a script, forked from a process that has loaded torch."""

    def __init__(self, forks, argv, env):
        self.process = forks.start(argv, env)
        self.lines = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.decode(errors="replace").rstrip())

    def text(self):
        return "\n".join(self.lines)

    def end(self, seconds=45):
        """Its output, when it has ended by itself."""
        self.process.wait(seconds)
        self.reader.join(seconds)
        return self.text()

    def stop(self):
        """torchrun ends its workers at SIGTERM."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)


class Scene(contextlib.ExitStack):
    """Starts servers and agents, and ends them with the row."""

    forks = None

    def rdzvd(self, *flags, **kwargs):
        return self.enter_context(Rdzvd("--admin-token-file=" + TOKEN, *flags, **kwargs))

    def relay(self, port, *flags):
        return self.enter_context(Rdzvd("--upstream=127.0.0.1:%d" % port, *flags))

    def folder(self):
        return self.enter_context(tempfile.TemporaryDirectory(prefix="rdzv-trouble-"))

    def agent(self, port, run="RUN", nnodes="1:1", worker="exit 0", conf="", backend="c10d", endpoint=None, more=()):
        """A torchrun with one worker, a line of sh."""
        conf = ",".join(["is_host=0"] * (backend == "c10d" and "is_host" not in conf) + [conf] * bool(conf))
        return self.script(
            "torch.distributed.run", "--nnodes=" + nnodes, "--nproc-per-node=1", "--rdzv-backend=" + backend,
            "--rdzv-endpoint=" + (endpoint or "127.0.0.1:%d" % port), "--rdzv-id=" + run, "--rdzv-conf=" + conf,
            "--local-addr=127.0.0.1", *more, "--no-python", "sh", "-c", worker)

    def script(self, *argv, **env):
        started = Torchrun(self.forks, list(argv), TORCH.environment(LOGLEVEL="INFO", **env))
        self.callback(started.stop)
        return started

    def peer(self, port):
        return self.enter_context(contextlib.closing(Peer(port)))

    def joins(self, port, run, name):
        """A scripted agent that has joined a run which needs more nodes."""
        agent = self.enter_context(contextlib.closing(Agent(port, run, name)))
        agent.join()
        return agent


def trains(scene, port):
    """An agent whose worker runs, which sends heartbeats more often than it reads."""
    agent = scene.agent(port, worker="echo trains; exec sleep 30", conf="keep_alive_interval=1",
                        more=("--monitor-interval=3",))
    wait_until(lambda: "trains" in agent.lines, agent.text)
    return agent


def joined(server, run="RUN", count=1, event="node_joined"):
    server.wait_log(r"event=%s .*run=%s\b" % (event, run), count=count)


def python_worker(what, seconds):
    return "exec %s %s %s %g" % (TORCH.python[0], WORKER, what, seconds)


# ------------------------------------------------------------ Kubernetes


def checked(name):
    """A manifest with that fault, from the tests of `rdzv-manifest check`."""
    return os.path.join(ROOT, "tests", "manifest", "check", name + ".bad.yaml")
