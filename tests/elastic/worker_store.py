"""Where the store of a run's workers is: its address, its port, and which keys its clients get."""

import contextlib
import re
import socket
import time

from agents import PREFIX, Agent, meet, rejoin
from c10d import NONCE, Peer, modern
from cases import case, check
from scene import Filler, await_agents, daemon, same, settle, status_of, store_of_agent_0
from servers import free_port, free_ports


@case
def each_round_has_fresh_keys_and_old_connections_keep_theirs():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        same(settle([a, b]), ("127.0.0.1", server.port), "the workers' store")
        first = Peer(server.port)
        same(first.add(b"init/", 1), 1, "ADD in the first round")
        first.set(b"/default_pg/0//cpu//0/0", b"first")
        a.leave()
        b.read()
        rejoin([a, b])
        same(a.ask_where(1), ("127.0.0.1", server.port), "told without agent 0's saying so")
        second = Peer(server.port)
        same(second.count(), 0 + a.count(), "a connection that named no key counts the space's")
        same(second.add(b"init/", 1), 1, "ADD in the second round")
        check(not second.check(b"/default_pg/0//cpu//0/0"), "a stale key")
        same(first.get(b"/default_pg/0//cpu//0/0"), b"first", "the old connection's key")
        same(first.add(b"init/", 1), 2, "the old connection's counter")
        second.set(b"/only-here", b"2")
        second.ping()
        check(not first.check(b"/only-here"), "a key of the new round in the old one")
        third = Peer(server.port)
        same(third.wait_get(b"/only-here"), b"2", "another worker of the same round")
        check(not a.check(b"/only-here"), "a worker's key among the agents'")


@case
def a_waiting_worker_is_woken_only_by_its_own_round():
    with daemon() as server:
        agents = meet(server.port, "job", ["a", "b"])
        settle(agents)
        old = Peer(server.port)
        old.wait(b"/k")
        old_too = Peer(server.port)
        same(old_too.add(b"/n", 1), 1, "ADD")
        agents[0].leave()
        agents[1].read()
        rejoin(agents)
        new = Peer(server.port)
        new.set(b"/k", b"new")
        check(old.is_silent(new), "woken by the next round's key")
        old_too.set(b"/k", b"old")
        old.expect_stop_waiting()
        same(old.get(b"/k"), b"old", "its own round's value")


@case
def a_worker_may_ask_before_agent_0_sets_the_master_address():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        b.wait(b.round_key(0, b"MASTER_ADDR"))
        check(b.is_silent(a), "answered before anybody knows")
        with store_of_agent_0() as port:
            a.say_where(0, b"agent-0.example", port)
            b.expect_stop_waiting()
            same(b.get(b.round_key(0, b"MASTER_ADDR")), b"127.0.0.1", "MASTER_ADDR")


@case
def agents_get_the_address_of_advertise():
    for flag, expected in (("job.example.svc:1234", ("job.example.svc", 1234)),
                           ("10.1.2.3", ("10.1.2.3", None)), ("[fd00::1]:77", ("fd00::1", 77))):
        with daemon("--advertise", flag) as server:
            agents = meet(server.port, "job", ["a", "b"])
            same(settle(agents), (expected[0], expected[1] or server.port), flag)
            server.wait_log(r"event=worker_store_assigned .*run=job address=\S*%s\S* port=%d "
                            % (re.escape(expected[0]), expected[1] or server.port))


@case
def the_guessed_address_is_not_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # sends nothing
            own = s.getsockname()[0]
        except OSError:
            own = "127.0.0.1"
    if own.startswith("127."):
        return "this machine has only loopback addresses"
    with daemon(listen=("0.0.0.0:0",)) as server:
        a = Agent(server.port, "job", "a")
        b = Agent(server.port, "job", "b")
        b.close()
        b.socket = socket.create_connection((own, server.port), timeout=20)
        b.send(modern.hello())
        b.expect(NONCE)
        rejoin([a, b])
        with store_of_agent_0() as port:
            a.say_where(0, b"agent-0.example", port)
            same([x.ask_where(0)[0] for x in (a, b)], ["127.0.0.1", own], "each reads its own")
        same(status_of(server.port)[0]["address"], own, "the guess")


