#!/usr/bin/python3
"""Measures rdzvd beside every peer that is there, and prints and keeps the figures: never a pass or a fail.

    run.py [--build DIR] [--quick] [--only SCENE,...] [--rounds N] [--json FILE] [--plots DIR]

The peers take turns in the same minutes: torch's own stores (libuv and legacy) if --torch-python names an interpreter
with torch, a real etcd, redis and memcached, and `rdzv-bench bare`, the least that an epoll server can cost. Servers
have one core and the load has the other, except in scenes with more than one process of load. Ratios are those of the
rounds, as median (lowest..highest).
"""

import argparse
import contextlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import servers  # noqa: E402
from heap import cpu_s  # noqa: E402

# Above this share of time in which a single-threaded server was kept from its core, the figures
# say much about the neighbours.
NOISE_MAX = 0.1

TORCH_SERVER = """
import signal, sys
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=%s)
print("event=listening address=127.0.0.1:%%d" %% store.port, file=sys.stderr, flush=True)
signal.pause()
"""


def pin(pid, core):
    """Every thread of a running process to one core; threads it starts later inherit it."""
    for _ in range(2):  # a thread may be born while the first list is worked through
        for tid in os.listdir("/proc/%d/task" % pid):
            try:
                os.sched_setaffinity(int(tid), {core})
            except ProcessLookupError:
                pass


def spread(values, form="%.2f"):
    """The median, and between which ends the rounds lay."""
    return (form + " (" + form + ".." + form + ")") % (
        statistics.median(values), min(values), max(values))


