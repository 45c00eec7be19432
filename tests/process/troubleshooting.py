"""rdzv/TROUBLESHOOTING.md against the programs: each symptom is started with a real rdzvd, and with real torch where
torch prints the message; then the command of the third column is run, and shows what the row says.

    troubleshooting.py [WORD...]        all rows, or the rows whose symptom contains a WORD

A row of the document has a function with @row here, which starts its symptom. If the symptom needs a GPU, a cluster
or a minute, `instead` names that, and the function only makes the state in which the command shows what the row says;
or it is listed in NOT_STARTED. A row without any of these fails the test. Several rows run at the same time.
"""

import concurrent.futures
import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("support", "elastic", "torch")]
import torches  # noqa: E402
from agents import Agent, meet, read_together  # noqa: E402
from c10d import Peer, modern  # noqa: E402
from cases import check  # noqa: E402
from certs import Ca  # noqa: E402
from disk import NEEDS_ROOT, fill_disk, put_ballast, small_disk  # noqa: E402
from forked import Forks  # noqa: E402
from servers import ROOT, Rdzvd, Server, free_port, rdzvd_binary  # noqa: E402

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
    "etcd says database space exceeded": "takes a full etcd: tests/process/replicas_etcd.py",
    "connections from other machines are closed at once": "takes another address: tests/process/tls.py only_allowed_networks_may_connect",
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


# ------------------------------------------------------------ torch prints a message


@row("RendezvousTimeoutError")
def too_few_nodes(r, scene):
    store = scene.rdzvd()
    agent = scene.agent(store.port, nnodes="2:2", conf="join_timeout=3")
    joined(store)
    r.show(store=store.port)
    r.see(agent.end())


@row("RendezvousClosedError, at the start")
def closed_at_start(r, scene):
    store = scene.rdzvd("--closed-run-ttl=1h", "--closed-run-wait=1s")
    scene.agent(store.port).end()
    r.see(scene.agent(store.port).end())
    r.show(store=store.port, logs=[store])


@row("RendezvousClosedError, at the start, of some hosts")
def closed_for_a_spare(r, scene):
    store = scene.rdzvd("--closed-run-ttl=100ms", "--closed-run-wait=1s")
    done, = meet(store.port, "RUN", ["a"])
    spare = Agent(store.port, "RUN", "127.0.0.1")
    spare.wait_in_line()
    done.finish(0)
    done.close_run()
    for agent in (done, spare):
        agent.close()
    store.wait_log("event=run_forgotten .*run=RUN")
    r.see(scene.agent(store.port).end())
    r.show(store=store.port, logs=[store])


@row("RendezvousClosedError, in a running job")
def closed_in_job(r, scene):
    store = scene.rdzvd()
    agents = [scene.agent(store.port, nnodes="2:2", worker=w) for w in ("sleep 30", "sleep 1; exit 3")]
    r.see(agents[0].end())
    r.show(store=store.port, logs=[store])


@row("RendezvousClosedError, over etcd-v2")
def closed_over_etcd(r, scene):
    store = scene.rdzvd()
    scene.agent(store.port, backend="etcd-v2").end()
    r.see(scene.agent(store.port, backend="etcd-v2").end())
    r.show(store=store.port)


@row("RendezvousConnectionError, wait timeout")
def store_away(r, scene):
    store = scene.rdzvd()
    relay = scene.relay(store.port)
    agent = scene.agent(relay.port, nnodes="2:2", conf="read_timeout=3,keep_alive_interval=60")
    # While it waits for the answer to a GET or COMPARE_SET, torch has no timeout: the store ends between two polls.
    polls = r'rdzvd_requests_total{.*"GET".*} [3-9]'
    wait_until(lambda: re.search(polls, get(store.port, "/metrics")[1]), lambda: get(store.port, "/metrics")[1])
    store.stop(signal.SIGKILL)
    relay.wait_log("event=upstream_failed")
    r.show(relay=relay.port)
    r.see(agent.end())


@row("Failed to recv, got 0 bytes, Broken pipe")
def store_restarts(r, scene):
    port = free_port()
    store = scene.rdzvd(listen=("127.0.0.1:%d" % port,))
    joins = scene.agent(port, run="FIRST", nnodes="2:2")
    beats = trains(scene, port)
    joined(store, "FIRST")
    store.stop(signal.SIGKILL)
    r.see(joins.end(), beats.end())
    r.show(logs=[scene.rdzvd(listen=("127.0.0.1:%d" % port,))])