def met_at(run, *places):
    """Agents a, b, ... of a round that is complete; each has come to the (host, port) of its own."""
    agents = [Agent(port, run, "abc"[i], host=host) for i, (host, port) in enumerate(places)]
    rejoin(agents)
    return agents


def say_and_ask(agents, number=0):
    """Agent 0 says where its store is; returns what each agent reads."""
    with store_of_agent_0() as port:
        agents[0].say_where(number, b"agent-0.example", port)
        return [a.ask_where(number) for a in agents]


@case
def each_agent_reads_the_address_by_which_it_has_come():
    with daemon(listen=("127.0.0.2:0", "127.0.0.3:0")) as server:
        places = list(zip(("127.0.0.2", "127.0.0.3"), server.ports))
        a, b = met_at("job", *places)
        same(say_and_ask([a, b]), places, "what they read")
        counts = [Peer(port, host=host).add(b"/n", 1) for host, port in places]
        same(counts, [1, 2], "the counter of the workers' store")
        a.leave()
        b.read()
        rejoin([a, b])
        same([x.ask_where(1) for x in (a, b)], places, "what they read in the next round")


@case
def agents_read_their_own_address_if_agent_0_is_lost_first():
    """Agent 0 is lost before that."""
    with daemon(listen=("127.0.0.2:0", "127.0.0.3:0")) as server:
        places = list(zip(("127.0.0.2", "127.0.0.3"), server.ports))
        a, b, c = met_at("job", places[0], *places)
        a.close()
        same([x.ask_where(0) for x in (b, c)], places, "what those that are left read")


@case
def all_agents_read_the_address_of_agent_0_if_no_store_listens_there_yet():
    with daemon(listen=("127.0.0.2:0", "127.0.0.3:0")) as server:
        a, b = met_at("job", *zip(("127.0.0.2", "127.0.0.3"), server.ports))
        port = free_port()
        a.say_where(0, b"agent-0.example", port)
        same([x.ask_where(0) for x in (a, b)], [("agent-0.example", port)] * 2, "what they read")


@case
def a_port_that_is_not_at_an_agents_address_is_reported():
    """The second run has a port of its own, which is open at one of the addresses."""
    with daemon(listen=("127.0.0.1:0", "127.0.0.2:0", "127.0.0.3:0")) as server:
        places = list(zip(("127.0.0.2", "127.0.0.3"), server.ports[1:]))
        first = met_at("first", *places)
        say_and_ask(first)
        agents = met_at("second", *places)
        read = say_and_ask(agents)
        same(read[0], read[1], "what they read")
        host, port = read[0]
        same(Peer(port, host=host).add(b"/n", 1), 1, "a worker's counter")
        other = next(h for h, _ in places if h != host)
        server.wait_log(r"level=warn event=worker_store_elsewhere space=default run=second node=\S+ came_to=%s "
                        r"address=%s port=%d hint=" % (re.escape(other), re.escape(host), port))
        same(server.log().count("event=worker_store_elsewhere"), 1, "warnings")
        hints = {run: [h for h in status_of(server.port, run)[0]["hints"] if "--rdzv-endpoint" in h]
                 for run in ("first", "second")}
        same(hints["first"], [], "hints of the run that has the agents' port")
        check(len(hints["second"]) == 1 and "came to %s, and its workers must go to %s port %d"
              % (other, host, port) in hints["second"][0], hints)