def table(title, rows):
    """`rows`: one list of cells per line, the first line being the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    print("\n" + title)
    for row in rows:
        print("  " + "  ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                               for i, (cell, w) in enumerate(zip(row, widths))))
    sys.stdout.flush()


def ratios(rounds, name, baseline, key):
    """Round by round, so that what slows the machine for a while slows both sides of a ratio."""
    return [a[key] / b[key] for a, b in zip(rounds[name], rounds[baseline])]


def version(argv):
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as e:
        return "none (%s)" % e.strerror
    return (done.stdout.splitlines() or ["?"])[0]


class Bench:
    """The options, and one run of rdzv-bench on one of the servers."""

    def __init__(self, options):
        self.options = options
        self.folder = os.path.join(options.build, "tests", "bench")
        self.tool = os.path.join(self.folder, "rdzv-bench")
        self.waited, self.verdicts = [], []
        self.figures = {}  # {scene: {peer: [figures of each round]}}

    def command(self, server, works, *more, port=None):
        return [self.tool, "--connect", "127.0.0.1:%d" % (port or server.port), "--server-pid", str(server.pid),
                "--seconds", str(self.options.seconds), *more, *works]

    def run(self, server, works, *more, wrapper=(), port=None):
        """The figures of each work, behind those of connecting."""
        argv = [*wrapper, *self.command(server, works, *more, port=port)]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise SystemExit("%s\nfailed: %s\nthe server's log ends with:\n%s" % (
                " ".join(argv), done.stderr.strip(), server.log()[-3000:]))
        lines = [dict(word.split("=", 1) for word in line.split()) for line in done.stdout.splitlines()]
        return [{k: v if k == "work" else float(v) for k, v in line.items()} for line in lines]

    def measure(self, server, mode, *more, prepare=True):
        figures = self.run(server, [mode], "--core", str(self.options.load_core), *more,
                           *(() if prepare else ("--no-prepare",)))[-1]
        if figures.get("server_threads") == 1:
            self.waited.append(figures["server_waited"])
        return figures

    def started(self, server):
        pin(server.pid, self.options.server_core)
        return server

    def rdzvd(self):
        return self.started(servers.Rdzvd())

    def rdzvd_twice(self):
        return self.started(servers.Rdzvd(listen=("127.0.0.1:0",) * 2))

    def bare(self, mode, *arrivals):
        """The bare loop; for `wake` it answers nothing until the key is set. `arrivals`: a barrier of so many."""
        if mode == "wake":
            return self.listening([self.tool, "bare", "1000000000", "1"], 10)
        sizes = subprocess.run([self.tool, "--sizes", mode], check=True, stdout=subprocess.PIPE, text=True).stdout
        return self.listening([self.tool, "bare", *(word.split("=")[1] for word in sizes.split()),
                               *map(str, arrivals)], 10)

    def torch(self, libuv=True):
        env = dict(os.environ, OMP_NUM_THREADS="1", LD_PRELOAD=os.path.abspath(
            os.path.join(self.folder, "libresolver.so")))
        return self.listening([self.options.torch_python, "-c", TORCH_SERVER % libuv], 120, env)

    def listening(self, argv, timeout, env=None):
        server = servers.Server(argv, env=env)
        found = server.wait_log(r"event=listening address=\S+:(\d+)", timeout=timeout)
        server.port = int(found[0].group(1))
        return self.started(server)

    def on_port(self, argv):
        """A server that says nothing about its port, which is the %d in its arguments."""
        port = servers.free_port()
        server = servers.Server([a % port if "%d" in a else a for a in argv])
        server.port = port
        for _ in range(100):
            with contextlib.suppress(OSError):
                servers.socket.create_connection(("127.0.0.1", port)).close()
                return self.started(server)
            time.sleep(0.1)
        raise SystemExit("%s does not listen" % argv[0])

    def redis(self):
        return self.on_port(["redis-server", "--bind", "127.0.0.1", "--port", "%d", "--save", "", "--appendonly", "no"])

    def memcached(self):
        return self.on_port(["memcached", "-l", "127.0.0.1", "-p", "%d", "-U", "0", "-t", "1", "-u", "nobody"])

    def etcd(self, folder):
        return self.started(servers.Etcd("--data-dir", os.path.join(folder, "etcd")))

    def stores(self, legacy=False):
        """Those that speak c10d."""
        found = {"rdzvd": self.rdzvd}
        if self.options.torch_python:
            found["torch libuv"] = self.torch
            if legacy:
                found["torch legacy"] = lambda: self.torch(False)
        return found

    def note(self, scene, peer, figures):
        self.figures.setdefault(scene, {}).setdefault(peer, []).append(figures)

    def rounds(self):
        return range(self.options.rounds)

    def print_scene(self, scene, keys, beside=None):
        """The medians, and the ratio of the first key to that of `beside`."""
        rounds = self.figures[scene]
        rows = [["server", *keys, "%s / %s" % (keys[0], beside) if beside in rounds else ""]]
        for name, runs in rounds.items():
            cells = ["%.4g" % statistics.median(r.get(key, 0) for r in runs) for key in keys]
            rows.append([name, *cells, spread(ratios(rounds, name, beside, keys[0])) if beside in rounds else ""])
        table(scene, rows)


# --- Scenes. ---


def operations(bench):
    """Single requests of 64 clients in lock step."""
    for mode in ("add", "get") if bench.options.quick else ("add", "get", "set", "check", "wait", "compare-set"):
        with contextlib.ExitStack() as stack:
            contestants = {name: stack.enter_context(make()) for name, make in bench.stores(True).items()}
            if mode in ("add", "get", "check"):
                contestants["bare"] = stack.enter_context(bench.bare(mode))
            for _ in bench.rounds():
                for name, server in contestants.items():
                    bench.note(mode, name, bench.measure(server, mode, prepare=name != "bare"))
        bench.print_scene(mode, ["cpu_us", "rps", "p50_us", "p99_us", "server_busy", "load_busy"],
                          "bare" if "bare" in contestants else "torch libuv")


def pipelined(bench):
    """16 ADDs under way on each of 64 connections."""
    makers = {name: (make, "add") for name, make in dict(bench.stores(), bare=lambda: bench.bare("add")).items()}
    if shutil.which("redis-server"):
        makers["redis"] = (bench.redis, "redis-incr")
    if shutil.which("memcached"):
        makers["memcached"] = (bench.memcached, "memcached-incr")
    with contextlib.ExitStack() as stack:
        contestants = {name: (stack.enter_context(make()), mode) for name, (make, mode) in makers.items()}
        for _ in bench.rounds():
            for name, (server, mode) in contestants.items():
                bench.note("add, 16 deep", name, bench.measure(server, mode, "--depth", "16", prepare=name != "bare"))
    bench.print_scene("add, 16 deep", ["cpu_us", "rps", "p50_us", "p99_us"], "rdzvd")


def connections(bench):
    """Throughput and latency against the number of connections."""
    for count in (64, 1000) if bench.options.quick else (64, 500, 2000, 8000, 15000):
        scene = "add, %d connections" % count
        with contextlib.ExitStack() as stack:
            contestants = {name: stack.enter_context(make()) for name, make in bench.stores().items()}
            for _ in bench.rounds():
                for name, server in contestants.items():
                    bench.note(scene, name, bench.measure(server, "add", "--clients", str(count)))
        bench.print_scene(scene, ["cpu_us", "rps", "p50_us", "p99_us"], "torch libuv")


def sum_of(lines):
    """Of a job's start: seconds and CPU of all its works."""
    total = {key: sum(line[key] for line in lines) for key in ("seconds", "server_cpu", "load_cpu", "up", "down")}
    return dict(total, rss_mib=lines[-1]["rss_mib"], most_mib=lines[-1]["most_mib"], clients=lines[-1]["clients"],
                works={line["work"]: line for line in lines})


