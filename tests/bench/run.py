#!/usr/bin/python3
"""Measures rdzvd against its yardsticks and prints what came out: never a pass or a fail.

The yardsticks run beside it, in the same minutes on the same core, and take turns with it:
bench_bare (the least that an epoll server can cost), a real etcd, and torch's own libuv store
when --torch-python names an interpreter that has torch.
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import servers  # noqa: E402

# Above this share of time in which a single-threaded server was kept from its core, the figures
# say much about the neighbours.
NOISE_MAX = 0.1

CPU_TARGET = 1.25
IDLE_BYTES_TARGET = 400
IDLE_RTT_TARGET = 1.3
ETCD_TARGETS = {"etcd-get": 2, "etcd-put": 5}

TORCH_SERVER = """
import sys
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=True)
assert store.libuvBackend
print("event=listening address=127.0.0.1:%d" % store.port, file=sys.stderr, flush=True)
import signal
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


class Bench:
    """The options, and one run of bench_load on one of the servers."""

    def __init__(self, options):
        self.options = options
        self.folder = os.path.join(options.build, "tests", "bench")
        self.load = os.path.join(self.folder, "bench_load")
        self.verdicts = []
        self.waited = []

    def measure(self, server, mode, *more, prepare=True):
        argv = [self.load, "--connect", "127.0.0.1:%d" % server.port, "--mode", mode,
                "--server-pid", str(server.pid), "--core", str(self.options.load_core),
                "--seconds", str(self.options.seconds), *more]
        if not prepare:
            argv.append("--no-prepare")
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise SystemExit("%s\nfailed: %s\nthe server's log ends with:\n%s" % (
                " ".join(argv), done.stderr.strip(), server.log()[-3000:]))
        figures = dict(word.split("=", 1) for word in done.stdout.split())
        figures = {k: float(v) for k, v in figures.items() if k != "mode"}
        if figures.get("server_threads") == 1:
            self.waited.append(figures["server_waited"])
        return figures

    def started(self, server):
        pin(server.pid, self.options.server_core)
        return server

    def rdzvd(self):
        return self.started(servers.Rdzvd())

    def bare(self, mode):
        sizes = subprocess.run([self.load, "--mode", mode, "--sizes"], check=True,
                               stdout=subprocess.PIPE, text=True).stdout.split()
        server = servers.Server([os.path.join(self.folder, "bench_bare"),
                                 *(word.split("=")[1] for word in sizes)])
        return self.listening(server, 10)

    def torch(self):
        env = dict(os.environ, OMP_NUM_THREADS="1")
        server = servers.Server([self.options.torch_python, "-c", TORCH_SERVER], env=env)
        return self.listening(server, 120)

    def listening(self, server, timeout):
        found = server.wait_log(r"event=listening address=\S+:(\d+)", timeout=timeout)
        server.port = int(found[0].group(1))
        return self.started(server)

    def etcd(self, folder):
        return self.started(servers.Etcd("--data-dir", os.path.join(folder, "etcd")))

    def verdict(self, text, value, target, met, more=""):
        self.verdicts.append(("%-62s %10s   target %-9s %-8s %s" % (
            text, value, target, "met" if met else "NOT MET", more)).rstrip())


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


def figures_table(title, rounds, baseline, ratio_of):
    """One line per server: medians over its rounds, and its ratio to the baseline's rounds."""
    rows = [["server", "CPU us/request", "requests/s", "p50 us", "p99 us", "server busy",
             "load busy", "waited", "%s / %s" % (ratio_of, baseline)]]
    for name, runs in rounds.items():
        def median(key):
            return statistics.median(r[key] for r in runs)
        rows.append([
            name, spread([r["cpu_us"] for r in runs]), "%.0f" % median("rps"),
            "%.0f" % median("p50_us"), "%.0f" % median("p99_us"),
            "%.0f %%" % (100 * median("server_busy")), "%.0f %%" % (100 * median("load_busy")),
            "%.1f %%" % (100 * median("server_waited")),
            spread(ratios(rounds, name, baseline, ratio_of)) if baseline in rounds else ""])
    table(title, rows)


def ratios(rounds, name, baseline, key):
    """Round by round, so that what slows the machine for a while slows both sides of a ratio."""
    return [a[key] / b[key] for a, b in zip(rounds[name], rounds[baseline])]


def take_turns(bench, contestants, mode):
    """{name: [figures of each round]}; the servers run all the time, the load goes round."""
    rounds = {name: [] for name in contestants}
    for _ in range(bench.options.rounds):
        for name, (server, prepare) in contestants.items():
            rounds[name].append(bench.measure(server, mode, prepare=prepare))
    return rounds


