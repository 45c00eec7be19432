"""Elastic jobs behind relays while the store is away, stands still or is lost."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import tempfile
import time

import torch_state
from agents import PREFIX, Agent, meet, rejoin
from c10d import Peer
from cases import case, check
from disk import NEEDS_ROOT, fill_disk, put_ballast, small_disk
from proxy import Proxy
from relay_scene import MIB, Relay, Store, ask, in_thread, metric, order, same, until
from servers import bench_binary, free_port, token_flag


def met(*ports):
    """Agents a, b, … of a job that have completed a round, each through the relay at its port."""
    agents = [Agent(port, "job", "abc"[i]) for i, port in enumerate(ports)]
    rejoin(agents)
    return agents


def participate(store, names):
    """The whole state has these participants. An agent that trains is shown only itself."""
    state = torch_state.loads(Peer(store.port).get(PREFIX + b"job"))
    same(sorted(n.addr for n in state.participants), names, "participants")


@case
def ranks_follow_the_labels_of_relays():
    """Of nodes that no line of the table has. A relay says them anew on each link, and an agent keeps its own."""
    def label(text):
        return Relay(store, flags=("--node-label=" + text,))

    def ranks():
        run, = json.loads(ask(store.port, "/rdzv/v1/spaces/default/status")[1])["runs"]
        return [(n["addr"], n.get("domain")) for n in run["nodes"]]

    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "table"), "w", encoding="utf-8") as f:
            f.write("c r2 5\n")
        with Store("--topology-file=" + f.name, "--rank-order=table") as store, label("index=10") as none, \
                label("index=10,domain=r1") as a, label("domain=r1,index=9") as b, label("index=0,domain=r1") as c:
            agents = [Agent(relay.port, "job", name) for name, relay in zip("abcd", (a, b, c, none))]
            rejoin(agents)
            wanted = [("b", "r1"), ("a", "r1"), ("c", "r2"), ("d", None)]
            same(ranks(), wanted, "ranks")
            store.kill()
            store.start()
            for relay in none, a, b, c:
                relay.linked(2)
            agents[3].leave()
            for agent in agents[:3]:
                agent.read()
            rejoin(agents)
            until(lambda: ranks() == wanted, "ranks after a start: %s" % ranks())


@case
def thousands_of_nodes_meet_with_short_texts():
    """The size of the texts that an agent writes and reads does not grow with the number of agents. On busy cores, an
    agent looks more often."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 16000:
        return "a process may open too few files here"
    up, down = {}, {}
    for count in 1200, 3600:
        with Store(durable=False) as store:
            ran = subprocess.run(
                [bench_binary(), "--connect", "127.0.0.1:%d" % store.port, "--clients", "0", "--agents", str(count),
                 "--relays", str(count), "join"], capture_output=True, text=True, timeout=300,
                env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"),  # its clients end with the process
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16000, 16000)))
            check(ran.returncode == 0, "%d agents: %s" % (count, ran.stderr))
            if not re.search(r"event=size_known .*min=%d max=%d" % (count, count), store.daemon.log()):
                return "the first of %d agents was too slow to be measured" % count
            requests = sum(metric(store.port, 'rdzvd_requests_total{protocol="c10d",operation="%s"}' % name)
                           for name in ("COMPARE_SET", "GET", "SET", "WAIT"))
            for way, name in (up, "up"), (down, "down"):
                way[count] = int(re.search(r"work=join .*\b%s=(\d+)" % name, ran.stdout)[1]) / requests
    check(up[3600] < 1.5 * up[1200], "bytes of a request: %r" % up)
    check(down[3600] < 1.5 * down[1200], "bytes of an answer: %r" % down)


@case
def a_pod_that_ends_at_once_is_lost():
    """Agent and relay: nobody says that the agent has gone, but for the end of the link."""
    with Store() as store, Relay(store) as stays:
        ends = Relay(store)
        a, _ = met(stays.port, ends.port)
        killed = time.monotonic()
        ends.stop(signal.SIGKILL)
        store.daemon.wait_log("event=node_disconnected .*node=b/.*its relay has closed the link")
        took = time.monotonic() - killed
        check(took > 2.5, "its relay had %.1f s to come back" % took)
        store.daemon.wait_log("event=nodes_restarted .*nodes=1 ")
        participate(store, ["a"])
        until(lambda: a.read().wait_list, "it is not told to meet the others again")