def direct(bench):
    """A job without relays: connect, count, read the ids of all roots, meet at a barrier, be woken."""
    count = 2000 if bench.options.quick else 15000
    scene = "%d ranks, direct" % count
    for _ in bench.rounds():
        for name, make in bench.stores(legacy=bench.options.quick).items():
            with make() as server:
                lines = bench.run(server, ["init", "id", "ids", "barrier", "wake"], "--clients", str(count))
            bench.note(scene, name, sum_of(lines[:-1]))
            for line in lines:
                bench.note("%s: %s" % (scene, line["work"]), name, line)
    bench.print_scene(scene, ["server_cpu", "seconds", "load_cpu", "rss_mib"], "torch libuv")
    for work in ("connect", "init", "id", "ids", "barrier", "wake"):
        bench.print_scene("%s: %s" % (scene, work), ["server_cpu", "seconds", "p99_us"], "torch libuv")


def wake(bench):
    """Many clients wait for a key, which is set; the bare loop only writes to each."""
    for count in (2000,) if bench.options.quick else (8000, 15000):
        scene = "wake of %d" % count
        for _ in bench.rounds():
            for name, make in dict(bench.stores(), bare=lambda: bench.bare("wake")).items():
                with make() as server:
                    bench.note(scene, name, bench.run(server, ["wake"], "--clients", str(count),
                                                      *(["--no-prepare"] if name == "bare" else []))[-1])
        bench.print_scene(scene, ["seconds", "server_cpu", "p99_us"], "torch libuv")
        bench.print_scene(scene, ["server_cpu", "seconds"], "bare")


def barrier(bench):
    """All ranks meet at a barrier, for the second time: the first makes memory. The bare loop does no more than answer."""
    for count in (2000,) if bench.options.quick else (8000, 15000):
        scene = "barrier of %d" % count
        for _ in bench.rounds():
            for name, make in dict(bench.stores(), bare=lambda: bench.bare("barrier", count)).items():
                with make() as server:
                    bench.note(scene, name, bench.run(server, ["barrier"] * 2, "--clients", str(count),
                                                      *(["--no-prepare"] if name == "bare" else []))[-1])
        bench.print_scene(scene, ["seconds", "server_cpu", "load_cpu", "p99_us"], "torch libuv")
        bench.print_scene(scene, ["server_cpu", "seconds"], "bare")


def at_rest(bench, scene, links, frames):
    """Beside the rest of a job: a bare loop that answers so many requests per second and connection."""
    with bench.bare("check") as server:
        bench.note(scene, "bare", bench.run(server, ["check"], "--clients", str(links), "--rate", str(frames * links),
                                            "--no-prepare", "--seconds", "5")[-1])


