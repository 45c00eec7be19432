"""Ways from the agents of a job to their store: to rdzvd itself, through relays, over TLS, to replicas, or torch's.

The arguments of a way are the run of a test, with its `options.rdzvd_args`, and flags of rdzvd. A way starts all
daemons, and `close` ends them. `endpoint(node)` is the address for the agent of that node. Python's standard library only.
"""

import os
import signal
import sys
import time

import torches
from elastic import tls_conf
from job import JobFailed
from run_store_api import PeerStore

sys.path.insert(0, os.path.join(torches.ROOT, "tests", "support"))
import certs  # noqa: E402
from etcd3 import Cluster, Replica  # noqa: E402
from servers import Rdzvd  # noqa: E402


class Direct:
    """One rdzvd, and each agent connects to it."""

    def __init__(self, run, *flags):
        self.daemon = Rdzvd(*flags, *run.options.rdzvd_args)

    def endpoint(self, node):
        del node
        return "127.0.0.1:%d" % self.daemon.port

    def conf(self):
        return []

    def log(self):
        return self.daemon.log()

    def lose(self, node):
        """Ends a relay of this node, as if its machine were gone."""

    def close(self):
        """Returns the error of the end, or None."""
        code = self.daemon.stop()
        return None if code == 0 else "rdzvd ended with %d on SIGTERM" % code


class HalfRelayed(Direct):
    """One rdzvd. Every second node has a relay, the others connect to rdzvd itself."""

    def __init__(self, run, *flags):
        super().__init__(run, *flags)
        self.relays = {}

    def upstream(self):
        return ["--upstream=127.0.0.1:%d" % self.daemon.port]

    def has_relay(self, node):
        return int(node.rsplit("-", 1)[1]) % 2 == 0

    def endpoint(self, node):
        if not self.has_relay(node):
            return super().endpoint(node)
        if node not in self.relays:
            self.relays[node] = Rdzvd(*self.upstream())
        return "127.0.0.1:%d" % self.relays[node].port

    def lose(self, node):
        if node in self.relays:
            self.relays.pop(node).stop(signal.SIGKILL)

    def log(self):
        return "\n".join([super().log()] + ["-- relay of %s\n%s" % (node, "\n".join(relay.log().splitlines()[-10:]))
                                            for node, relay in self.relays.items()])

    def close(self):
        codes = [relay.stop() for relay in self.relays.values()]
        return super().close() or ("relays ended with %s" % codes if any(codes) else None)


class RelayedTls(HalfRelayed):
    """rdzvd accepts only TLS and asks each relay for a certificate. Each node has a relay."""

    def __init__(self, run, *flags):
        self.ca = certs.Ca()
        cert, key = self.ca.issue()
        super().__init__(run, *flags, "--cert=" + cert, "--key=" + key, "--client-ca=" + self.ca.pem, "--plaintext=off")

    def has_relay(self, node):
        return True

    def upstream(self):
        cert, key = self.ca.issue("relay", None)
        return [*super().upstream(), "--upstream-ca=" + self.ca.pem, "--upstream-cert=" + cert, "--upstream-key=" + key]


class RelayedReplicas(HalfRelayed):
    """Two replicas on one etcd. Each node has a relay, which finds the replica that leads."""

    COUNT = 2

    def __init__(self, run, *flags):
        self.cluster = Cluster()
        self.relays = {}
        self.replicas = [Replica(self.cluster, "--journal-lease=2s", *flags, *run.options.rdzvd_args)
                         for _ in range(self.COUNT)]

    def has_relay(self, node):
        return True

    def upstream(self):
        return ["--upstream=" + ",".join("127.0.0.1:%d" % r.port for r in self.replicas)]

    @property
    def daemon(self):
        """The one that leads."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            for r in self.replicas:
                status, says = r.ready()
                if status == 200 and "[+]leader ok\n" in says:
                    return r
            time.sleep(0.05)
        raise JobFailed("no replica leads")

    def log(self):
        return "\n".join("-- replica\n" + r.log() for r in self.replicas)

    def close(self):
        codes = [d.stop() for d in [*self.relays.values(), *self.replicas]]
        self.cluster.__exit__()
        return "relays and replicas ended with %s" % codes if any(codes) else None


class DirectTls(Direct):
    """rdzvd accepts only TLS and asks each agent for a certificate. Only torch's etcd backends have TLS."""

    def __init__(self, run, *flags):
        self.ca = certs.Ca()
        cert, key = self.ca.issue()
        super().__init__(run, *flags, "--cert=" + cert, "--key=" + key, "--client-ca=" + self.ca.pem, "--plaintext=off")

    def conf(self):
        return tls_conf("etcd-v2", self.ca)


class TorchsOwn(Direct):
    """torch's own store in a process of its own, which outlives all agents. It has no flags and no log."""

    def __init__(self, run, *flags):
        del flags
        self.daemon = PeerStore(run.torch)

    def close(self):
        self.daemon.stop()


WAYS = {"direct": Direct, "relays": HalfRelayed, "relays-tls": RelayedTls, "relays-replicas": RelayedReplicas,
        "tls": DirectTls, "torchs-own": TorchsOwn}