@case
def an_agent_whose_relay_starts_again_stays_in_its_round():
    """As the backend rdzvd does: its first request through the new relay is a heartbeat. If that relay ends, too, the
    node is lost."""
    with Store() as store, Relay(store) as stays:
        ends, again = Relay(store), Relay(store)
        _, b = met(stays.port, ends.port)
        ends.stop(signal.SIGKILL)
        back = Agent(again.port, "job", "b", meet=False)
        back.seen = b.seen
        back.write(back.beat)
        store.daemon.wait_log("event=node_reconnected .*node=b/")
        check("node_disconnected" not in store.daemon.log(), "a node that is there counts as lost")
        run, = json.loads(ask(store.port, "/rdzv/v1/spaces/default/status")[1])["runs"]
        check(not any("why" in r or "ended" in r for r in run["rounds"]), "its round goes on: %s" % run["rounds"])
        again.stop(signal.SIGKILL)
        store.daemon.wait_log("event=node_disconnected .*node=b/.*its relay has closed the link")
        store.daemon.wait_log("event=nodes_restarted .*nodes=1 ")


@case
def an_order_until_gone_lasts_while_its_agent_may_be_back():
    """Its node has left the round when the store ends, and after the start its relay comes late."""
    with Store(token_flag()) as store, Relay(store) as late, Relay(store) as relay:
        a, b = met(late.port, relay.port)
        same(order(store, "nodes/a?order=evict&until=gone")[0], 200, "evict")
        a.leave()
        store.kill()
        late.process.send_signal(signal.SIGSTOP)
        store.start()
        relay.linked(2)
        for name in "cd":  # each second, the store looks at one order
            same(order(store, "nodes/%s?order=cordon&for=1ms" % name)[0], 200, "cordon")
            store.daemon.wait_log("event=operator_order .*order=uncordon about=%s .*by=rdzvd" % name)
        late.process.send_signal(signal.SIGCONT)
        late.linked(2)
        check("about=a" not in store.daemon.log(), "its agent is back")
        a.close()
        b.close()  # the store does not know its node, unless it writes
        store.daemon.wait_log("event=operator_order .*order=uncordon about=a .*by=rdzvd")


@case
def a_run_keeps_its_port_while_its_agents_may_be_back():
    """The agents' relay has ended, so the store presumes the agents dead; workers of another run still get another
    port."""
    with Store() as store:
        relay = Relay(store)
        gone = dict(zip("ab", met(relay.port, relay.port)))
        relay.stop(signal.SIGKILL)
        for node in gone:
            store.daemon.wait_log("event=node_disconnected .*node=%s/.*its relay has closed the link" % node)
        others = meet(store.port, "other", ["c", "d"])
        others[0].say_where(0, b"127.0.0.1", store.port)
        for agent in others:
            check(agent.ask_where(0)[1] != store.port, "they get the port of the run that may be back")


@case
def each_agent_reads_the_address_of_its_own_relay():
    """Two relays at two addresses and ports, and an agent that uses none: their workers meet in one worker store."""
    relays = [("127.0.0.2", free_port()), ("127.0.0.3", free_port())]
    with Store() as store, Relay(store, listen=("%s:%d" % relays[0],)), \
            Relay(store, listen=("%s:%d" % relays[1],)):
        places = [*relays, ("127.0.0.1", store.port)]
        agents = [Agent(port, "job", "abc"[i], host=host) for i, (host, port) in enumerate(places)]
        rejoin(agents)
        with socket.create_server(("127.0.0.1", 0)) as listens:
            agents[0].say_where(0, b"agent-0.example", listens.getsockname()[1])
            same([a.ask_where(0) for a in agents], places, "what they read")
        workers = [Peer(port, host=host) for host, port in places]
        same([w.add(b"/n", 1) for w in workers], [1, 2, 3], "the counter of the workers' store")