def scale(bench):
    """Jobs behind simulated relays, 8 ranks each: the same, and at rest."""
    for count in (1000, 8192) if bench.options.quick else (1000, 8192, 32768, 131072):
        for _ in bench.rounds():
            with bench.rdzvd() as server:
                # Each rank must have looked once: only then its relay shares.
                lines = bench.run(server, ["init", "id", "barrier", "rest", "rest"], "--clients", str(count),
                                  "--relays", str(count // 8))
            bench.note("%d ranks, relays" % count, "rdzvd", sum_of(lines[:-2]))
            bench.note("%d ranks, relays, at rest" % count, "rdzvd", lines[-1])
            at_rest(bench, "%d ranks, relays, at rest" % count, count // 8, 1)
        bench.print_scene("%d ranks, relays" % count, ["server_cpu", "seconds", "load_cpu", "rss_mib"])
        bench.print_scene("%d ranks, relays, at rest" % count, ["server_busy", "cpu_us", "p50_us", "p99_us"], "bare")


def ids(bench):
    """NCCL with a root for each 128 ranks: a job behind relays, where all ranks read the ids of all roots."""
    count = 16384 if bench.options.quick else 131072
    scene = "%d ranks, relays, ids of %d roots" % (count, count // 128)
    for _ in bench.rounds():
        with bench.rdzvd() as server:
            lines = bench.run(server, ["init", "ids", "barrier"], "--clients", str(count), "--relays", str(count // 8))
        bench.note(scene, "rdzvd", sum_of(lines))
        bench.note(scene + ": ids", "rdzvd", lines[2])
    for name in (scene, scene + ": ids"):
        bench.print_scene(name, ["server_cpu", "seconds", "load_cpu", "rss_mib", "most_mib", "up", "down"])


def whole(bench):
    """A job with an agent at each relay, which meet first; at rest an agent sends a WAIT and a GET each second."""
    count = 8192 if bench.options.quick else 131072
    for _ in bench.rounds():
        with bench.rdzvd() as server:
            lines = bench.run(server, ["join", "init", "id", "barrier", "rest", "rest"], "--clients", str(count),
                              "--relays", str(count // 8), "--agents", str(count // 8))
        bench.note("%d ranks, relays and agents" % count, "rdzvd", sum_of(lines[:-2]))
        for line in lines[:-2]:
            bench.note("%d ranks, relays and agents: %s" % (count, line["work"]), "rdzvd", line)
        bench.note("%d ranks, relays and agents, at rest" % count, "rdzvd", lines[-1])
        at_rest(bench, "%d ranks, relays and agents, at rest" % count, count // 8, 3)
    for scene in [name for name in bench.figures if "relays and agents" in name]:
        bench.print_scene(scene, ["server_busy", "server_cpu", "seconds", "load_cpu", "rss_mib", "most_mib"], "bare")


def agents(bench):
    """Agents behind relays meet, and rest."""
    for count in (100, 500) if bench.options.quick else (100, 1000, 2000):
        scene = "%d agents" % count
        for _ in bench.rounds():
            with bench.rdzvd() as server:
                lines = bench.run(server, ["join", "steady"], "--clients", "0", "--agents", str(count), "--relays",
                                  str(count))
            bench.note(scene, "join", lines[1])
            bench.note(scene, "steady", lines[2])
        bench.print_scene(scene, ["server_cpu", "seconds", "server_busy", "most_mib"])


def many_keys(bench):
    """gloo's mesh, and requests with many keys."""
    ranks, batch = (64, 4000) if bench.options.quick else (512, 64000)
    for _ in bench.rounds():
        for name, make in bench.stores().items():
            with make() as server:
                bench.note("mesh of %d" % ranks, name, bench.run(server, ["mesh"], "--clients", str(ranks))[-1])
            with make() as server:
                lines = bench.run(server, ["multi-set", "multi-get"], "--clients", "1", "--batch", str(batch),
                                  "--value-len", "16", "--warmup", "0", "--exchanges", "3")
            bench.note("multi-set of %d" % batch, name, lines[1])
            bench.note("multi-get of %d" % batch, name, lines[2])
    for scene in ("mesh of %d" % ranks, "multi-set of %d" % batch, "multi-get of %d" % batch):
        bench.print_scene(scene, ["seconds", "server_cpu", "p50_us"], "torch libuv")


def real_gloo(bench):
    """Real ranks of torch that open a process group of gloo: gloo.py."""
    if not bench.options.torch_python:
        print("\nskipped: no --torch-python")
        return
    scene = "%d real ranks of gloo" % (32 if bench.options.quick else 256)
    env = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", TORCH_CPP_LOG_LEVEL="ERROR")
    for _ in bench.rounds():
        for name, make in bench.stores().items():
            with make() as server:
                before = cpu_s(server)
                done = subprocess.run([bench.options.torch_python, os.path.join(HERE, "gloo.py"), str(server.port),
                                       scene.split()[0]], check=True, stdout=subprocess.PIPE, text=True, env=env)
                found = dict(word.split("=") for word in done.stdout.split())
                bench.note(scene, name, {"seconds": float(found["seconds"]), "failed": float(found["failed"]),
                                         "server_cpu": cpu_s(server) - before})
    bench.print_scene(scene, ["server_cpu", "seconds", "failed"], "torch libuv")


def idle(bench):
    """Memory of idle connections, and an ADD beside them; the servers are fresh in each round."""
    count = str(1000 if bench.options.quick else bench.options.idle)
    for _ in bench.rounds():
        for name, make in dict(bench.stores(), bare=lambda: bench.bare("add")).items():
            with make() as server:
                lines = bench.run(server, ["add", "idle", "add", "leave", "add"], "--clients", "1", "--idle", count,
                                  "--core", str(bench.options.load_core),
                                  *(["--no-prepare"] if name == "bare" else []))
            none, beside, after = lines[1], lines[3], lines[5]
            bench.note("%s idle connections" % count, name, {
                "bytes_per_idle": lines[2]["bytes_per_idle"], "opened_seconds": lines[2]["seconds"],
                "p50_us": beside["p50_us"], "p50_ratio": 2 * beside["p50_us"] / (none["p50_us"] + after["p50_us"])})
    bench.print_scene("%s idle connections" % count, ["bytes_per_idle", "opened_seconds", "p50_us", "p50_ratio"])


def bystander(bench):
    """One client that sends an ADD each millisecond, alone and beside a job: at the job's listener, and at another one.

    If an answer takes longer, the next ADDs wait for it, and their time counts from the moment at which they were due.
    With chrt, the bystander need not wait for a core: the figure is the server's and not the scheduler's."""
    few, many, batch = ("64", "500", "4000") if bench.options.quick else ("512", "8000", "64000")
    jobs = {"%s clients in lock step" % many:
            ["--clients", many, "--seconds", "4", "init", "id", "barrier", "wake", "mixed"],
            "a mesh of %s" % few: ["--clients", few, "mesh", "mesh"],
            "requests for %s keys" % batch:
            ["--clients", "1", "--batch", batch, "--value-len", "16", "--seconds", "2", "multi-set", "multi-get"]}
    one = ["add", "--clients", "1", "--rate", "1000", "--seconds", "3", "--key-len", "40"]
    first = ["chrt", "--fifo", "1"]
    if subprocess.run([*first, "true"], check=False).returncode != 0:
        first = []
    for job, works in jobs.items():
        scene = "bystander of " + job
        for _ in bench.rounds():
            for name, make in dict(bench.stores(), **{"rdzvd, another listener": bench.rdzvd_twice}).items():
                with make() as server:
                    port = getattr(server, "ports", [server.port])[-1]
                    alone = bench.run(server, one, wrapper=first, port=port)[-1]
                    beside_it = subprocess.Popen(bench.command(server, works), stdout=subprocess.DEVNULL)
                    beside = bench.run(server, one, wrapper=first, port=port)[-1]
                    if beside_it.wait() != 0:
                        raise SystemExit("the job beside the bystander has failed")
                bench.note(scene, name, dict(beside, p999_more=beside["p999_us"] - alone["p999_us"]))
        bench.print_scene(scene, ["p999_more", "p50_us", "p99_us", "p999_us"], "torch libuv")


def filesystem(folder):
    return subprocess.run(["stat", "-f", "-c", "%T", folder], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip()


def etcd(bench):
    """etcd v2: 64 keep-alive connections. etcd syncs its log, as by default, and rdzvd keeps its state in memory."""
    with tempfile.TemporaryDirectory(prefix="rdzv-bench-", dir=bench.options.etcd_dir) as on_disk, \
            tempfile.TemporaryDirectory(prefix="rdzv-bench-", dir="/dev/shm") as in_memory, \
            contextlib.ExitStack() as stack:
        disk = "etcd, %s" % filesystem(on_disk)
        contestants = {disk: stack.enter_context(bench.etcd(on_disk)),
                       "etcd, /dev/shm": stack.enter_context(bench.etcd(in_memory)),
                       "rdzvd": stack.enter_context(bench.rdzvd())}
        for mode in ("etcd-get", "etcd-put", "etcd-cas"):
            for _ in bench.rounds():
                for name, server in contestants.items():
                    bench.note(mode, name, bench.measure(server, mode))
            bench.print_scene(mode, ["cpu_us", "rps", "p50_us", "p99_us"], "rdzvd")
        for _ in bench.rounds():
            for name, server in contestants.items():
                bench.note("etcd-watch", name, bench.run(server, ["etcd-watch"], "--clients", "1000")[-1])
        bench.print_scene("etcd-watch", ["seconds", "server_cpu", "p99_us"], "rdzvd")


SCENES = {scene.__name__: scene for scene in (operations, pipelined, connections, direct, wake, barrier, scale, ids,
                                              whole, agents, many_keys, real_gloo, idle, bystander, etcd)}


def machine(options):
    with open("/proc/cpuinfo", encoding="ascii") as f:
        model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "unknown")
    found = {"cpu": "%s, %d cores" % (model, os.cpu_count()), "kernel": platform.release(),
             "date": time.strftime("%Y-%m-%d %H:%M"), "load": "%.2f %.2f %.2f" % os.getloadavg(),
             "rdzvd": version([servers.rdzvd_binary(), "--version"]), "etcd": version(["etcd", "--version"])}
    if options.torch_python:
        found["torch"] = version([options.torch_python, "-W", "ignore", "-c", "import torch; print(torch.__version__)"])
    for name, argv in (("redis", ["redis-server", "--version"]), ("memcached", ["memcached", "--version"])):
        if shutil.which(argv[0]):
            found[name] = version(argv)
    return found


def parse_options():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.normpath(os.path.join(root, "build")),
                   help="the build folder with tests/bench (default: %(default)s); rdzvd is the one named by $RDZVD, "
                        "else that of this folder")
    p.add_argument("--only", default=",".join(SCENES), help="some of %(default)s")
    p.add_argument("--quick", action="store_true", help="small numbers and one round: less than three minutes")
    p.add_argument("--rounds", type=int, help="default: 5; with --quick 1")
    p.add_argument("--seconds", type=float, help="of each measurement; default: 2; with --quick 0.5")
    p.add_argument("--idle", type=int, default=10000, help="idle connections")
    p.add_argument("--server-core", type=int, default=0)
    p.add_argument("--load-core", type=int, default=1)
    p.add_argument("--torch-python", help="an interpreter with torch: measures its stores as well")
    p.add_argument("--etcd-dir", default="/var/tmp", help="where etcd's data goes; on a disk (default: %(default)s)")
    p.add_argument("--json", help="write all figures there")
    p.add_argument("--plots", help="draw the figures as SVG in that folder")
    options = p.parse_args()
    options.only = options.only.split(",")
    unknown = set(options.only) - set(SCENES)
    if unknown:
        p.error("--only %s: no scene" % ",".join(sorted(unknown)))
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.seconds = options.seconds or (0.5 if options.quick else 2)
    os.environ.setdefault("RDZVD", os.path.join(options.build, "rdzv", "rdzvd"))
    return options


def main():
    options = parse_options()
    os.environ["GOMAXPROCS"] = "1"  # etcd: one core is one scheduler, as for the others
    bench = Bench(options)
    found = machine(options)
    for name, text in found.items():
        print("%-10s %s" % (name, text))
    for name in options.only:
        print("\n# %s" % SCENES[name].__doc__)
        SCENES[name](bench)
    found["load after"] = "%.2f %.2f %.2f" % os.getloadavg()
    if bench.waited and statistics.median(bench.waited) > NOISE_MAX:
        print("\nThe machine was busy with other things: servers waited %.0f %% of the time for their core.\n"
              "Requests/s, and latencies above all, are worth little; CPU per request still compares." % (
                  100 * statistics.median(bench.waited)))
    report = {"machine": found, "options": vars(options), "figures": bench.figures}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(report, f, indent=1)
    if options.plots:
        import plots  # of this folder; needs matplotlib
        plots.draw(report, options.plots)


if __name__ == "__main__":
    main()
