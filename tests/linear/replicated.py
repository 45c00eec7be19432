"""Processes of a run whose journal is on etcd (--mode etcd): one member of etcd and one rdzvd; the run
kills and stops both. After its death, rdzvd leads again when its old lease has ended, which takes some
seconds.

Followed: replicas take the place of relays (--followers). Each replica may lead; the others relay
their clients to the leader."""

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import etcd3  # noqa: E402
import faults  # noqa: E402
from history import now  # noqa: E402
from proxy import Proxy  # noqa: E402
from servers import Rdzvd, free_port  # noqa: E402

LEASE_S = 2


class Replicated(faults.Cluster):
    def first_start(self):
        self.etcd = etcd3.Cluster()
        super().first_start()

    def flags(self):
        return "--journal=" + self.etcd.url, "--journal-lease=%ds" % LEASE_S

    def start(self):
        began = now()
        self.daemon = Rdzvd(
            *self.flags(),
            listen=["127.0.0.1:%d%s" % (p, s) for p, s in zip(self.ports, ("", "/small", "/fill"))])
        self.row = self.h.add("daemon", began=began, ended=None, how=None)
        etcd3.wait_ready(self.daemon)

    # --- Faults.

    def stop_beyond_the_lease(self):
        """What it had is gone with its lease: the daemon that goes on is another one."""
        row = self.h.add("pause", **{"from": now(), "to": None, "kill": True})
        self.daemon.process.send_signal(signal.SIGSTOP)
        self.a_while(2 * LEASE_S, 2 * LEASE_S + 1)
        self.daemon.process.send_signal(signal.SIGCONT)
        self.daemon.wait_log("event=lease_lost", count=self.leases_lost() + 1)
        self.row.update(ended=now(), how="lease_lost")
        self.row = self.h.add("daemon", began=now(), ended=None, how=None)
        etcd3.wait_ready(self.daemon)
        row["to"] = now()

    def leases_lost(self):
        return self.daemon.log().count("event=lease_lost")

    def kill_etcd(self):
        self.strike_etcd(lambda member: (member.stop(signal.SIGKILL), self.a_while(0, 0.3),
                                         member.start_again()))

    def stop_etcd(self):
        def stop(member):
            member.process.send_signal(signal.SIGSTOP)
            self.a_while(0.1, 1.5)
            member.process.send_signal(signal.SIGCONT)
        self.strike_etcd(stop)

    def strike_etcd(self, how):
        """While it is away, answers wait."""
        row = self.h.add("pause", **{"from": now(), "to": None, "kill": True})
        how(self.etcd.members[0])
        self.etcd.wait(self.etcd.members[0])
        etcd3.wait_ready(self.daemon)
        row["to"] = now()

    DIRECT = (("kill", 3), ("terminate", 2), ("stop", 3), ("stop_beyond_the_lease", 1),
              ("kill_etcd", 4), ("stop_etcd", 4))

    def close(self):
        log = super().close()
        self.etcd.__exit__()
        return log


# A machine with much else to do must not end a lease.
FOLLOWED_LEASE_S = 5


class Followed(Replicated):
    """`relays` are replicas: each has a port for links, and a port for its clients, which changes with each start."""

    def first_start(self):
        self.ports, self.link_ports = [free_port() for _ in range(3)], [free_port() for _ in range(3)]
        self.proxy, self.followers = Proxy(self.ports[0]), []
        super().first_start()

    def flags(self):
        ports = [self.proxy.port, *self.link_ports]
        return ("--journal=" + self.etcd.url, "--journal-lease=%ds" % FOLLOWED_LEASE_S,
                "--upstream=" + ",".join("127.0.0.1:%d" % p for p in ports))

    def relay(self, space):
        taken = [r.link_port for r in self.followers if r.process.poll() is None]
        port = next(p for p in self.link_ports if p not in taken)
        name = "" if space == "default" else "/" + space
        r = Rdzvd(*self.flags(), listen=("127.0.0.1:0" + name, "127.0.0.1:%d" % port))
        r.space, r.link_port = space, port
        self.followers.append(r)
        etcd3.wait_ready(r)
        return r

    def kill_relay(self):
        """It may lead, and then the others' clients wait."""
        row = self.h.add("pause", **{"from": now(), "to": None, "kill": True})
        super().kill_relay()
        etcd3.wait_ready(self.daemon)
        row["to"] = now()

    RELAYED = (("kill", 6), ("terminate", 3), ("stop", 2), ("cut", 5), ("cut_between_bytes", 5), ("stall", 2),
               ("kill_relay", 3))