def workers_of(agents, number=0):
    """Workers of these agents, by the addresses that the agents read once agent 0 says where its store is."""
    with socket.create_server(("127.0.0.1", 0)) as listens:
        agents[0].say_where(number, b"agent-0.example", listens.getsockname()[1])
        places = [a.ask_where(number) for a in agents]
    return places, [Peer(port, host=host) for host, port in places]


@case
def jobs_in_one_space_share_a_port_through_relays():
    """Three jobs, each on machines of its own: all their workers use the relays of their agents."""
    with Store() as store, Relay(store) as r1, Relay(store) as r2, Relay(store) as r3, Relay(store) as r4:
        jobs = {"one": (r1, r2), "two": (r3,), "three": (r4,)}
        meet_all = {}
        for run, relays in jobs.items():
            agents = [Agent(r.port, run, run + "abc"[i]) for i, r in enumerate(relays)]
            rejoin(agents)
            places, workers = workers_of(agents)
            same([port for _, port in places], [r.port for r in relays], "ports that %s reads" % run)
            meet_all[run] = agents, workers
        for run, (agents, workers) in meet_all.items():
            same([w.add(b"/n", 1) for w in workers], [1, 2][:len(workers)], "the counter of " + run)
            more = Peer(jobs[run][0].port)
            same(more.add(b"/n", 1), len(workers) + 1, "one more worker of " + run)
            agents[0].leave()
            for agent in agents[1:]:
                agent.read()
            rejoin(agents)
            fresh = Peer(jobs[run][0].port)
            same(fresh.add(b"/n", 1), 1, "the counter of the next round of " + run)
        check("event=worker_port_failed" not in store.daemon.log(), store.daemon.log())
        check("event=worker_store_external" not in store.daemon.log(), store.daemon.log())


@case
def jobs_that_share_a_port_go_on_with_a_store_that_was_killed():
    with Store() as store, Relay(store) as r1, Relay(store) as r2:
        jobs = {}
        for run, relay in (("one", r1), ("two", r2)):
            jobs[run] = Agent(relay.port, run, run)
            rejoin([jobs[run]])
            same(workers_of([jobs[run]])[1][0].add(b"/n", 1), 1, "the counter of " + run)
        store.kill()
        store.start()
        for run, relay in (("two", r2), ("one", r1)):
            jobs[run].read()
            same(Peer(relay.port).add(b"/n", 1), 2, "the counter of %s after the restart" % run)
            jobs[run].leave()
            rejoin([jobs[run]])
            same(Peer(relay.port).add(b"/n", 1), 1, "the counter in the next round of " + run)


@case
def jobs_of_one_relay_are_told_apart_or_refused():
    """The workers of the second job go to worker 0. If a node of one job then joins at the relay of another, rdzvd
    refuses workers that may be of either."""
    with Store() as store, Relay(store) as r1, Relay(store) as r2:
        first, second = Agent(r1.port, "first", "a"), Agent(r1.port, "second", "b")
        for agent in (first, second):
            rejoin([agent])
        same(workers_of([first])[0], [("127.0.0.1", r1.port)], "what the first reads")
        store.daemon.wait_log("level=warn event=worker_port_failed .*run=second .*same relay.* hint=.*--space")
        same(Peer(r1.port).add(b"/n", 1), 1, "the first job's counter")
        third = Agent(r2.port, "third", "c")
        rejoin([third])
        same(workers_of([third])[1][0].add(b"/n", 1), 1, "the third job's counter")
        joins = Agent(r1.port, "third", "d")
        worker = Peer(r1.port)
        try:
            worker.add(b"/n", 1)
            raise AssertionError("a worker of two jobs is served")
        except (EOFError, ConnectionError):
            pass
        store.daemon.wait_log("event=dropped .*several runs")
        joins.close()