@case
def agent_0s_values_are_answered_if_no_store_listens_there():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        port = free_port()
        a.say_where(0, b"agent-0.example", port)
        for agent in (a, b):
            same(agent.ask_where(0), ("agent-0.example", port), "own store")
        server.wait_log(r"event=worker_store_external space=default run=job "
                        r"reason=.*TORCH_DISABLE_SHARE_RDZV_TCP_STORE")
        worker = Peer(server.port)
        worker.set(b"/w", b"1")
        same(a.wait_get(b"/w"), b"1", "the plain keys")
        a.leave()
        b.read()
        rejoin([a, b])
        a.say_where(1, b"agent-0.example", port + 1)
        same(b.ask_where(1), ("agent-0.example", port + 1), "and in the next round")
        check(worker.check(b"/w"), "plain keys stay")


@case
def an_invalid_port_of_agent_0_is_stored_unchanged():
    for text in (b"", b"0", b"65536", b"29500x", b"-1"):
        with daemon() as server:
            a, b = meet(server.port, "job", ["a", "b"])
            a.set(a.round_key(0, b"MASTER_ADDR"), b"agent-0.example")
            a.set(a.round_key(0, b"MASTER_PORT"), text)
            same(b.wait_get(b.round_key(0, b"MASTER_PORT")), text, "MASTER_PORT")
            same(b.wait_get(b.round_key(0, b"MASTER_ADDR")), b"agent-0.example", "MASTER_ADDR")


@case
def a_full_space_is_logged_and_half_an_address_is_not_set():
    with daemon("--space-limit", "20000") as server:
        a, b = meet(server.port, "job", ["a", "b"])
        for size in (4096, 1024, 256, 64, 16):
            with contextlib.suppress(EOFError, ConnectionError):  # the first that does not fit
                filler = Peer(server.port)
                while True:
                    filler.append(PREFIX + b"fill", b"x" * size)
                    filler.ping()
        with store_of_agent_0() as port:
            a.say_where(0, b"agent-0.example", port)
            server.wait_log(r"level=error event=repair_failed space=default run=job reason=.*--space-limit")
        check(not b.check(b.round_key(0, b"MASTER_ADDR")), "MASTER_ADDR is told")
        check(not b.check(b.round_key(0, b"MASTER_PORT")), "MASTER_PORT is told")
        check("event=workers_" not in server.log(), "said to be decided")


@case
def agents_without_ping_get_plain_keys():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"], ping=False)
        a.say_where(0, b"worker-0.example", 1234)
        same(b.ask_where(0), ("worker-0.example", 1234), "what worker 0 is")
        worker = Peer(server.port, ping=False)
        worker.set(b"/w", b"1")
        same(b.wait_get(b"/w"), b"1", "the plain keys")
        a.leave()
        b.read()
        rejoin([a, b])
        check(Peer(server.port, ping=False).check(b"/w"), "the plain keys stay")
        check("event=workers_" not in server.log(), "nothing is decided")


@case
def other_keys_of_a_round_are_plain():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        settle([a, b])
        for name in (b"torchelastic/role_info/0", b"torchelastic/assigned_ranks/1",
                     b"MASTER_ADDRESS", b"MASTER_ADDR/x"):
            a.set(a.round_key(0, name), name)
            same(b.wait_get(b.round_key(0, name)), name, "a round's key")
        a.set(a.round_key(5, b"MASTER_ADDR"), b"of another round")
        same(b.wait_get(b.round_key(5, b"MASTER_ADDR")), b"of another round", "not this round")
        a.set(a.round_key(0, b"MASTER_ADDR"), b"again")
        a.ping()
        same(b.ask_where(0), ("127.0.0.1", server.port), "a later SET is swallowed too")


@case
def each_run_has_a_port_with_worker_ports():
    low = free_ports(200)
    with daemon("--worker-ports", "%d-%d" % (low, low + 199)) as server:
        jobs = [meet(server.port, "job-%d" % i, ["a", "b"]) for i in range(3)]  # a run that agents leave has no port
        told = [settle(agents)[1] for agents in jobs]
        check("--worker-ports" not in "".join(status_of(server.port, "job-2")[0]["hints"]), "a range was named")
        check(len(set(told)) == 3 and all(low <= p < low + 200 for p in told), told)
        workers = [Peer(p) for p in told]
        for w in workers:
            same(w.add(b"/n", 1), 1, "a run's own keys")
        same(Peer(told[1]).add(b"/n", 1), 2, "and the same for all of a run")
        same(Peer(server.port).add(b"/n", 1), 1, "the agents' port is plain")