@row("has failed to send a keep-alive heartbeat")
def heartbeat_fails(r, scene):
    store = scene.rdzvd()
    agent = trains(scene, store.port)
    store.stop(signal.SIGKILL)
    r.show(store=store.port)
    r.see(agent.end())


@row("has failed to shutdown the rendezvous")
def shutdown_fails(r, scene):
    ended_before_its_agent(r, scene)


@row("Error waiting on exit barrier")
def exit_barrier_fails(r, scene):
    ended_before_its_agent(r, scene)


def ended_before_its_agent(r, scene):
    port, folder = free_port(), scene.folder()
    store = scene.rdzvd(listen=("127.0.0.1:%d" % port,))
    goes_on = os.path.join(folder, "goes-on")
    os.mkfifo(goes_on)
    agent = scene.agent(port, worker="cat " + goes_on, more=("--monitor-interval=2",))
    joined(store, event="worker_store_assigned")
    with open(goes_on, "wb"):  # the worker runs
        store.stop(signal.SIGKILL)
    r.see(agent.end())
    check(agent.process.poll() in (0, 1), agent.text())
    if "exit barrier" in r.symptom:
        check(agent.process.poll() == 0, agent.text())
    r.show(logs=[scene.rdzvd(listen=("127.0.0.1:%d" % port,))])


@row("Connection reset by peer, while the store runs")
def dropped(r, scene):
    store = scene.rdzvd("--value-limit=50KiB")
    r.see(scene.script(WORKER, "value", str(store.port), "100000").end())
    r.show(logs=[store])


@row("The client socket has timed out")
def nobody_listens(r, scene):
    port = free_port()
    agent = scene.agent(port, conf="read_timeout=1")
    r.show(store=port)
    r.see(agent.end())


@row("DistNetworkError, and the endpoint's name is unknown")
def unknown_name(r, scene):
    agent = scene.agent(None, endpoint="store..x:29400", conf="read_timeout=1")  # no DNS server is asked for that
    r.see(agent.end())
    r.show(store="store..x:29400")


@row("EADDRINUSE, address already in use")
def second_store(r, scene):
    store = scene.rdzvd()
    r.see(scene.agent(store.port, conf="is_host=1,read_timeout=2").end())
    r.show(store=store.port)


@row("wait timeout after 300000ms, keys: /default_pg/0//")
def worker_waits(r, scene):
    store = scene.rdzvd()
    worker = scene.script(WORKER, "wait", "5", RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                          MASTER_PORT=str(store.port), TORCHELASTIC_USE_AGENT_STORE="True")
    waits_for_key(store)
    r.show(store=store.port)
    r.see(worker.end())


def waits_for_key(store):
    wait_until(lambda: re.search(r"rdzvd_space_waiters\S* [1-9]", get(store.port, "/metrics")[1]),
               lambda: "no client waits")


def get(port, path, **headers):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    c.request("GET", path, headers=headers)
    answer = c.getresponse()
    got = answer.status, answer.read().decode()
    c.close()
    return got


@row("is setting up NCCL communicator", instead="takes GPUs")
def waits_for_nccl(r, scene):
    store = scene.rdzvd()
    scene.peer(store.port).send(modern.wait(b"/default_pg/0//cuda//0"))
    waits_for_key(store)
    r.show(store=store.port)


@row("This is typically caused by a remote worker")
def gloo_loses_worker(r, scene):
    store = scene.rdzvd()
    agents = [scene.agent(store.port, nnodes="2:2", worker=python_worker("lose", 30),
                          more=("--monitor-interval=5",))  # it ends a worker no sooner, so the worker says why it fails
              for _ in range(2)]
    r.see(*[a.end() for a in agents])
    r.show(logs=[store])


@row("ChildFailedError, To enable traceback see")
def worker_fails(r, scene):
    store = scene.rdzvd()
    r.see(scene.agent(store.port, worker="exit 3").end())
    r.show(logs=[store])


@row("Rendezvous gracefully exited")
def spare(r, scene):
    store, folder = scene.rdzvd(), scene.folder()
    goes_on = os.path.join(folder, "goes-on")
    os.mkfifo(goes_on)
    scene.agent(store.port, worker="cat " + goes_on)
    joined(store, event="worker_store_assigned")
    with open(goes_on, "wb"):
        second = scene.agent(store.port)
        store.wait_log("event=node_joined .*role=spare")
    r.see(second.end())
    check(second.process.poll() == 1, second.text())
    r.show(logs=[store])