@case
def a_relay_that_stands_still_loses_nobody():
    with Store() as store, Relay(store) as stays, Relay(store) as stops:
        a, b = met(stays.port, stops.port)
        stops.process.send_signal(signal.SIGSTOP)
        time.sleep(5)
        stops.process.send_signal(signal.SIGCONT)
        for agent in (a, b):
            agent.write(agent.beat)
        participate(store, ["a", "b"])
        check("node_disconnected" not in store.daemon.log(), store.daemon.log())


@case
def a_link_that_is_reset_loses_nobody():
    """Something between the two ends it; the relay is back at once."""
    with Store() as store, Proxy(store.port) as between, \
            Relay("127.0.0.1:%d" % between.port) as relay:
        a, b = met(relay.port, relay.port)
        for i in range(3):
            between.reset()
            relay.linked(i + 2)
            time.sleep(1.5)
        same(len(a.read().participants), 2, "participants")
        check("node_disconnected" not in store.daemon.log(), store.daemon.log())


@case
def a_full_disk_holds_changes_and_loses_nobody():
    """Clients behind relays wait until it has room; what changes nothing is answered meanwhile."""
    with small_disk(24 * MIB) as folder:
        if folder is None:
            return NEEDS_ROOT
        with Store(parent=folder) as store, Relay(store) as relay:
            full_disk(folder, store, relay)
    return None


def full_disk(folder, store, relay):
    a, b = met(relay.port, relay.port)
    old = Peer(relay.port)
    same(old.add(b"n", 1), 1, "ADD")
    ballast = put_ballast(folder, 8 * MIB)
    fill_disk(Peer(store.port), b"fill")
    store.daemon.wait_log("event=journal_failed")
    new = Peer(relay.port)
    same(old.get(b"n"), b"1", "GET")
    waiting = [in_thread(old.add, b"n", 1), in_thread(new.add, b"n", 1),
               *(in_thread(agent.write, agent.beat) for agent in (a, b))]
    until(lambda: metric(relay.port, "rdzvd_relay_unconfirmed_requests") == len(waiting), "changes wait")
    time.sleep(6)  # longer than between two heartbeats
    os.unlink(ballast)
    store.daemon.wait_log("event=journal_resumed")
    for thread in waiting:
        thread.finish()
    same(old.add(b"n", 0), 3, "ADD")
    participate(store, ["a", "b"])
    check("session_lost" not in relay.log(), relay.log())
    log = store.daemon.log()
    same(len(re.findall("event=dropped ", log)), 1, "clients that were dropped: that of fill_disk()")
    check(not re.search("event=(node_left|node_disconnected|nodes_lost|nodes_restarted)", log), log)


@case
def an_agent_that_ends_while_the_store_is_away_is_lost():
    """The agent's relay lives, and reports the loss when the store is back, before --session-timeout."""
    with Store() as store, Relay(store) as relay:
        a, b = met(relay.port, relay.port)
        store.kill()
        relay.lost()
        b.close()
        store.start()
        a.read()
        store.daemon.wait_log("event=nodes_lost .*nodes=1 ", timeout=10)
        store.daemon.wait_log("event=nodes_restarted .*has not come back after a start of rdzvd", timeout=10)
        participate(store, ["a"])
        until(lambda: a.read().wait_list, "it is not told to meet the others again")


def ends(agent):
    """Its workers have ended: as torch, it asks to close the run, sends no heartbeat, and leaves."""
    agent.write(lambda state: setattr(state, "closed", True))
    agent.close()


@case
def a_job_that_ends_while_the_store_is_away_is_over():
    """Both agents close the run when the store has started again, the first before the other's relay is back: the run
    ends as if the store had never been away."""
    with Store("--closed-run-ttl=1s") as store, Relay(store) as first, Relay(store) as second:
        own = Peer(store.port)
        own.set(b"k", b"v")
        a, b = met(first.port, second.port)
        a.say_where(0, b"127.0.0.1", store.port)
        a.ask_where(0)
        own.close()
        a.finish(0)
        b.finish(0)
        store.kill()
        for relay in (first, second):
            relay.lost()
        second.process.send_signal(signal.SIGSTOP)
        store.start()
        ends(a)
        store.daemon.wait_log("event=run_ended .*run=job .*by=a/100/0 ")
        second.process.send_signal(signal.SIGCONT)
        ends(b)
        store.daemon.wait_log("event=run_forgotten .*run=job closed=true ", timeout=10)
        check("nodes_lost" not in store.daemon.log(), store.daemon.log())
        same(Peer(store.port).wait_get(b"k"), b"v", "a key that is no job's")


