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
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("support", "elastic", "torch")]
import torches  # noqa: E402
from agents import Agent, meet, read_together  # noqa: E402
from c10d import modern  # noqa: E402
from cases import check  # noqa: E402
from certs import Ca  # noqa: E402
from disk import NEEDS_ROOT, fill_disk, put_ballast, small_disk  # noqa: E402
from etcd3 import Cluster, Replica, text  # noqa: E402
from forked import Forks  # noqa: E402
from servers import Server, free_port, rdzvd_binary  # noqa: E402
from troubleshooting_scene import (  # noqa: E402
    AT_ONCE, NOT_STARTED, ROWS, Scene, TOKEN, TORCH, WORKER, checked, joined, python_worker, row, rows_of_document, trains,
    wait_until)
from troubleshooting_torch import get  # noqa: E402


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


def status_text(port):
    ctl = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary()))), "client", "rdzvctl")
    return subprocess.run([ctl, "-s", "127.0.0.1:%d" % port, "status"], capture_output=True, text=True, check=False).stdout


@row("all nodes are there, and no worker trains")
def worker_without_group(r, scene):
    store = scene.rdzvd()
    agent = scene.agent(store.port, worker="echo begins; exec sleep 60")
    wait_until(lambda: "begins" in agent.lines, agent.text)
    wait_until(lambda: "WORKERS" in status_text(store.port), agent.text, seconds=60)
    r.show(store=store.port)


@row("workers without torchrun wait for ever")
def two_workers_of_one_rank(r, scene):
    store = scene.rdzvd()
    for _ in range(2):
        scene.script(WORKER, "wait", "60", RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                     MASTER_PORT=str(store.port), TORCHELASTIC_USE_AGENT_STORE="True")
    wait_until(lambda: re.search(r"rdzvd_space_waiters\S* 2", get(store.port, "/metrics")[1]), lambda: "no two wait")
    r.show(store=store.port)
    status = json.loads(get(store.port, "/rdzv/v1/status")[1])
    check([w["rank"] for w in status["spaces"][0]["waits"]] == [0, 0], status)


@row("workers hang, and no client waits")
def worker_outside_a_collective(r, scene):
    store = scene.rdzvd()
    agents = [scene.agent(store.port, nnodes="2:2", worker=python_worker("outside", 60)) for _ in range(2)]
    wait_until(lambda: all("has a group" in a.text() for a in agents), lambda: agents[0].text() + agents[1].text())
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
    store = scene.rdzvd("--closed-run-ttl=100ms")
    agents = meet(store.port, "RUN", ["a", "b"])
    agents[1].close_run()
    for agent in agents:
        agent.close()
    store.wait_log("event=run_forgotten")
    for agent in meet(store.port, "RUN", ["a", "b"]):
        scene.callback(agent.close)
    check("workers of b (pid 100) failed" in r.show(store=store.port)[0], "the reason names the node")


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


@row("etcd says database space exceeded")
def etcd_is_full(r, scene):
    cluster = scene.enter_context(Cluster(flags=("--quota-backend-bytes=%d" % (16 << 20),)))
    replica = scene.enter_context(Replica(cluster))
    replica.wait_ready()
    with contextlib.suppress(ValueError):  # etcd refuses one of these
        for i in range(20):
            cluster.call("/v3/kv/put", {"key": text("other/%d" % i), "value": text("x" * (1 << 20))})
    scene.peer(replica.port).set(b"k", b"v")
    r.show(logs=[replica])


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


@row("connections from other machines are closed at once")
def other_machine(r, scene):
    """This machine comes by an address that is not loopback."""
    done = subprocess.run(["hostname", "-I"], capture_output=True, text=True, timeout=30)
    own = next((a for a in done.stdout.split() if "." in a), None)
    if own is None:
        return "there is no address but loopback"
    store = scene.rdzvd("--allow=203.0.113.0/24", listen=("0.0.0.0:0",))
    with socket.create_connection((own, store.port), timeout=20) as s, contextlib.suppress(ConnectionResetError):
        s.sendall(modern.validate())
        check(s.recv(1) == b"", "it was served")
    r.show(logs=[store])
    return None


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
