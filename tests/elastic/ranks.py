"""Which node gets which rank, over c10d: --rank-order, the table of domains, and a start of rdzvd."""

import json
import os
import signal
import subprocess
import sys
import tempfile

from agents import Agent, rejoin
from cases import case, check
from scene import daemon, same, status_of

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def ranks(server):
    nodes = [n for n in status_of(server.port)[0]["nodes"] if "rank" in n]
    return [(n["addr"], n.get("domain")) for n in sorted(nodes, key=lambda n: n["rank"])]


def names(server):
    return [name for name, _ in ranks(server)]


def meet(server, *nodes):
    agents = [Agent(server.port, "job", name) for name in nodes]
    rejoin(agents)
    for a in agents:
        state = a.read()
        same(state.participants[a.node], names(server).index(a.node.addr), "the rank that %s is shown" % a.node.addr)
    return agents


@case
def nodes_keep_their_ranks_over_a_kill_of_rdzvd():
    with tempfile.TemporaryDirectory(prefix="rdzvd-") as tmp:
        flags = "--data-dir=" + tmp, "--restart-on-loss=off"
        with daemon(*flags) as server:
            agents = meet(server, "w-10", "w-2", "w-1")
            same(names(server), ["w-1", "w-2", "w-10"], "digits count as numbers")
            agents[0].leave()
            for a in agents:
                a.close()
            same(server.stop(signal.SIGKILL), -signal.SIGKILL, "exit code")
            server.process.returncode = 0
        with daemon(*flags) as server:
            agents = meet(server, "w-10", "w-3", "w-1")
            same(names(server), ["w-1", "w-3", "w-10"], "w-3 takes the free rank of %d" % len(agents))


@case
def a_node_of_rank_zero_and_torchs_order():
    with daemon("--rank-zero=w-*0", "--rules=grow-interval=1s") as server:
        agents = meet(server, "w-1", "w-2", "w-10")
        same(names(server), ["w-10", "w-1", "w-2"], "ranks of %d nodes" % len(agents))
    with daemon("--rank-order=torch") as server:
        agents = meet(server, "w-1", "w-2", "w-10")
        same(names(server), ["w-1", "w-10", "w-2"], "ranks of %d nodes" % len(agents))


@case
def a_table_of_domains_is_read_again_on_sighup():
    with tempfile.TemporaryDirectory(prefix="rdzvd-") as tmp:
        table = os.path.join(tmp, "domains")

        def write(text):
            with open(table, "w", encoding="utf-8") as f:
                f.write(text)

        write("w-[24] rack1\nw-[13] rack2\n")
        with daemon("--topology-file=" + table, "--rank-order=table") as server:
            server.wait_log("event=topology_loaded file=%s lines=2" % table)
            agents = meet(server, "w-1", "w-2", "w-3", "w-4")
            rack1 = [("w-2", "rack1"), ("w-4", "rack1")]
            same(ranks(server), rack1 + [("w-1", "rack2"), ("w-3", "rack2")], "ranks")
            write("w-1 rack1\nw-2 rack1 first\n")
            server.process.send_signal(signal.SIGHUP)
            server.wait_log(r"event=topology_failed reason=.*domains:2:11: the index is not a whole number")
            same(ranks(server)[:2], rack1, "the old table")
            write("w-[1234] rack3\n")
            server.process.send_signal(signal.SIGHUP)
            server.wait_log("event=topology_loaded", count=2)
            same(ranks(server)[:2], [("w-2", "rack3"), ("w-4", "rack3")], "a round keeps its ranks")
            agents[0].leave()
            for a in agents[1:]:
                a.read()
            rejoin(agents)
            same(names(server), ["w-1", "w-2", "w-3", "w-4"], "the next round")
        write("w-1\n")
        ran = subprocess.run([os.environ.get("RDZVD", os.path.join(ROOT, "build", "rdzv", "rdzvd")),
                              "--listen=127.0.0.1:0", "--topology-file=" + table],
                             capture_output=True, text=True, timeout=20)
        check(ran.returncode == 1 and "event=topology_failed" in ran.stderr and ":1:4: a domain" in ran.stderr, ran)


SLURM = """SwitchName=s0 Level=0 LinkSpeed=1 Nodes=tux[00-02,7]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=tux[08-09]-ib,a1
SwitchName=s2 Level=1 LinkSpeed=1 Nodes=tux[00-09],a1 Switches=s[0-1]
BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2
"""
NODES = {"items": [
    {"kind": "Node", "metadata": {"name": "n1", "labels": {"zone": "eu/1", "rack": "r1"}}, "spec": {},
     "status": {"addresses": [{"address": "10.0.0.1"}, {"address": "n1"}]}},
    {"kind": "Node", "metadata": {"name": "n2"}, "spec": {}, "status": {}},
    {"kind": "Pod", "metadata": {"name": "p1"}, "spec": {"nodeName": "n1"}, "status": {"podIP": "10.1.0.2"}},
    {"kind": "Pod", "metadata": {"name": "p2"}, "spec": {}, "status": {}},
    {"kind": "Pod", "metadata": {"name": "p3"}, "spec": {"nodeName": "n2"}, "status": {}}]}


@case
def a_script_makes_the_table():
    def made(text, *args):
        ran = subprocess.run([sys.executable, os.path.join(ROOT, "deploy", "slurm", "topology.py"), *args], input=text,
                             capture_output=True, text=True, timeout=20)
        same(ran.returncode, 0, ran.stderr)
        return dict(line.split() for line in ran.stdout.splitlines())

    same(made(SLURM, "slurm"),
         {**{"tux" + n: "s2/s0" for n in ("00", "01", "02", "7")},
          **{n: "s2/s1" for n in ("tux08-ib", "tux09-ib", "a1")}, "n1": "b1", "n2": "b1"}, "of Slurm")
    same(made(json.dumps(NODES), "kubernetes", "zone", "rack"),
         {n: "eu_1/r1" for n in ("n1", "10.0.0.1", "p1", "10.1.0.2")}, "of Kubernetes")
