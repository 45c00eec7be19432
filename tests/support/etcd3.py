"""A real etcd v3 cluster on loopback, of one member or three, its data in a directory that goes
with it, and rdzvd as a replica on it. With a `Secure` it speaks TLS alone, and takes clients of its
CA alone."""

import base64
import http.client
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import tempfile
import time

import certs
from servers import Rdzvd, Server, etcd_binary, free_port, free_ports, token_flag


def release():
    """3.4, say."""
    said = subprocess.run([etcd_binary(), "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"etcd Version: (\d+\.\d+)\.", said).group(1)


class Secure:
    """What a cluster and its clients need for TLS."""

    def __init__(self):
        self.ca = certs.Ca()
        self.cert, self.key = self.ca.path("etcd.pem"), self.ca.path("etcd.key")
        self.renew(self.ca.issue("etcd"))
        self.client = self.ca.issue("rdzvd", None)
        self.context = ssl.create_default_context(cafile=self.ca.pem)
        self.context.load_cert_chain(*self.client)

    def renew(self, pair):
        """What the members show from now on: etcd reads its files with each handshake."""
        for new, path in zip(pair, (self.cert, self.key)):
            shutil.copy(new, path + ".new")
            os.rename(path + ".new", path)

    def etcd_flags(self):
        return ["--cert-file=" + self.cert, "--key-file=" + self.key, "--trusted-ca-file=" + self.ca.pem,
                "--client-cert-auth"]

    def flags(self):
        return ["--journal-ca=" + self.ca.pem, "--journal-cert=" + self.client[0],
                "--journal-key=" + self.client[1]]


class Member(Server):
    """One etcd process. A test can stop it, and start it again with its data directory."""

    def __init__(self, name, folder, client, peer, cluster, flags=(), secure=None, under=()):
        url = "%s://127.0.0.1:%d" % ("https" if secure else "http", client)
        peer_url = "http://127.0.0.1:%d" % peer
        self.name, self.port = name, client
        self.argv = [*under, etcd_binary(), "--name", name, "--data-dir", os.path.join(folder, name),
                     "--listen-client-urls", url, "--advertise-client-urls", url,
                     "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url,
                     "--initial-cluster", cluster, "--initial-cluster-token", folder, *flags,
                     *(secure.etcd_flags() if secure else ())]
        super().__init__(self.argv)

    def start_again(self):
        super().__init__(self.argv)

    def pause(self):
        """Until SIGCONT; all of its threads stand when this returns."""
        self.process.send_signal(signal.SIGSTOP)
        end = time.monotonic() + 10
        while any(state != "T" for state in self.states()):
            if time.monotonic() > end:
                raise AssertionError("%s does not stop" % self.name)
            time.sleep(0.001)

    def states(self):
        folder = "/proc/%d/task" % self.pid
        for task in os.listdir(folder):
            with open(os.path.join(folder, task, "stat"), encoding="ascii") as f:
                yield f.read().rsplit(")", 1)[1].split()[0]


class Cluster:
    def __init__(self, count=1, flags=(), secure=None, under=()):
        """`under`: a command that becomes each member, with its arguments."""
        self.secure = secure
        self.folder = tempfile.mkdtemp(prefix="rdzv-etcd3-")
        ports = free_ports(2 * count)
        names = ["m%d" % i for i in range(count)]
        self.peers = ",".join("%s=http://127.0.0.1:%d" % (name, ports + count + i)
                              for i, name in enumerate(names))
        self.members = [Member(name, self.folder, ports + i, ports + count + i, self.peers, flags, secure,
                               under)
                        for i, name in enumerate(names)]
        for member in self.members:
            self.wait(member)
        self.url = "etcd://%s/test" % ",".join("127.0.0.1:%d" % m.port for m in self.members)

    def wait(self, member, timeout=60):
        """Until it answers what needs a majority."""
        end = time.monotonic() + timeout
        while True:
            try:
                return self.call("/v3/kv/range", {"key": text("x")}, member)
            except (OSError, http.client.HTTPException, KeyError, ValueError):
                if time.monotonic() > end:
                    raise AssertionError("%s does not answer:\n%s" % (member.name, member.log())) from None
                time.sleep(0.05)

    def call(self, path, body, member=None, timeout=10, token=None):
        port = (member or self.members[0]).port
        c = http.client.HTTPSConnection("127.0.0.1", port, timeout=timeout, context=self.secure.context) \
            if self.secure else http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        try:
            c.request("POST", path, json.dumps(body), {"Authorization": token} if token else {})
            answer = json.loads(c.getresponse().read())
        finally:
            c.close()
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer

    def add_learner(self):
        """Adds a member without a vote, which refuses every request that needs a voting member."""
        port = free_ports(2)
        self.call("/v3/cluster/member/add",
                  {"peerURLs": ["http://127.0.0.1:%d" % (port + 1)], "isLearner": True})
        learner = Member("learner", self.folder, port, port + 1,
                         self.peers + ",learner=http://127.0.0.1:%d" % (port + 1),
                         ("--initial-cluster-state", "existing"))
        self.members.append(learner)
        learner.wait_log("ready to serve client requests|serving (insecure )?client requests", timeout=60)
        return learner

    def keys(self, prefix="/rdzvd/test/", member=None):
        answer = self.call("/v3/kv/range", {"key": text(prefix), "range_end": text(prefix + "\x7f"),
                                            "keys_only": True}, member)
        return sorted(base64.b64decode(kv["key"]).decode() for kv in answer.get("kvs", []))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for member in self.members:
            if member.process.poll() is None:
                member.process.send_signal(signal.SIGCONT)
                member.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def text(plain):
    return base64.b64encode(plain.encode()).decode()


class Replica(Rdzvd):
    """Keeps its port over all its lives. `typo` is in the name of its journal."""

    def __init__(self, cluster, *flags, port=None, typo="", **how):
        self.cluster, self.flags, self.typo = cluster, flags, typo
        super().__init__("--journal=" + cluster.url + typo, token_flag(), *flags,
                         listen=("127.0.0.1:%d" % (port or free_port()),), **how)

    def again(self):
        return Replica(self.cluster, *self.flags, port=self.port, typo=self.typo)

    def ready(self):
        return ready(self)

    def wait_ready(self, status=200, says="", timeout=30):
        return wait_ready(self, status, says, timeout)

    def wait_warm(self, timeout=60):
        """Waits until the replica has read the whole log, so it leads or could lead."""
        return wait_ready(self, timeout=timeout, query="?verbose&exclude=leader")


def ready(daemon, query="?verbose"):
    """Of /readyz: the status, and what it says."""
    c = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=5)
    try:
        c.request("GET", "/readyz" + query, headers={"Host": "localhost"})
        answer = c.getresponse()
        return answer.status, answer.read().decode()
    finally:
        c.close()


def wait_ready(daemon, status=200, says="", timeout=30, query="?verbose"):
    end = time.monotonic() + timeout
    while True:
        try:
            got = ready(daemon, query)
        except (OSError, http.client.HTTPException) as e:
            got = 0, str(e)
        if got[0] == status and says in got[1]:
            return got[1]
        if time.monotonic() > end:
            raise AssertionError("/readyz says %r, not %d with %r:\n%s" % (got, status, says, daemon.log()))
        time.sleep(0.02)