@case
def two_runs_in_one_space_stay_apart():
    with daemon("--closed-run-ttl", "100ms") as server:
        first, second = (meet(server.port, run, ["a", "b"]) for run in ("one", "two"))
        places = [settle(first)[1], settle(second)[1]]
        same(places[0], server.port, "the first run shares the agents' port")
        check(places[1] != server.port, "the second run does not")
        hints = [[h for h in status_of(server.port, run)[0]["hints"] if "--worker-ports" in h] for run in ("one", "two")]
        check(hints[0] == [] and len(hints[1]) == 1 and "workers use port %d," % places[1] in hints[1][0], hints)
        w1, w2 = (Peer(p) for p in places)
        same((w1.add(b"/n", 1), w2.add(b"/n", 1)), (1, 1), "counters of two runs")
        # When the first is over, its place is free again; the second keeps its own.
        first[0].close_run()
        for a in first:
            a.close()
        server.wait_log(r"event=run_forgotten .*run=one ")
        third = meet(server.port, "three", ["a", "b"])
        same(settle(third)[1], server.port, "the third run")
        same(Peer(server.port).add(b"/n", 1), 1, "its workers' counter")
        same(Peer(places[1]).add(b"/n", 1), 2, "the second run's")
        same(w1.add(b"/n", 1), 2, "the first run's last worker")


@case
def a_run_whose_place_was_taken_gets_a_port_of_its_own():
    """All of the first run's agents are gone for a while, in which a second one begins."""
    with daemon() as server:
        first = meet(server.port, "one", ["a", "b"])
        same(settle(first)[1], server.port, "the first run shares the agents' port")
        for a in first:
            a.close()
        await_agents(server.port, 0)
        second = meet(server.port, "two", ["a", "b"])
        same(settle(second)[1], server.port, "so does the second")
        w2 = Peer(server.port)
        same(w2.add(b"/n", 1), 1, "the second run's counter")

        back = [Agent(server.port, "one", name, pid=200) for name in "ab"]
        back[0].read()
        back[0].join()
        back[1].read()
        back[1].join(complete=True)
        port = back[0].ask_where(1)[1]
        check(port != server.port, "the first run shares no more")
        same(back[1].ask_where(1)[1], port, "what both are told")
        same(Peer(port).add(b"/n", 1), 1, "the first run's counter")
        same(Peer(server.port).add(b"/n", 1), 2, "the second run's")


def listens(port):
    """Whether a process of this machine listens on the port."""
    with open("/proc/net/tcp") as lines:
        return any(fields[1].endswith(":%04X" % port) and fields[3] == "0A" for fields in map(str.split, lines))


@case
def a_run_without_clients_gives_its_port_back_and_takes_it_again():
    with daemon() as server:
        first, second = (meet(server.port, run, ["a", "b"]) for run in ("one", "two"))
        settle(first)
        port = settle(second)[1]
        check(port != server.port and listens(port), "the second run has a port of its own")
        worker = Peer(port)
        same(worker.add(b"/n", 1), 1, "ADD of a worker")
        for a in second:
            a.close()
        await_agents(server.port, 2)
        same(worker.add(b"/n", 1), 2, "a worker that is left goes on")
        check(listens(port), "and keeps the port")
        worker.close()
        while listens(port):
            await_agents(server.port, 2)  # it asks the daemon, whose tick comes each second

        back = [Agent(server.port, "two", name, pid=200) for name in "ab"]
        back[0].read()
        back[0].join()
        back[1].read()
        back[1].join(complete=True)
        same([a.ask_where(1)[1] for a in back], [port, port], "what both are told")
        same(Peer(port).add(b"/n", 1), 1, "ADD in the new round")