def bench_c10d(bench, mode):
    open_servers = []
    try:
        contestants = {"bare": (bench.bare(mode), False)}
        open_servers.append(contestants["bare"][0])
        if bench.options.have_rdzvd:
            contestants["rdzvd"] = (bench.rdzvd(), True)
            open_servers.append(contestants["rdzvd"][0])
        if bench.options.torch_python:
            contestants["torch libuv"] = (bench.torch(), True)
            open_servers.append(contestants["torch libuv"][0])
        rounds = take_turns(bench, contestants, mode)
    finally:
        for server in open_servers:
            server.stop()
    figures_table("c10d %s, 64 connections in lock step" % mode.upper(), rounds, "bare", "cpu_us")
    if "rdzvd" in rounds:
        ratio = statistics.median(ratios(rounds, "rdzvd", "bare", "cpu_us"))
        bench.verdict("c10d %s: server CPU per request, rdzvd / bare loop" % mode.upper(),
                      "%.2f" % ratio, "<= %.2f" % CPU_TARGET, ratio <= CPU_TARGET)


def bench_idle(bench):
    """A fresh server each round: memory that an earlier round has left behind would hide that of
    the connections. Torch's is left out: it waits for the name service for each peer that
    connects, and with a slow one would not have met 10,000 of them today."""
    makers = {"bare": lambda: bench.bare("add")}
    if bench.options.have_rdzvd:
        makers["rdzvd"] = bench.rdzvd
    count = bench.options.idle
    rows = [["server", "bytes/idle", "p50 us with 0", "with %d" % count, "with 0 again",
             "p99 us with 0", "with %d" % count, "opened in s", "p50 ratio"]]
    results = {name: [] for name in makers}
    for _ in range(bench.options.rounds):
        for name, make in makers.items():
            with make() as server:
                r = bench.measure(server, "add", "--connections", "1", "--idle", str(count),
                                  prepare=name != "bare")
            r["ratio"] = r["p50_us_idle"] / ((r["p50_us_none"] + r["p50_us_after"]) / 2)
            results[name].append(r)
    for name, runs in results.items():
        def median(key):
            return statistics.median(r[key] for r in runs)
        rows.append([name, spread([r["bytes_per_idle"] for r in runs], "%.0f"),
                     "%.1f" % median("p50_us_none"), "%.1f" % median("p50_us_idle"),
                     "%.1f" % median("p50_us_after"), "%.0f" % median("p99_us_none"),
                     "%.0f" % median("p99_us_idle"), "%.2f" % median("opened_seconds"),
                     spread([r["ratio"] for r in runs])])
    table("c10d ADD round trip of one connection beside %d idle ones; memory: growth of the "
          "process's\n  anonymous memory (/proc/PID/smaps_rollup) per idle connection" % count,
          rows)
    if results.get("rdzvd"):
        size = statistics.median(r["bytes_per_idle"] for r in results["rdzvd"])
        ratio = statistics.median(r["ratio"] for r in results["rdzvd"])
        bench.verdict("user-space memory per idle connection, %d of them" % count,
                      "%.0f bytes" % size, "<= %d" % IDLE_BYTES_TARGET, size <= IDLE_BYTES_TARGET)
        bench.verdict("ADD round trip (p50), %d idle connections / none" % count,
                      "%.2f" % ratio, "<= %.1f" % IDLE_RTT_TARGET, ratio <= IDLE_RTT_TARGET)


