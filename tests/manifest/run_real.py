#!/usr/bin/python3
"""Runs what a manifest says, for real: rdzvd with its arguments, and every pod's torchrun line.

    run_real.py [--case NAME]... [--all] [--list] [--jobs N] [--tell] [--keep]
    run_real.py --manifest FILE [--entrypoint WORDS] [--pods N]
    run_real.py --both FILE [--rewrite OPTIONS]... [--change PATTERN=NEW]...

Each case makes a manifest with rdzv-manifest ($RDZV_MANIFEST, else the one built with rdzvd) and
takes it as a cluster would: every pod gets a network namespace with its address and host name, names are
those of the pods and Services, variables those that the platform sets, Secrets those that cert-manager would make. rdzvd ($RDZVD) runs with
exactly the container's arguments, as nobody, on a root that cannot be written to; its probes must
answer before the job's pods start. Where there are relays, it starts after them, and is killed in
the middle: the job must not notice. Of replicas, which have a real etcd, the one that leads is killed. Commands run as they stand; a file of the script's name is put
where they look for it, and holds trainer.py. Cases `both-` run a job before and after rewrite: with the store that it has, its
worker 0 or an etcd, and with rdzvd; jobs.py lists them. The job has succeeded when every pod's containers
ended with 0, all ranks met, and the store saw them over the protocol that the case is about.

Needs root (network namespaces, overlay mounts) and torch 2.13.0; without the first it says so, and
skips. Each failure prints the manifest's path and the logs.
"""

import argparse
import concurrent.futures
import functools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import jobs
import platforms
from manifests import HERE, MANIFEST, ROOT, Failed, rdzvd_binary, yaml
from certificates import Secrets  # behind manifests, which says where support/ is

sys.path.insert(0, os.path.join(ROOT, "tests", "torch"))
import netns  # noqa: E402
import torches  # noqa: E402
from servers import Server  # noqa: E402

NOBODY = 65532  # the USER of the image
DONE = re.compile(r"trainer: rank=(\d+) world=(\d+) sum=(\d+) weight=(\S+)")

# A root file system of the container's own: its files vanish with the container, and other pods cannot see them. The
# first argument is an empty folder, the second the folder to work in, the third whether the root may be written to, the
# fourth a list of `file target` to put there.
BOX = r"""
set -e
exec >&2
box=$1 cwd=$2 rights=$3 files=$4
shift 4
mount -t tmpfs box "$box"
mkdir "$box/up" "$box/work" "$box/root"
mount -t overlay box -o "lowerdir=/,upperdir=$box/up,workdir=$box/work" "$box/root"
while read -r file target; do
    mkdir -p "$box/root$(dirname "$target")"
    cp "$file" "$box/root$target"
done <"$files"
mkdir -p "$box/root$cwd"
for volume in $VOLUMES; do
    mkdir -p "$box/root${volume#*:}"
done
[ "$rights" = rw ] || mount -o remount,ro "$box/root"
for place in /proc /dev /etc/hosts /etc/resolv.conf; do
    mount --rbind "$(readlink -f $place)" "$box/root$(readlink -f $place)"
done
for volume in $VOLUMES; do
    mount --bind "${volume%%:*}" "$box/root${volume#*:}"
done
unset VOLUMES
exec chroot "$box/root" /bin/sh -c 'cd "$1" && shift && exec "$@"' sh "$cwd" "$@"
"""


# ------------------------------------------------------------ one container


class Container:
    """A process in a pod, with a root of its own. Its output is kept in memory and in a log file."""

    def __init__(self, run, node, title, argv, env, *, cwd="/", files=(), volumes=(),
                 writable=True):
        self.node, self.title, self.log_path = node, title, os.path.join(run.folder, title + ".log")
        box = tempfile.mkdtemp(prefix="box-", dir=run.folder)
        with open(box + ".files", "w") as f:
            f.writelines("%s %s\n" % pair for pair in files)
        words = node.enter() + ["sh", "-c", BOX, "sh", box, cwd, "rw" if writable else "ro",
                                box + ".files"] + argv
        # env -i would take VOLUMES with it: the box unsets that one itself.
        self.process = Server(words, env=dict(env, VOLUMES=" ".join(volumes)))

    @property
    def code(self):
        return self.process.process.poll()

    def log(self):
        return self.process.log()

    def save_log(self):
        with open(self.log_path, "w") as f:
            f.write(self.log() + "\n")

    def kill(self):
        if self.code is None:
            netns.Pod.kill(self.process.process)

    def stop(self, timeout=20):
        """SIGTERM to its first process, as the kubelet does; the exit code."""
        first = netns.Pod.first(self.process.process)
        if first is not None:
            os.kill(first, signal.SIGTERM)
        try:
            return self.process.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Failed("%s ignored SIGTERM for %d s" % (self.title, timeout))