@case
def one_that_waits_closes_nothing_before_all_are_back():
    """It gives up while the store is away: whether others go on is not known."""
    with Store() as store, Relay(store) as relay:
        a, b = met(relay.port, relay.port)
        c = Agent(relay.port, "job", "c")
        c.wait_in_line()
        store.kill()
        relay.lost()
        store.start()
        ends(c)
        store.daemon.wait_log("event=close_deferred .*by=c/100/0 ")
        check(not a.read().closed and not b.read().closed, "it is closed")
        store.daemon.wait_log("event=close_ignored .*run=job ", timeout=10)


@case
def who_ended_long_ago_is_known_to_have():
    """The relay has been without a link for longer than --session-timeout: so was the store."""
    with Store("--session-timeout=1s") as store, Relay(store) as relay:
        a, b = met(relay.port, relay.port)
        store.kill()
        relay.lost()
        for agent in (a, b):
            agent.close()
        time.sleep(2.5)
        store.flags[0] = "--session-timeout=1m"
        store.start()
        store.daemon.wait_log("event=nodes_lost .*nodes=2 ", timeout=10)


@case
def the_status_tells_who_is_awaited():
    """A relay that does not come back says nothing, so the store waits for its agents."""
    with Store() as store, Relay(store) as stays:
        goes = Relay(store)
        a, _ = met(stays.port, goes.port)
        store.kill()
        goes.stop(signal.SIGKILL)
        store.start()
        a.write(a.beat)
        told = json.loads(ask(store.port, "/rdzv/v1/status")[1])
        run = told["spaces"][0]["runs"][0]
        same(run["state"], "complete", "the state")
        check([h for h in run["hints"] if "not back since rdzvd was started: 1; unless they are" in h],
              run["hints"])


def waits_as_spare(agent, most):
    """Does what torch's agent does with `most` as MAX, until it waits as a spare. False: it finds a place."""
    state = agent.read()
    for _ in range(20):
        if not state.complete or agent.node in state.participants | {n: 0 for n in state.wait_list}:
            return False
        if agent.node in state.redundancy_list and len(state.participants) == most:
            return True
        if agent.node in state.redundancy_list:
            state.redundancy_list.discard(agent.node)
            state.last_heartbeats.pop(agent.node, None)
        else:
            (state.wait_list if len(state.participants) < most else state.redundancy_list).add(agent.node)
            agent.beat(state)
        agent.try_write(torch_state.dumps(state))
        state = agent.state()
    raise AssertionError("%r still writes after 20 attempts" % (agent.node,))


@case
def a_spare_gets_no_place_after_a_start_while_the_nodes_meet():
    """The journal has the nodes of the last round, and MAX: so do those have the places that have not come back yet, also
    if the spare is the first one."""
    with Store() as store, Relay(store) as relay:
        a, b = met(relay.port, relay.port)
        spare = Agent(relay.port, "job", "c")
        check(waits_as_spare(spare, 2), "the round is full")
        for starts, has_joined in ((1, False), (2, True)):
            for agent in a, b:
                agent.read()
                agent.step_out()
            if has_joined:
                a.read()
                a.join()
            store.kill()
            store.start()
            relay.linked(starts + 1)
            check(waits_as_spare(spare, 2), "the spare takes a place (a has joined: %r)" % has_joined)
            for agent in a, b:
                state = agent.read()
                if state.complete:  # as far as the store knows, its workers may run: it is shown a node that waits
                    state.wait_list.add(agent.node)
                    agent.beat(state)
                    agent.try_write(torch_state.dumps(state))
            rejoin([a, b])
            participate(store, ["a", "b"])