def filesystem(folder):
    return subprocess.run(["stat", "-f", "-c", "%T", folder], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip()


def bench_etcd(bench):
    on_disk = tempfile.mkdtemp(prefix="rdzv-bench-", dir=bench.options.etcd_dir)
    in_memory = tempfile.mkdtemp(prefix="rdzv-bench-", dir="/dev/shm")
    disk, memory = "etcd, %s" % filesystem(on_disk), "etcd, /dev/shm"
    open_servers = []
    try:
        contestants = {}
        for name, folder in ((disk, on_disk), (memory, in_memory)):
            contestants[name] = (bench.etcd(folder), True)
            open_servers.append(contestants[name][0])
        if bench.options.have_rdzvd:
            contestants["rdzvd"] = (bench.rdzvd(), True)
            open_servers.append(contestants["rdzvd"][0])
        rounds = {mode: take_turns(bench, contestants, mode) for mode in ETCD_TARGETS}
    finally:
        for server in open_servers:
            server.stop()
        for folder in (on_disk, in_memory):
            shutil.rmtree(folder, ignore_errors=True)
        for server in open_servers:
            if isinstance(server, servers.Etcd):
                shutil.rmtree(server.dir, ignore_errors=True)
    for mode, target in ETCD_TARGETS.items():
        verb = mode.split("-")[1].upper()
        figures_table("etcd v2 %s, 64 keep-alive connections in lock step, each server on one core "
                      "(etcd: GOMAXPROCS=1);\n  etcd fsyncs its log, as it does by default, and "
                      "rdzvd keeps its state in memory" % verb, rounds[mode], disk, "rps")
        if "rdzvd" in rounds[mode]:
            for name in (disk, memory):
                ratio = statistics.median(ratios(rounds[mode], "rdzvd", name, "rps"))
                cpu = statistics.median(ratios(rounds[mode], name, "rdzvd", "cpu_us"))
                bench.verdict("etcd v2 %s: requests/s, rdzvd / %s" % (verb, name), "%.1f" % ratio,
                              ">= %d" % target, ratio >= target,
                              "(per second of server CPU: %.1f)" % cpu)


def version(argv):
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as e:
        return "none (%s)" % e.strerror
    return (done.stdout.splitlines() or ["?"])[0]


def print_machine(options):
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")),
                     "unknown")
    print("cpu      %s, %d cores; servers on core %d, load on core %d" % (
        model, os.cpu_count(), options.server_core, options.load_core))
    print("kernel   %s, load average %.2f %.2f %.2f" % (platform.release(), *os.getloadavg()))
    print("rdzvd    %s" % (version([servers.rdzvd_binary(), "--version"])
                           if options.have_rdzvd else
                           "none at %s: only its yardsticks are measured" % servers.rdzvd_binary()))
    print("etcd     %s; data on %s (%s)" % (
        version(["etcd", "--version"]), options.etcd_dir, filesystem(options.etcd_dir)))
    if options.torch_python:
        print("torch    %s" % version([options.torch_python, "-W", "ignore", "-c",
                                       "import torch; print(torch.__version__)"]))
    print("rounds   %d of %g s each, servers taking turns; medians (lowest..highest)" % (
        options.rounds, options.seconds))
    print("columns  CPU: the server's threads, user and kernel, from schedstat; busy: share of a "
          "core;\n         waited: a thread of the server could have run and its core was taken: "
          "by another process\n         (noise, which CPU per request bears better than "
          "requests/s), or by another of its threads")
    sys.stdout.flush()


def parse_options():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.normpath(os.path.join(root, "build")),
                   help="the build folder with tests/bench (default: %(default)s); rdzvd is the "
                        "one named by $RDZVD, else that of build/")
    p.add_argument("--only", default="add,get,idle,etcd",
                   help="which of add, get, set-get, idle, etcd to run (default: %(default)s)")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=2, help="of each measurement")
    p.add_argument("--idle", type=int, default=10000, help="idle connections")
    p.add_argument("--server-core", type=int, default=0)
    p.add_argument("--load-core", type=int, default=1)
    p.add_argument("--torch-python", help="an interpreter with torch: measures its store as well")
    p.add_argument("--etcd-dir", default="/var/tmp",
                   help="where etcd's data goes; on a disk (default: %(default)s)")
    options = p.parse_args()
    options.only = options.only.split(",")
    unknown = set(options.only) - {"add", "get", "set-get", "idle", "etcd"}
    if unknown:
        p.error("--only %s: not a part" % ",".join(sorted(unknown)))
    if "RDZVD" not in os.environ:
        os.environ["RDZVD"] = os.path.join(options.build, "rdzv", "rdzvd")
    load = os.path.join(options.build, "tests", "bench", "bench_load")
    if not os.path.exists(load):
        p.error("there is no %s: build first (ninja -C %s), or name the build folder with --build"
                % (load, options.build))
    options.have_rdzvd = os.path.exists(servers.rdzvd_binary())
    return options


def main():
    options = parse_options()
    if options.server_core == options.load_core or os.cpu_count() < 2:
        print("warning: load and server share a core; only CPU per request means something")
    os.environ["GOMAXPROCS"] = "1"  # etcd: one core is one scheduler, as for the others
    print_machine(options)
    bench = Bench(options)
    for part in options.only:
        if part == "idle":
            bench_idle(bench)
        elif part == "etcd":
            bench_etcd(bench)
        else:
            bench_c10d(bench, part)
    if bench.verdicts:
        print("\ntargets")
        for line in bench.verdicts:
            print("  " + line)
    if bench.waited and statistics.median(bench.waited) > NOISE_MAX:
        print("\nThe machine was busy with other things: servers waited %.0f %% of the time for "
              "their core.\nRequests/s, and latencies above all, are worth little; CPU per request "
              "still compares." % (100 * statistics.median(bench.waited)))


if __name__ == "__main__":
    main()