# ------------------------------------------------------------ one manifest


class Run:
    """A manifest's pods on this machine, from the store to the last rank."""

    def __init__(self, case, text, folder, tell, own_store=False):
        self.case, self.folder, self.tell, self.own_store = case, folder, tell, own_store
        self.documents = platforms.flatten(load(text))
        self.pods = platforms.pods_of(self.documents)
        self.network = netns.Network(folder)
        self.nodes, self.containers, self.stores, self.servers = {}, [], [], []
        self.relays, self.running = [], {}  # the last life of the store of each pod
        self.indexes = {}  # of pods, as their relays say
        self.etcd, self.secrets = None, Secrets(self.documents)
        self.torch = os.path.dirname(torches.TORCHES["2.13.0"].python[0])

    def close(self):
        for container in self.containers + self.servers + self.relays + self.stores:
            container.kill()
            container.save_log()
        if self.etcd is not None and self.etcd.process.poll() is None:
            netns.Pod.kill(self.etcd.process)
        self.network.close()

    # -------------------------------------------------------- pods

    def choose_pods(self):
        """The store's pods, and as many of the job's as the case asks for."""
        stores = [p for p in self.pods if p.stores()]
        training = [p for p in self.pods if p.training()]
        if self.own_store:
            self.replicated = False
            return [p for p in self.pods if p.etcds()] + training
        self.replicated = bool(stores) and all(is_replica(c) for p in stores for c in p.stores())
        if len(stores) != 1 and not self.replicated:
            raise Failed("%d pods run rdzvd: %s" % (len(stores), [p.name for p in stores]))
        if not training:
            raise Failed("no pod trains")
        if self.case.killed and not all(p.relays() for p in training):
            raise Failed("a pod trains without a relay")
        training = training[:self.case.pods or len(training)]
        return [p for p in stores if p not in training] + training

    def start_network(self, pods):
        names = platforms.service_names(self.documents, self.pods)
        for pod in reversed(pods):  # so the order of their addresses is not that of their ranks
            # On the host network a pod has its node's name, and its own name is in DNS alone.
            host = "node-of-" + pod.host if pod.on_host_network else pod.host
            self.nodes[pod] = self.network.pod(host[:63])
        etcd = self.network.pod("etcd-0") if self.replicated else None
        with open(self.network.hosts, "a") as f:
            if etcd is not None:
                f.write("%s etcd-0.etcd\n" % etcd.address)
            for pod in pods:
                full = [n + "." + pod.namespace + end for n in pod.names for end in ("", ".svc", ".svc.cluster.local")]
                for name in dict.fromkeys(pod.names + full + names[pod]):
                    f.write("%s %s\n" % (self.nodes[pod].address, name))
        if etcd is not None:
            self.start_etcd(etcd)

    # -------------------------------------------------------- etcd

    def start_etcd(self, node):
        """Of one member, with TLS where the manifest has a Secret for that."""
        secure = "--journal-ca=" in str(self.documents)
        url, flags = "%s://etcd-0.etcd:2379" % ("https" if secure else "http"), []
        if secure:
            self.secrets.issue("ml", "etcd-client-tls", "DNS:rdzvd.ml")
            cert, key = self.secrets.ca.issue("etcd", "DNS:etcd-0.etcd")
            flags = ["--cert-file=" + cert, "--key-file=" + key, "--trusted-ca-file=" + self.secrets.ca.pem,
                     "--client-cert-auth"]
        self.etcd = Server(node.enter() + [
            "etcd", "--data-dir=" + os.path.join(self.folder, "etcd"), "--advertise-client-urls=" + url,
            "--listen-client-urls=%s,http://127.0.0.1:2380" % url.replace("etcd-0.etcd", "0.0.0.0"),
            "--listen-peer-urls=http://127.0.0.1:2382", *flags])
        self.etcd_node = node
        self.etcd.wait_log(r"ready to serve client requests", timeout=60)

    def check_etcd(self):
        """The state of the job is there, below the prefix of the journal."""
        done = subprocess.run(
            self.etcd_node.enter(own_pids=False) + ["env", "ETCDCTL_API=3", "etcdctl", "--endpoints=http://127.0.0.1:2380",
                                                    "get", "--prefix", "--keys-only", "/rdzvd/ml.meet/"],
            capture_output=True, text=True, check=False, timeout=60)
        if "/rdzvd/ml.meet/log/" not in done.stdout:
            raise Failed("nothing is kept in etcd: %s" % (done.stdout + done.stderr))

    # -------------------------------------------------------- the store

    def volumes(self, pod, container, secrets=False):
        """FOLDER:TARGET of each mount: a volume is there as long as the pod, whatever its containers do. `secrets`:
        of Secrets that the manifest makes alone."""
        found = []
        for mount in container.get("volumeMounts") or []:
            volume = [v["secret"] for v in pod.spec.get("volumes") or [] if v["name"] == mount["name"] and "secret" in v]
            if secrets and not (volume and (pod.namespace, volume[0]["secretName"]) in self.secrets.made):
                continue
            folder = os.path.join(self.folder, "volumes", pod.name, mount["name"])
            os.makedirs(folder, exist_ok=True)
            os.chmod(folder, 0o777)
            if volume:
                self.secrets.mount(folder, pod.namespace, volume[0])
            found.append("%s:%s" % (folder, mount["mountPath"]))
        return found

    def start_rdzvd(self, pod, container):
        """With exactly its arguments; what it listens at is open."""
        node = self.nodes[pod]
        env = platforms.environment(pod, container, node.address, self.documents,
                                    regular=container in pod.spec["containers"])
        words = platforms.command_line(container, env, ["rdzvd"])
        if os.path.basename(words[0]) != "rdzvd":
            raise Failed("the store's command is %s" % words[0])
        for index in [w.rpartition("=")[2] for w in words if w.startswith("--node-label=index=")]:
            if index:  # a pod may lack the variable
                self.indexes[pod] = int(index)
        security = container.get("securityContext") or {}
        words = ["/usr/local/bin/rdzvd"] + words[1:]
        self.tell("%s: rdzvd %s" % (pod.name, " ".join(words[1:])))
        listeners = sum(w.startswith("--listen") for w in words)
        if security.get("runAsNonRoot"):
            words = ["setpriv", "--reuid=%d" % NOBODY, "--regid=%d" % NOBODY, "--clear-groups",
                     "--no-new-privs", "--bounding-set=-all"] + words
        started = Container(
            self, node, "%s-%s-%d" % (pod.name, container["name"], len(self.stores + self.relays)),
            words, dict(BASE, **env), files=[(rdzvd_binary(), "/usr/local/bin/rdzvd")],
            volumes=self.volumes(pod, container), writable=not security.get("readOnlyRootFilesystem"))
        (self.relays if platforms.is_relay(container) else self.stores).append(started)
        started.process.wait_log(r"event=listening address=", timeout=60, count=max(1, listeners))
        return started

    def start_store(self, pod):
        for container in pod.stores():
            self.running[pod] = store = self.start_rdzvd(pod, container)
            self.probe(pod, container)
            self.check_ports(container, store)
        return pod

    def leader(self, among):
        """The replica that serves clients; it takes a while until one does."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for pod in among:
                if self.check_inside(pod, "--check-health=localhost:2379/readyz").returncode == 0:
                    return pod
            time.sleep(0.2)
        raise Failed("none of %s leads" % [p.name for p in among])

    def start_relay(self, pod):
        """The pod's containers start when its probe answers, whether there is a store or not."""
        for container in pod.relays():
            self.start_rdzvd(pod, container)
            for name in ("startupProbe", "livenessProbe"):
                self.probe_inside(pod, name, container[name]["exec"]["command"])

    def check_inside(self, pod, *words):
        return subprocess.run(self.nodes[pod].enter(own_pids=False) + [rdzvd_binary(), *words],
                              capture_output=True, text=True, check=False, timeout=30)

    def probe_inside(self, pod, name, words):
        """An exec probe, which a kubelet repeats until it passes."""
        if words[0] != "/usr/local/bin/rdzvd":
            raise Failed("the %s of %s runs %s" % (name, pod.name, words[0]))
        done, end = self.check_inside(pod, *words[1:]), time.monotonic() + 30
        while done.returncode != 0:
            if time.monotonic() > end:
                raise Failed("%s: %s: %s" % (pod.name, name, done.stdout + done.stderr))
            time.sleep(0.2)
            done = self.check_inside(pod, *words[1:])

    def kill_store(self, pods):
        """Kills the store like the kernel does when memory ends. The store restarts with its volume, or a standby
        replica takes over."""
        for started in self.containers:
            started.process.wait_log(r"trainer: counts, restarts=0", timeout=600)
        pod = self.leader(pods) if self.replicated else pods[0]
        store = self.running[pod]
        first = netns.Pod.first(store.process.process)
        os.kill(first, signal.SIGKILL)
        store.process.process.wait(20)
        if any(c.code is not None for c in self.containers):
            raise Failed("the job had ended before the store was killed: raise COUNT_TO")
        self.tell("%s: killed" % pod.name)
        if self.replicated:
            self.tell("%s: leads" % self.leader([p for p in pods if p is not pod]).name)
        self.start_store(pod)

    def check_space(self, pod):
        """The job met once, in its own space, and that is on the volume of the store."""
        flags = dict(a[2:].split("=", 1) for p in self.nodes for c in p.relays() for a in c["args"])
        events = re.findall(r"event=(run_started|round_complete) space=(\S+)",
                            "\n".join(s.log() for s in self.stores))
        wanted = [("run_started", flags["space"]), ("round_complete", flags["space"])]
        if events != (wanted if self.case.protocol == "c10d" else []):
            raise Failed("rounds of the job: %s" % events)
        if self.replicated:
            self.check_etcd()
            return
        folder = self.volumes(pod, pod.stores()[0])[0].split(":")[0]
        done = subprocess.run([rdzvd_binary(), "--check-data=" + folder], capture_output=True,
                              text=True, check=False, timeout=60)
        found = re.search(r"^space %s: .*?(\d+) etcd nodes" % re.escape(flags["space"]), done.stdout, re.M)
        self.tell("kept: %s" % (found and found.group(0)))
        # torch closes its run at the end, and rdzvd forgets it then; etcd forgets nothing.
        if not found or (self.case.protocol == "etcd-v2" and int(found.group(1)) < 3):
            raise Failed("nothing is kept of space %s: %s" % (flags["space"], done.stdout + done.stderr))

    def stop_relays(self):
        """Last, as the kubelet does it with sidecars; none has ended before."""
        for relay in self.relays:
            if relay.code is not None:
                raise Failed("%s ended with %d during the job" % (relay.title, relay.code))
            code = relay.stop()
            if code != 0:
                raise Failed("%s ended with %d" % (relay.title, code))

    def probe(self, pod, container):
        node = self.nodes[pod]
        ports = {p.get("name"): p["containerPort"] for p in container.get("ports") or []}
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            probe = container.get(name) or {}
            get = probe.get("httpGet")
            if get is None and "exec" not in probe:
                raise Failed("rdzvd has no %s" % name)
            if get is None:
                self.probe_inside(pod, name, probe["exec"]["command"])
                continue
            port = ports.get(get["port"], get["port"])
            self.get(node, "%s://%s:%s%s" % (get.get("scheme", "HTTP").lower(), node.address, port, get["path"]))

    def check_ports(self, container, store):
        """What is declared is what it listens at."""
        heard = {int(m.group(1)) for m in re.finditer(r"event=listening address=\S+:(\d+)",
                                                      store.log())}
        declared = {p["containerPort"] for p in container.get("ports") or []}
        if heard != declared:
            raise Failed("rdzvd listens at %s, and its container declares %s" % (heard, declared))

    @staticmethod
    def get(node, url):
        """What a GET from inside of the pod's network answers; anything but 200 fails."""
        done = subprocess.run(
            # A kubelet looks at no certificate, and tries again.
            node.enter(own_pids=False) + ["curl", "-sSk", "--fail", "--max-time", "20", "--retry", "60", "--retry-delay",
                                          "1", "--noproxy", "*", url], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed("GET %s: %s" % (url, done.stderr.strip()))
        return done.stdout

    # -------------------------------------------------------- the job

    def start_own_etcd(self, pod):
        """The etcd that the manifest has: of this machine, which serves its v2 API if it is asked to."""
        for container in pod.etcds():
            env = platforms.environment(pod, container, self.nodes[pod].address, self.documents)
            words = platforms.command_line(container, env, ["etcd"])
            self.stores.append(Container(
                self, self.nodes[pod], pod.name + "-etcd", [w.replace("/usr/local/bin/etcd", "etcd") for w in words],
                dict(BASE, **({} if "--enable-v2" in " ".join(words) else {"ETCD_ENABLE_V2": "true"}), **env)))
            self.stores[-1].process.wait_log(r"ready to serve client requests", timeout=60)

    def files_of(self, pod, container, words, cwd):
        """(file, target) of all that the platform and the image would put there: ConfigMaps, programs, scripts."""
        found, pairs = platforms.mounted(pod, container, self.documents), []
        texts = [text for path, text in found.items() if jobs.is_script(path)]
        if pod.serves:  # what others start there
            texts += [str(w) for p in self.pods for c in p.training() for w in c.get("command", []) + c.get("args", [])]
        for path, text in {**found, **jobs.programs()}.items():
            handle, name = tempfile.mkstemp(dir=self.folder)
            with os.fdopen(handle, "w") as f:
                f.write(text)
            os.chmod(name, 0o755)
            pairs.append((name, path))
        return pairs + scripts_of(words + texts, cwd)

    def start_pod(self, pod):
        node = self.nodes[pod]
        for container in pod.training():
            env = platforms.environment(pod, container, node.address, self.documents)
            words = platforms.command_line(container, env, self.case.entrypoint)
            cwd = container.get("workingDir") or "/app"
            path = "%s:%s:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" % (jobs.PROGRAMS, self.torch)
            base = dict(BASE, PATH=path, OMP_NUM_THREADS="1", TORCH_CPP_LOG_LEVEL="ERROR",
                        PYTHONWARNINGS="ignore", PYTHONDONTWRITEBYTECODE="1")
            self.tell("%s: %s" % (pod.name, " ".join(words[:2]).split("\n", 1)[0]))
            (self.servers if pod.serves else self.containers).append(Container(
                self, node, pod.name + "-" + container["name"], words, dict(base, **env), cwd=cwd,
                files=self.files_of(pod, container, words, cwd), volumes=self.volumes(pod, container, secrets=True)))

    def wait_job(self, seconds):
        deadline = time.monotonic() + seconds
        for container in self.containers:
            try:
                container.process.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise Failed("%s had not ended after %d s" % (container.title, seconds))
            if container.code != 0:
                raise Failed("%s ended with %d" % (container.title, container.code))

    def check_ranks(self):
        said = [m.groups() for c in self.containers + self.servers for m in DONE.finditer(c.log())]
        if not said:
            raise Failed("no rank said that it was done")
        world = int(said[0][1])
        if sorted(int(s[0]) for s in said) != list(range(world)):
            raise Failed("of %d ranks these were done: %s" % (world, sorted(s[0] for s in said)))
        if world < len(self.containers):
            raise Failed("%d containers, and a world of %d" % (len(self.containers), world))
        if {(s[1], s[2], s[3]) for s in said} != {
                (said[0][1], str(world * (world + 1) // 2), said[0][3])}:
            raise Failed("the ranks do not agree: %s" % said)
        return world

    def check_indexes(self):
        """The ranks of pods whose relays say an index follow it."""
        ranks = {pod: sorted(int(m.group(1)) for c in self.containers if c.node is self.nodes[pod]
                             for m in DONE.finditer(c.log())) for pod in self.indexes}
        if sum((ranks[pod] for pod in sorted(ranks, key=self.indexes.get)), []) != sorted(sum(ranks.values(), [])):
            raise Failed("ranks by pod: %s" % {pod.name: (self.indexes[pod], ranks[pod]) for pod in ranks})

    def check_protocol(self, pod):
        """The store had the job's keys, and by the protocol that was meant."""
        container = pod.stores()[0]
        port = container["ports"][-1]["containerPort"]
        text = self.get(self.nodes[pod], "http://127.0.0.1:%d/metrics" % port)
        c10d, nodes = (sum(float(n) for n in re.findall(r"(?m)^%s.* (\S+)$" % line, text)) for line in (
            r'rdzvd_requests_total\{protocol="c10d"', r"rdzvd_space_etcd_nodes\{"))
        self.tell("the store carried out %d c10d requests, and holds %d etcd nodes" % (c10d, nodes))
        if self.case.protocol == "c10d" and (c10d < 5 or nodes > 2):
            raise Failed("the job did not meet over c10d: %d requests, %d etcd nodes" % (c10d, nodes))
        if self.case.protocol == "etcd-v2" and (nodes < 3 or c10d > 0):
            raise Failed("the job did not meet over etcd-v2: %d requests over c10d, %d etcd nodes" % (
                c10d, nodes))

    def stop_store(self, pod):
        for container in pod.stores():
            store = self.running[pod]
            idle = [a for a in container.get("args") or [] if a.startswith("--exit-when-idle=")]
            seconds = re.match(r"--exit-when-idle=(\d+)s$", idle[0]) if idle else None
            if seconds:  # it is to end by itself; minutes of that are not waited for
                try:
                    code = store.process.process.wait(int(seconds.group(1)) + 60)
                except subprocess.TimeoutExpired:
                    raise Failed("the store did not end by itself")
            else:
                code = store.stop()
            if code != 0:
                raise Failed("the store ended with %d" % code)

    def go(self):
        pods = self.choose_pods()
        self.start_network(pods)
        if self.own_store:
            for pod in pods:
                self.start_own_etcd(pod)
                self.start_pod(pod)
            self.wait_job(self.case.seconds)
            return self.check_ranks()
        stored = [p for p in pods if p.stores()]
        if not self.case.killed:
            self.start_store(stored[0])
        for pod in pods:
            self.start_relay(pod)
            self.start_pod(pod)
        if self.case.killed:
            for pod in stored:  # later than all who need it
                self.start_store(pod)
            self.kill_store(stored)
        self.wait_job(self.case.seconds)
        world = self.check_ranks()
        self.check_indexes()
        if not self.case.killed:
            self.check_protocol(stored[0])
        self.stop_relays()
        for pod in stored:
            self.stop_store(pod)
        if self.case.killed:
            self.check_space(stored[0])
        return world


BASE = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
        "LANG": "C.UTF-8"}


def load(text):
    """As kubectl reads it where it matters here: null documents are nothing."""
    return [d for d in yaml.load_all(text, Loader=yaml.SafeLoader) if d]


def is_replica(container):
    return any(str(a).startswith("--journal=") for a in container.get("args") or [])


def scripts_of(words, cwd):
    """The Python files that a command names, where it will look for them: `cd X` counts."""
    trainer, found = os.path.join(HERE, "trainer.py"), []
    text = "\n".join(words)
    folders = [cwd] + re.findall(r"^\s*cd (\S+)", text, re.M)
    for name in re.findall(r"[^\s'\"=]+\.py\b", text):
        for folder in [""] if name.startswith("/") else folders:
            path = os.path.join(cwd, folder, name)
            found.append((trainer, path))
    return found or [(trainer, "/app/trainer.py")]


# ------------------------------------------------------------ cases


class Case:
    """The command that makes a manifest, and the expected results of its job."""

    def __init__(self, name, argv, protocol="c10d", pods=0, entrypoint=("python", "/app/trainer.py"),
                 seconds=900, usual=True, stdin=None, killed=False):
        self.name, self.argv, self.protocol, self.pods = name, argv, protocol, pods
        self.stdin = stdin
        self.killed = killed  # there are relays: the store comes late, and is killed once
        self.entrypoint, self.seconds, self.usual = entrypoint, seconds, usual

    def steps(self):
        """(title, manifest, whether the job has a store of its own) of all that runs, one after the other."""
        yield "", self.manifest(), False

    def manifest(self):
        if self.argv is None:
            with open(self.name) as f:
                return f.read()
        done = subprocess.run([MANIFEST] + self.argv, capture_output=True, text=True, check=False,
                              cwd=HERE, input=self.stdin)
        if done.returncode != 0:
            raise Failed("rdzv-manifest %s ended with %d:\n%s" % (
                " ".join(self.argv), done.returncode, done.stderr))
        return done.stdout


def rewrite_cases():
    for platform in ("volcano", "pytorchjob"):
        for protocol in ("etcd-v2", "c10d"):
            yield Case("rewrite-%s-%s" % (platform, protocol),
                       ["rewrite", "--backend=" + protocol, "rewrite/%s-etcd.yaml" % platform],
                       protocol, usual=(platform, protocol) in (("volcano", "etcd-v2"), ("pytorchjob", "c10d")))
    yield Case("rewrite-volcano-self-hosted", ["rewrite", "rewrite/volcano-c10d.yaml"], usual=False)
    yield Case("rewrite-pytorchjob-self-hosted", ["rewrite", "rewrite/pytorchjob-c10d.yaml"],
               usual=False)
    yield Case("rewrite-pytorchjob-static", ["rewrite", "rewrite/pytorchjob-static.yaml"],
               usual=False)
    yield Case("rewrite-tls", ["rewrite", "--rdzv=relay", "--set", "rdzv.tls.issuer.name=ca",
                               "rewrite/pytorchjob-static.yaml"], usual=False)
    yield Case("rewrite-agent-store",
               ["rewrite", "--wiring=agent-store", "rewrite/pytorchjob-plain.yaml"])


def guide_cases():
    """The two guides with an etcd pod, as they are printed, when ../shared/ is beside the checkout.
    The one with a single worker gets a second one, which is what elastic jobs are for."""
    folder = os.path.join(os.path.dirname(ROOT), "shared", "seeds")
    texts = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        with open(os.path.join(folder, name), errors="replace") as f:
            texts.append(f.read())
    for text in texts:
        listings = [b for b in re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S) if "kind:" in b]
        for store, job in zip(listings, listings[1:]):
            if "coreos/etcd" not in store or "etcd" not in job:
                continue
            platform = "volcano" if "volcano" in job else "pytorchjob"
            both = store.rstrip() + "\n---\n" + re.sub(r"replicas: 1\b", "replicas: 2", job.rstrip())
            for protocol in ("etcd-v2", "c10d"):
                yield Case("guide-%s-%s" % (platform, protocol),
                           ["rewrite", "--backend=" + protocol, "-"], protocol, usual=False,
                           stdin=both + "\n")


class Both(Case):
    """A job of others before and after rewrite."""

    def __init__(self, name, text, before=True, after=jobs.BOTH, usual=False):
        super().__init__("both-" + name, None, usual=usual, seconds=300)
        self.text, self.before, self.after = text, before, after

    def steps(self):
        if self.before:
            yield "before", self.text, True
        for options in self.after:
            self.argv, self.stdin = ["rewrite", *shlex.split(options), "-"], self.text
            text = self.manifest()
            jobs.check_result(self.rules, self.text, text)
            if text == self.text:
                raise Failed("rewrite %s leaves the job as it is" % options)
            yield options or "after", text, False

    @staticmethod
    def rules(text):
        done = subprocess.run([MANIFEST, "check", "-o", "json", "-"], capture_output=True, text=True, check=False, input=text)
        if done.returncode == 2:
            raise Failed("check: " + done.stderr)
        return json.loads(done.stdout)["findings"]


def both_cases():
    for name, row in jobs.JOBS.items():
        if jobs.unable(name) is None:
            yield Both(name, jobs.text_of(row), usual=name in jobs.USUAL, **row[3])


def emit_cases():
    """Two pods of one process each, for every platform."""
    for platform in ("volcano", "pytorchjob", "appwrapper-v1beta2", "appwrapper-v1beta1", "jobset",
                     "job", "trainjob"):
        for protocol in ("c10d", "etcd-v2"):
            yield Case("emit-%s-%s" % (platform, protocol),
                       ["emit", "-f", "real/short.yaml", "--platform", platform, "--backend",
                        protocol], protocol, usual=protocol == "c10d" and platform != "appwrapper-v1beta1")
    for platform in ("volcano", "pytorchjob", "jobset"):
        yield Case("emit-%s-service" % platform,
                   ["emit", "-f", "real/short.yaml", "--platform", platform, "--rdzv", "service"],
                   usual=False)
    yield Case("emit-volcano-elastic", ["emit", "-f", "real/elastic.yaml", "--platform", "volcano"],
               pods=2, usual=False)


def relay_cases():
    """The store starts last, and is killed in the middle: no agent notices. The space of the host
    network is one, as its pods share no node here."""
    for platform in ("volcano", "pytorchjob", "appwrapper-v1beta2", "appwrapper-v1beta1", "jobset",
                     "job", "trainjob", "pods"):
        yield Case("relay-" + platform, ["emit", "-f", "real/relay.yaml", "--platform", platform],
                   usual=platform == "pytorchjob", killed=True)
    yield Case("relay-etcd-v2", ["emit", "-f", "real/relay.yaml", "--platform", "job", "--backend",
                                 "etcd-v2"], "etcd-v2", usual=False, killed=True)
    yield Case("relay-host-network", ["emit", "-f", "real/relay.yaml", "--platform", "job", "--set",
                                      "hostNetwork=true"], usual=False, killed=True)


def replica_cases():
    """Three replicas on a real etcd start last, and the one that leads is killed: no agent notices."""
    yield Case("replicas", ["emit", "-f", "real/replicas.yaml", "--platform", "jobset"], killed=True)
    yield Case("replicas-tls", ["emit", "-f", "real/replicas-tls.yaml", "--platform", "job"], usual=False, killed=True)


def tls_cases():
    """One store: relays that show no certificate, with probes over TLS, and agents on etcd-v2 that show one."""
    yield Case("tls-relay", ["emit", "-f", "real/relay.yaml", "--platform", "job", "--set",
                             "rdzv.tls.issuer.name=ca,rdzv.tls.clientCertificates=false"], usual=False, killed=True)
    yield Case("tls-etcd-v2", ["emit", "-f", "real/short.yaml", "--platform", "job", "--backend", "etcd-v2", "--rdzv",
                               "service", "--set", "rdzv.tls.issuer.name=ca"], "etcd-v2", usual=False)


@functools.cache
def has_relay():
    return "--upstream=" in subprocess.run([rdzvd_binary(), "--help"], capture_output=True, text=True,
                                           check=True, timeout=60).stdout


# ------------------------------------------------------------ running them


def run_case(case, options):
    folder = tempfile.mkdtemp(prefix="rdzv-real-")
    os.chmod(folder, 0o755)  # rdzvd runs as the user nobody
    lines, run, begin, done = [], None, time.monotonic(), []

    def tell(text):
        lines.append(text)
        if options.tell:
            print("    " + text, flush=True)

    error = None
    try:
        for title, text, own_store in case.steps():
            if run is not None:
                run.close()
            tell("%s: %s" % (case.name, title or "runs"))
            with open(os.path.join(folder, "manifest.yaml"), "w") as f:
                f.write(text)
            part = tempfile.mkdtemp(dir=folder)
            os.chmod(part, 0o755)
            run = Run(case, text, part, tell, own_store)
            done.append("%s%d ranks of %d containers" % (title and title + ": ", run.go(), len(run.containers)))
        print("PASS %s: %s (%.0f s)" % (case.name, ", ".join(done), time.monotonic() - begin), flush=True)
    except (Failed, platforms.Unknown, AssertionError, KeyError, TypeError) as e:
        error = e
        print("FAIL %s: %s: %s" % (case.name, type(e).__name__, e), flush=True)
    finally:
        if run is not None:
            run.close()
            if error is not None:
                print("    " + "\n    ".join(lines))
                for container in run.stores + run.relays + run.servers + run.containers:
                    print("---- %s (exit code %s)" % (container.title, container.code))
                    print("\n".join(container.log().splitlines()[-40:]))
        if error is not None:
            print("---- again: %s --case %s; manifest and logs: %s" % (
                sys.argv[0], case.name, folder), flush=True)
        elif not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print("    logs: " + folder)
    return error is None


def refused():
    """Why this machine cannot do it, or None."""
    if os.geteuid() != 0:
        return "it takes root to make pods of namespaces"
    folder = tempfile.mkdtemp(prefix="rdzv-real-")
    try:
        reason = netns.refused(folder)
        if reason is not None:
            return reason
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs t "$1" && cd "$1" && mkdir u w r && '
             'mount -t overlay t -o lowerdir=/,upperdir=u,workdir=w r', "sh", folder],
            capture_output=True, text=True, check=False)
        return None if done.returncode == 0 else "no overlay: " + done.stderr.strip()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", action="append", default=[], help="a name, or how it begins")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--tell", action="store_true")
    parser.add_argument("--keep", action="store_true", help="keep the logs of what passed")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    parser.add_argument("--manifest")
    parser.add_argument("--both")
    parser.add_argument("--rewrite", action="append", default=[], help="options of rewrite for --both")
    parser.add_argument("--change", action="append", default=[], help="PATTERN=NEW, in the file of --both")
    parser.add_argument("--entrypoint", default="python /app/trainer.py")
    parser.add_argument("--protocol", default="c10d")
    parser.add_argument("--pods", type=int, default=0)
    options = parser.parse_args()

    cases = list(rewrite_cases()) + list(guide_cases()) + list(both_cases()) + list(emit_cases()) + list(relay_cases()) + list(
        replica_cases()) + list(tls_cases())
    if options.manifest:
        cases = [Case(options.manifest, None, options.protocol, options.pods,
                      shlex.split(options.entrypoint))]
    elif options.both:
        changes = [tuple(re.split(r"(?<!\\)=", c, maxsplit=1)) for c in options.change]
        name = os.path.splitext(os.path.abspath(options.both))[0]
        cases = [Both(os.path.basename(name), jobs.text_of(("/", [name], changes, {})), after=options.rewrite or jobs.BOTH)]
    elif options.case:
        unknown = [n for n in options.case if not any(c.name.startswith(n) for c in cases)]
        if unknown:
            sys.exit("no such case: %s (--list)" % ", ".join(unknown))
        cases = [c for c in cases if any(c.name.startswith(n) for n in options.case)]
    elif not options.all and not options.list:
        cases = [c for c in cases if c.usual]
    if options.list:
        print("\n".join(c.name for c in cases))
        return 0
    torches.choose(["2.13.0"])
    reason = refused()
    if reason is not None:
        print("skip: %s" % reason)
        print("0 passed, 0 failed, %d skipped" % len(cases))
        return 0
    unable = [c for c in cases if c.killed and not has_relay()]
    for case in unable:
        print("skip %s: this rdzvd has no --upstream" % case.name)
    cases = [c for c in cases if c not in unable]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda case: run_case(case, options), cases))
    print("%d passed, %d failed, %d skipped" % (results.count(True), results.count(False), len(unable)))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