@row("The rendezvous state is corrupt")
def foreign_state(r, scene):
    store = scene.rdzvd()
    scene.peer(store.port).set(b"/torch.rendezvous.RUN", b"AAAA")
    r.see(scene.agent(store.port).end())
    check("AAAA" in r.show(store=store.port)[0], "the text that another program has written")


@row("UnicodeError: encoding with 'idna' codec failed")
def long_host_name(r, scene):
    if os.getuid() != 0:
        return "changing the host name takes root"
    store = scene.rdzvd()
    renamed = 'hostname %s && PYTHONWARNINGS=ignore exec "$@"' % ("n" * 64)
    there = ["unshare", "--uts", "sh", "-c", renamed, "sh"]
    argv = [*TORCH.python, "-m", "torch.distributed.run", "--nnodes=1:1", "--rdzv-backend=c10d",
            "--local-addr=127.0.0.1", "--rdzv-endpoint=127.0.0.1:%d" % store.port, "--rdzv-conf=is_host=0",
            "--no-python", "true"]
    done = subprocess.run(there + argv, env=TORCH.environment(), capture_output=True, text=True, timeout=60)
    r.see(done.stderr)
    r.show(within=there)
    return None


@row("The hostname of the rendezvous endpoint")
def endpoint_is_url(r, scene):
    store = scene.rdzvd()
    r.see(scene.agent(None, endpoint="http://127.0.0.1:%d" % store.port).end())
    r.show(manifest=checked("endpoint-scheme"))


@row("The connection to etcd has failed")
def no_etcd(r, scene):
    port = free_port()
    r.see(scene.agent(port, backend="etcd-v2").end())
    r.show(store=port)


# ------------------------------------------------------------ the job does not start, or a running job stops


@row("the first round takes 30 s")
def last_call(r, scene):
    store = scene.rdzvd()
    scene.agent(store.port, nnodes="1:2", conf="last_call_timeout=30")
    store.wait_log("event=last_call .*ends_in_ms=[23]")
    r.show(store=store.port, logs=[store])


@row("one agent waits alone")
def mistyped_space(r, scene):
    store = scene.rdzvd()
    relay = scene.relay(store.port, "--space=mistyped")
    scene.joins(relay.port, "RUN", "a")
    scene.joins(store.port, "RUN", "b")
    r.show(store=store.port, logs=[store])


@row("every agent waits alone")
def ids_differ(r, scene):
    store = scene.rdzvd()
    for run in ("id-17", "id-40"):
        scene.joins(store.port, run, "node-" + run)
    shown = r.show(store=store.port)[0]
    check("id-17" in shown and "id-40" in shown, shown)


@row("the workers of a second job do not connect")
def second_job(r, scene):
    store = scene.rdzvd()
    for run in ("FIRST", "SECOND"):
        for agent in meet(store.port, run, [run]):
            scene.callback(agent.close)
            agent.say_where(0, b"127.0.0.1", store.port)
            agent.ask_where(0)
    ports = {m.group(1) for m in store.wait_log(r"event=worker_store_assigned .*port=(\d+)", count=2)}
    check(len(ports) == 2, ports)
    check(max(ports, key=lambda p: p != str(store.port)) in r.show(store=store.port)[0], ports)


@row("workers are dropped at their first request")
def two_jobs_at_one_relay(r, scene):
    store = scene.rdzvd()
    relays = [scene.relay(store.port) for _ in range(2)]
    for run, relay in zip(("FIRST", "SECOND"), relays):
        for agent in meet(relay.port, run, [run]):
            scene.callback(agent.close)
            agent.say_where(0, b"127.0.0.1", relay.port)
            agent.ask_where(0)
    another = Agent(relays[0].port, "SECOND", "another")
    scene.callback(another.close)
    another.read()
    with contextlib.suppress(EOFError, ConnectionError):
        scene.peer(relays[0].port).add(b"/n", 1)
    store.wait_log("event=dropped .*several runs")
    r.show(logs=[store])


@row("workers do not connect behind NAT")
def address_of_agents(r, scene):
    store = scene.rdzvd()
    scene.agent(store.port).end()
    store.wait_log(r"event=worker_store_assigned .*address=127\.0\.0\.1 ")
    r.show(logs=[store])


@row("rdzvctl status shows no runs")
def no_repairs(r, scene):
    store = scene.rdzvd("--elastic-fixes=off")
    scene.joins(store.port, "RUN", "a")
    r.show(store=store.port)


