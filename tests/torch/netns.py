"""Pods on this machine: each with an address, a host name and a network namespace of its own.

The namespaces hang on a bridge that lies in one more namespace; the bridge has no link to the outside. All namespaces
vanish when their creator ends, even by SIGKILL. Where namespaces cannot be made, `Loopback` gives pods that are
addresses 127.0.0.x and share the rest.

A pod outlives its processes, as on Kubernetes: `enter` starts something like a container, with
processes of its own that all end with the first. Python's standard library only; needs root.
"""

import os
import signal
import subprocess

# What a container sees of the pod: its name, and files that know every pod's name.
ENTER = """hostname "$1" && mount --bind "$2" /etc/hosts && mount --bind "$3" "$4" && shift 4 &&
exec "$@"
"""
RESOLV = os.path.realpath("/etc/resolv.conf")
ESTABLISHED = "01"  # in /proc/net/tcp


class NoNamespaces(Exception):
    """This machine or user cannot create namespaces; the text names the refused operation."""


def _children(pid):
    found = []
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, task)) as f:
                found += [int(word) for word in f.read().split()]
    except OSError:  # gone
        pass
    return found


def _kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class _Holder:
    """A process that does nothing but keep a network namespace alive, until its input ends."""

    def __init__(self):
        self.process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo made; exec cat"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        if self.process.stdout.readline() != "made\n":
            self.process.wait()
            raise NoNamespaces("unshare --net: " + self.process.stderr.read().strip())

    def ip(self, *commands):
        done = subprocess.run(
            ["nsenter", "--target", str(self.pid), "--net", "ip", "-batch", "-"],
            input="\n".join(commands) + "\n", capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NoNamespaces("ip: %s: %s" % (done.stderr.strip(), "; ".join(commands)))

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


class Pod:
    def __init__(self, network, name, number, aliases=()):
        self.published = False
        self.network, self.name, self.aliases = network, name, list(aliases)
        self.address = "10.77.%d.%d" % (number // 250, number % 250 + 1)
        self.port = "p%d" % number  # its end of the cable, at the bridge
        self.holder = _Holder()
        network.switch.ip(
            "link add %s type veth peer name eth0 netns %d" % (self.port, self.holder.pid),
            "link set %s master bridge up" % self.port)
        self.holder.ip("link set lo up", "address add %s/16 dev eth0" % self.address,
                       "link set eth0 up")

    def publish(self):
        """Its name leads here from now on. A pod that had the name before is gone for good."""
        self.network.publish(self)

    def reset(self, port):
        """Ends its connections to that port, as a peer sees it when a node is gone for good."""
        done = subprocess.run(["nsenter", "--target", str(self.holder.pid), "--net", "ss", "-KtnH",
                               "dport", "=", ":%d" % port], capture_output=True,
                              text=True, check=False)
        if not done.stdout.strip():
            raise NoNamespaces("the kernel resets no connections: " + done.stderr.strip())

    def is_connected(self, port):
        """Some process here has a connection to that port."""
        for name in ("tcp", "tcp6"):
            with open("/proc/%d/net/%s" % (self.holder.pid, name)) as f:
                for line in f:
                    peer, state = line.split()[2:4]
                    if peer.endswith(":%04X" % port) and state == ESTABLISHED:
                        return True
        return False

    def enter(self, own_pids=True):
        """The words in front of a command that must run here. With `own_pids`, the command is process 1 of a new PID
        namespace, as in a container; else its pid is an ordinary pid of the machine."""
        words = ["nsenter", "--target", str(self.holder.pid), "--net",
                 "unshare", "--mount", "--uts"]
        if own_pids:
            words += ["--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
        return words + ["sh", "-c", ENTER, "sh", self.name, self.network.hosts,
                        self.network.resolv, RESOLV]

    def link(self, up):
        """Plugs the cable in, or pulls it."""
        self.network.switch.ip("link set %s %s" % (self.port, "up" if up else "down"))

    @staticmethod
    def first(process):
        """The pid, as seen from here, of what `enter` started as `process`; None: gone."""
        found = _children(process.pid)
        return found[0] if found else None

    @classmethod
    def processes(cls, process):
        """All pids of that container, by the pids that they themselves see."""
        found, first = {}, cls.first(process)
        if first is None:
            return found
        try:
            space = os.readlink("/proc/%d/ns/pid" % first)
        except OSError:
            return found
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                if os.readlink("/proc/%s/ns/pid" % name) != space:
                    continue
                with open("/proc/%s/status" % name) as f:
                    inner = [line for line in f if line.startswith("NSpid:")]
            except OSError:
                continue
            found[int(inner[0].split()[-1])] = int(name)
        return found

    @classmethod
    def kill(cls, process):
        """Everything in that container: the kernel ends it with its first process."""
        first = cls.first(process)
        _kill(first if first is not None else process.pid, signal.SIGKILL)
        process.wait()

    def close(self):
        self.holder.close()


class Network:
    kind = "network namespaces"

    def __init__(self, folder):
        self.count, self.pods = 0, []
        self.hosts, self.resolv = os.path.join(folder, "hosts"), os.path.join(folder, "resolv.conf")
        with open(self.resolv, "w") as f:
            f.write("# every name is in /etc/hosts\n")
        self._write_hosts()
        self.switch = _Holder()
        self.switch.ip("link add bridge type bridge", "link set bridge up")

    def pod(self, name, aliases=(), publish=True):
        """Makes a new pod. When it is published, its name no longer leads to an older pod of the same name."""
        self.count += 1
        pod = Pod(self, name, self.count, aliases)
        self.pods.append(pod)
        if publish:
            pod.publish()
        return pod

    def publish(self, pod):
        for other in [p for p in self.pods if p.name == pod.name and p is not pod]:
            self.pods.remove(other)
            other.close()
        pod.published = True
        self._write_hosts()

    def _write_hosts(self):
        # In place: what is bound into the pods is the file, not its name.
        text = "127.0.0.1 localhost\n" + "".join(
            "%s %s\n" % (p.address, " ".join([p.name] + p.aliases))
            for p in self.pods if p.published)
        with open(self.hosts, "a+") as f:
            f.truncate(0)
            f.write(text)

    def close(self):
        for pod in self.pods:
            pod.close()
        self.switch.close()


class LoopbackPod:
    def __init__(self, number):
        self.name = self.address = "127.0.0.%d" % number

    @staticmethod
    def enter(own_pids=True):
        del own_pids
        return []

    def publish(self):
        pass

    @staticmethod
    def link(up):
        raise NoNamespaces("no cable to pull on loopback")

    @staticmethod
    def first(process):
        return process.pid if process.poll() is None else None

    @classmethod
    def processes(cls, process):
        left, found = [process.pid] if process.poll() is None else [], {}
        while left:
            pid = left.pop()
            found[pid] = pid
            left += _children(pid)
        return found

    @classmethod
    def kill(cls, process):
        pids = list(cls.processes(process))
        for pid in pids:  # the agent first: it can then not end its workers by itself
            _kill(pid, signal.SIGKILL)
        process.wait()

    def close(self):
        pass


class Loopback:
    """The same without namespaces: pods are addresses of this machine's loopback."""
    kind = "127.0.0.x"

    def __init__(self, folder):
        del folder
        self.count = 0

    def pod(self, name, publish=True):
        del name, publish
        self.count += 1
        return LoopbackPod(self.count + 1)

    def close(self):
        pass


def refused(folder):
    """Why namespaces cannot be used here; None when they can."""
    network = None
    try:
        network = Network(folder)
        pod = network.pod("probe")
        done = subprocess.run(pod.enter() + ["getent", "hosts", "probe"], capture_output=True,
                              text=True, check=False)
        if pod.address not in done.stdout:
            raise NoNamespaces("a pod does not start: " + done.stderr.strip())
        return None
    except (NoNamespaces, OSError) as error:
        return str(error)
    finally:
        if network is not None:
            network.close()