@case
def a_full_space_delays_the_master_address():
    with daemon("--space-limit", "20KiB") as server:
        filler = Filler(server.port)
        agents = meet(server.port, "job", ["a", "b"])
        agents[1].wait(agents[1].round_key(0, b"MASTER_PORT"))
        filler.fill()
        with store_of_agent_0() as port:
            agents[0].say_where(0, b"a", port)
            server.wait_log(r"event=repair_failed space=default run=job reason=.*--space-limit")
        check(agents[1].is_silent(filler.peers[-1]), "nobody is told")
        filler.make_room()
        agents[1].expect_stop_waiting()
        same(agents[1].ask_where(0)[1], server.port, "where the workers' store is")
        server.wait_log(r"event=worker_store_assigned .*run=job")
        same(server.log().count("event=repair_failed"), 1, "complaints")


@case
def a_run_without_agents_hides_no_keys():
    with daemon() as server:
        other = Peer(server.port)
        other.set(b"/k", b"v")
        agents = meet(server.port, "job", ["a", "b"])
        settle(agents)
        worker = Peer(server.port)
        same(worker.add(b"/n", 1), 1, "ADD")
        for a in agents:
            a.close()
        await_agents(server.port, 0)
        same(Peer(server.port).check(b"/k"), False, "while a worker is there, clients are workers")
        worker.close()
        deadline = time.monotonic() + 20
        while not Peer(server.port).check(b"/k"):
            check(time.monotonic() < deadline, "a run that all have left hides a key")


@case
def a_port_of_its_own_ends_with_its_run():
    with daemon("--closed-run-ttl", "100ms") as server:
        keep = meet(server.port, "one", ["a", "b"])
        settle(keep)
        agents = meet(server.port, "two", ["a", "b"])
        port = settle(agents)[1]
        worker = Peer(port)
        same(worker.add(b"/n", 1), 1, "ADD")
        unnamed = Peer(port)
        agents[0].close_run()
        for a in agents:
            a.close()
        server.wait_log(r"event=run_forgotten .*run=two ")
        same(worker.add(b"/n", 1), 2, "who is connected goes on")
        w = Peer(settle(keep)[1])
        same(w.add(b"/n", 1), 1, "the first run's counter")
        check(unnamed.add(b"/n", 1) == 1, "a late worker of a run that is gone is in no other run")
        same(w.add(b"/n", 1), 2, "and has not counted there")
        try:
            Peer(port)
            raise AssertionError("port %d is still open" % port)
        except ConnectionRefusedError:
            pass


@case
def a_client_that_waits_for_a_run_keeps_the_keys_of_the_space():
    """The keys of the space keep its wait, whatever keys its later requests name."""
    with daemon() as server:
        both = meet(server.port, "job", "ab")
        settle(both)  # from now on, other clients get the keys of workers
        looker, other = Peer(server.port), Peer(server.port)
        looker.wait(b"/torch.rendezvous.none")
        looker.send(modern.set(b"of-the-space", b"v") + modern.ping())
        looker.expect(NONCE)
        other.set(b"of-workers", b"v")
        same(other.count(), 1, "the keys of workers")
        looker.close()
        other.close()


@case
def agent_0_is_lost_before_it_sets_the_master_address():
    with daemon() as server:
        a, b = meet(server.port, "job", "ab")
        a.close()
        same(b.ask_where(0), ("127.0.0.1", server.port), "the one that is left")
        b.read()
        b.step_out()
        c = Agent(server.port, "job", "c")
        rejoin([b, c])
        # b knows a place, and says none; c is new.
        b.set(b.round_key(1, b"torchelastic/role_info/0"), b"{}")
        same(c.ask_where(1), ("127.0.0.1", server.port), "the new one")