@row("an agent that was started twice")
def one_name(r, scene):
    store = scene.rdzvd()
    for _ in range(2):
        scene.joins(store.port, "RUN", "a")
    r.show(store=store.port)


@row("a job is gone in the morning")
def job_has_failed(r, scene):
    store = scene.rdzvd()
    scene.agent(store.port, worker="exit 3").end()
    store.wait_log("event=run_forgotten")
    r.show(store=store.port)


@row("rdzvctl runs shows a job that was cancelled")
def job_was_cancelled(r, scene):
    store = scene.rdzvd()
    for agent in meet(store.port, "RUN", ["a", "b"]):
        agent.close()
    store.wait_log("event=node_disconnected", count=2)
    shown = r.show(store=store.port)[0]
    check("RUN " in shown, shown)


@row("a node is lost, and the others hang")
def loss_without_restart(r, scene):
    store = scene.rdzvd("--restart-on-loss=off")
    a, b = meet(store.port, "RUN", ["a", "b"])
    scene.callback(a.close)
    b.close()
    store.wait_log("event=node_disconnected")
    r.show(store=store.port)
    check("event=nodes_restarted" not in store.log(), store.log())


@row("a node is lost, and the others wait 30 s")
def loss_and_last_call(r, scene):
    store = scene.rdzvd()
    stays, goes = [scene.agent(store.port, nnodes="1:2", worker="sleep 40", conf="last_call_timeout=30")
                   for _ in range(2)]
    joined(store, event="round_complete")
    goes.process.kill()
    store.wait_log("event=last_call .*round=1 .*ends_in_ms=[23]")
    r.show(store=store.port, logs=[store])
    check(stays.process.poll() is None, stays.text())


@row("agents use up restarts when a node joins")
def late_agent(r, scene):
    store = scene.rdzvd()
    a, b = meet(store.port, "RUN", ["a", "b"])
    c = Agent(store.port, "RUN", "c")
    for agent in (a, b, c):
        scene.callback(agent.close)
    for _ in range(4):  # at the pace of torch, which rdzvd learns
        read_together([a, b])
        time.sleep(1)
    c.wait_in_line()
    a.begin_to_read()  # b reads no more
    store.wait_log("event=nodes_meet .*late=1 ")
    r.show(logs=[store])


@row("the same job restarts again and again")
def losses(r, scene):
    store = scene.rdzvd()
    a, b = meet(store.port, "RUN", ["a", "b"])
    scene.callback(a.close)
    b.close()
    store.wait_log("event=nodes_restarted")
    check("b (pid 100) was lost" in r.show(store=store.port)[0], "the reason names the node")


@row("agents end when the store restarts")
def store_without_directory(r, scene):
    port = free_port()
    store = scene.rdzvd(listen=("127.0.0.1:%d" % port,))
    relay = scene.relay(port)
    agent = scene.agent(relay.port, nnodes="2:2")
    joined(store)
    store.stop(signal.SIGKILL)
    scene.rdzvd(listen=("127.0.0.1:%d" % port,))
    check("Failed to recv" in agent.end(), agent.text())
    r.show(logs=[relay])


@row("agents end after a power cut of the store")
def older_directory(r, scene):
    """An older copy of the directory stands for a power cut."""
    port, folder = free_port(), scene.folder()
    data, copy = os.path.join(folder, "data"), os.path.join(folder, "copy")
    start = lambda: scene.rdzvd("--data-dir=" + data, listen=("127.0.0.1:%d" % port,))  # noqa: E731
    os.mkdir(data)
    store = start()
    relay = scene.relay(port)
    client = scene.peer(relay.port)
    client.add(b"n", 1)
    store.stop(signal.SIGKILL)
    shutil.copytree(data, copy)
    store = start()
    client.add(b"n", 1)
    store.stop(signal.SIGKILL)
    shutil.rmtree(data)
    os.rename(copy, data)
    start()
    client.expect_end()
    r.show(logs=[relay])


@row("all nodes pause at the same moment")
def store_stands_still(r, scene):
    store = scene.rdzvd()
    scene.joins(store.port, "RUN", "a")
    os.kill(store.pid, signal.SIGSTOP)
    time.sleep(3)  # the pause itself
    os.kill(store.pid, signal.SIGCONT)
    r.show(logs=[store])


# ------------------------------------------------------------ rdzvd does not start, or refuses


def ended(scene, code, *flags):
    """A rdzvd that ends with this code; its log."""
    server = scene.enter_context(Server([rdzvd_binary(), *flags]))
    check(server.process.wait(60) == code, server.log())
    server._reader.join(20)
    return server


@row("exit code 2")
def wrong_setting(r, scene):
    ended(scene, 2, "--expect=two")
    r.show()


@row("exit code 1, event listen_failed")
def port_in_use(r, scene):
    port = free_port()
    agent = scene.agent(port, conf="is_host=1", nnodes="2:2")
    wait_until(lambda: listens(port), agent.text)
    ended(scene, 1, "--listen=127.0.0.1:%d" % port).wait_log("event=listen_failed")
    shown = r.show()[0]
    check(re.search(r":%d\b.*pid=%d\b" % (port, agent.process.pid), shown), shown)


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


@row("exit code 1, event data_dir_failed")
def damaged_directory(r, scene):
    folder = scene.folder()
    store = scene.rdzvd("--data-dir=" + folder, "--sync=always")
    client = scene.peer(store.port)
    for i in range(50):
        client.set(b"key/%d" % i, b"value" * 20)
        client.ping()
    store.stop(signal.SIGKILL)
    path = sorted(os.path.join(folder, "rdzvd", n) for n in os.listdir(os.path.join(folder, "rdzvd"))
                  if n.startswith("journal-"))[-1]
    with open(path, "r+b") as f:
        f.seek(os.path.getsize(path) // 2)
        f.write(b"damage")
    ended(scene, 1, "--listen=127.0.0.1:0", "--data-dir=" + folder).wait_log("event=data_dir_failed")
    r.show(folder=folder)


@row("/readyz of a store is 503")
def full_disk(r, scene):
    folder = scene.enter_context(small_disk(24 << 20))
    if folder is None:
        return NEEDS_ROOT
    store = scene.rdzvd("--data-dir=" + folder)
    put_ballast(folder, 8 << 20)
    fill_disk(scene.peer(store.port), b"fill")
    store.wait_log("event=journal_failed")
    check(get(store.port, "/readyz")[0] == 503, "not 503")
    r.show(store=store.port, logs=[store])
    store.stop(signal.SIGKILL)
    return None


@row("/readyz of a relay is 503")
def store_never_reached(r, scene):
    relay = scene.relay(free_port())
    relay.wait_log("event=upstream_failed")
    check(get(relay.port, "/readyz")[0] == 503, "not 503")
    r.show(relay=relay.port, logs=[relay])


@row("/readyz of a replica is 503")
def etcd_unreachable(r, scene):
    replica = scene.rdzvd("--journal=etcd://127.0.0.1:%d/trouble" % free_port())
    check(get(replica.port, "/readyz")[0] == 503, "not 503")
    r.show(store=replica.port, logs=[replica])


@row("HTTP 403, and the Host header is a name")
def foreign_host(r, scene):
    store = scene.rdzvd()
    check(get(store.port, "/", Host="evil.example")[0] == 403, "not 403")
    r.show(logs=[store])


@row("HTTP 403 after rdzvctl forget or clear")
def no_operator(r, scene):
    store = scene.rdzvd()
    c = http.client.HTTPConnection("127.0.0.1", store.port, timeout=20)
    c.request("DELETE", "/rdzv/v1/spaces/default")
    check(c.getresponse().status == 403, "not 403")
    c.close()
    r.show(logs=[store])


@row("HTTP 403 for a right token")
def after_wrong_tokens(r, scene):
    store = scene.rdzvd()
    for _ in range(5):
        check(get(store.port, "/rdzv/v1/monitor", Authorization="Bearer wrong")[0] == 403, "not 403")
    with open(TOKEN, encoding="ascii") as f:
        right = "Bearer " + f.read().strip()
    check(get(store.port, "/rdzv/v1/monitor", Authorization=right)[0] == 403, "a right token, too soon")
    r.show(logs=[store])


def with_certificate(scene, *flags):
    ca = Ca()
    scene.callback(ca.folder.cleanup)
    cert, key = ca.issue()
    return ca, scene.rdzvd("--cert=" + cert, "--key=" + key, *flags)


@row("HTTP 400 from a store with --cert")
def plain_text(r, scene):
    _, store = with_certificate(scene, "--plaintext=off")
    check(get(store.port, "/livez")[0] == 400, "not 400")
    r.show(logs=[store])


@row("a TLS alert")
def no_certificate(r, scene):
    ca, store = with_certificate(scene)
    store = scene.rdzvd("--cert=" + ca.path("1.pem"), "--key=" + ca.path("1.key"), "--client-ca=" + ca.pem)
    done = subprocess.run(["curl", "-sv", "--cacert", ca.pem, "https://localhost:%d/livez" % store.port],
                          capture_output=True, text=True, timeout=30)
    check("alert" in done.stderr, done.stderr)
    r.show(logs=[store])


@row("HTTP 503 from a relay after 50 s", instead="takes 50 s")
def http_while_away(r, scene):
    store = scene.rdzvd()
    relay = scene.relay(store.port)
    relay.wait_log("event=upstream_connected")
    store.stop(signal.SIGKILL)
    relay.wait_log("event=upstream_failed")
    r.show(relay=relay.port)


@row("connections are closed at once")
def too_many(r, scene):
    store = scene.rdzvd("--connection-limit=1")
    scene.peer(store.port)
    with socket.create_connection(("127.0.0.1", store.port), timeout=20) as s:
        s.sendall(modern.validate())
        with contextlib.suppress(ConnectionResetError):
            check(s.recv(1) == b"", "it was served")
    r.show(logs=[store])


# ------------------------------------------------------------ Kubernetes


def checked(name):
    """A manifest with that fault, from the tests of `rdzv-manifest check`."""
    return os.path.join(ROOT, "tests", "manifest", "check", name + ".bad.yaml")


@row("the relay's container is in CrashLoopBackOff", instead="takes a kubelet, which prints what rdzvd prints")
def relay_does_not_start(r, scene):
    said = ended(scene, 2, "--upstream=store:29400", "--data-dir=/tmp").log()
    check("--upstream" in said, said)
    r.shown = True


def manifest_row(symptom, fault, instead="takes a cluster"):
    @row(symptom, instead=instead)
    def check_finds(r, scene):
        del scene
        r.show(manifest=checked(fault))


manifest_row("the relay's container is in CreateContainerConfigError", "rdzvd-as-root")
manifest_row("some pods of a gang run", "volcano-gang")
manifest_row("all pods of a gang stay Pending", "gang-above")
manifest_row("agents cannot connect, and the store is Ready", "policy-peer")
manifest_row("agents that start before the store end", "not-ready")
manifest_row("the job's pod stays Running after the training", "relay-regular")
manifest_row("relays wait for ever", "relay-upstream-name")
manifest_row("connections end after some idle minutes", "istio")


@row("the Service of replicas leads to one pod only", instead="takes a cluster")
def follower(r, scene):
    replica = scene.rdzvd("--journal=etcd://127.0.0.1:%d/trouble" % free_port())
    r.show(store=replica.port, logs=[replica])


# ------------------------------------------------------------ all rows


def one(found, instead, function):
    """None, or why the row is skipped."""
    with Scene() as scene:
        why = function(found, scene)
    if why:
        return why
    check(found.shown, "the command of the row was not run")
    check(instead or not found.unseen, "torch has not printed %s" % sorted(found.unseen))
    return None


def pairs():
    """(row, function, instead) of each row; a row or a function without the other fails."""
    rows, left = rows_of_document(), dict(ROWS)
    lacks = []
    found = []
    for r in rows:
        names = [n for n in left if r.symptom.startswith(n)]
        name = max(names, key=len, default=None)
        if name is not None:
            found.append((r, *left.pop(name)))
        elif not any(r.symptom.startswith(n) for n in NOT_STARTED):
            lacks.append(r.symptom)
    stale = [n for n in NOT_STARTED if not any(r.symptom.startswith(n) for r in rows)]
    check(not lacks, "no function starts these rows, and no reason says why: %s" % lacks)
    check(not left and not stale, "these rows are not in the document: %s" % (list(left) + stale))
    return found


def main():
    words = sys.argv[1:]
    torches.choose([TORCH.name])
    chosen = [p for p in pairs() if not words or any(w in p[0].symptom for w in words)]
    Scene.forks = Forks(TORCH)
    passed = failed = skipped = 0
    try:
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            runs = {pool.submit(one, r, instead, function): r for r, function, instead in chosen}
            for run in concurrent.futures.as_completed(runs):
                symptom = runs[run].symptom
                try:
                    why = run.result()
                except Exception:
                    failed += 1
                    print("FAIL %s (again: python3 tests/process/troubleshooting.py %r)" % (symptom, symptom))
                    traceback.print_exc(file=sys.stdout)
                    continue
                passed, skipped = passed + (not why), skipped + bool(why)
                if why:
                    print("skip %s: %s" % (symptom, why), flush=True)
    finally:
        Scene.forks.close()
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
