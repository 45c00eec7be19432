"""Relays that restart the containers of their pods together (--exit-on-restart), with processes in the place of
containers.

    relay_restarts.py --nodes 16 --kills 50 [--seed S]     kills one process after the other, and prints how long it took

relay.py runs the cases. A pod is a relay and a process that stands for the training; the thread of the pod does what a
kubelet does with `restartPolicyRules` and a startup probe.
"""

import argparse
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

import relay_scene  # noqa: F401  first, since it says where the modules of the tests are
import relay_frames
from agents import rejoin, Agent
from cases import case, check
from relay_scene import SEED, Relay, Store, ask, order, same, until
from servers import token_flag

CODE = 85


class Pod:
    """The training starts when the relay's /startz is 200. If one of the two ends, except with 0, both start again."""

    def __init__(self, store, name, nodes):
        self.flags = ("--exit-on-restart=%d" % CODE, "--expect=%d" % nodes, "--name=" + name)
        self.store, self.name = store, name
        self.relay = self.training = None
        self.started = []  # when the training did, each time
        self.codes = []    # how the relay has ended
        self.begins, self.stops = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.failure = None
        self.thread.start()

    def run(self):
        try:
            while not self.stops.is_set():
                self.run_once()
        except Exception as e:  # told by end()
            self.failure = e
        finally:
            self.kill_both()

    def run_once(self):
        self.training = None
        self.relay = Relay(self.store, flags=self.flags)
        self.begins.set()
        while self.relay.process.poll() is None and not self.stops.is_set():
            if self.training is None and self.may_start():
                self.training = subprocess.Popen(["sleep", "1000"])
                self.started.append(time.monotonic())
            if self.training is not None and self.training.poll() is not None:
                break
            time.sleep(0.01)
        self.codes.append(self.relay.process.poll())
        self.kill_both()

    def may_start(self):
        return self.says()[0] == 200

    def kill_both(self):
        for process in (self.training, self.relay and self.relay.process):
            if process is not None:
                process.kill()
                process.wait()

    def says(self):
        """Of /startz; 0 and nothing if the relay has ended."""
        try:
            return ask(self.relay.port, "/startz")
        except OSError:
            return 0, ""

    def end(self):
        self.stops.set()
        self.thread.join(30)
        if self.failure is not None:
            raise self.failure


class Pods:
    def __init__(self, store, nodes, names=None):
        self.nodes = nodes
        self.pods = [Pod(store, name, nodes) for name in names or ["pod-%d" % i for i in range(nodes)]]

    def __enter__(self):
        for pod in self.pods:
            pod.begins.wait(30)
        return self

    def __exit__(self, *_):
        for pod in self.pods:
            pod.stops.set()
        for pod in self.pods:
            pod.end()

    def add(self, store, name):
        self.pods.append(Pod(store, name, self.nodes))
        self.pods[-1].begins.wait(30)
        return self.pods[-1]

    def wait_started(self, times):
        until(lambda: all(len(p.started) >= times for p in self.pods) or any(p.failure for p in self.pods),
              "all trainings have started %d times: %s" % (times, [len(p.started) for p in self.pods]), 60)
        same([p.failure for p in self.pods], [None] * len(self.pods), "failures")
        same([len(p.started) for p in self.pods], [times] * len(self.pods), "starts of each training")


def kill_some(pods, random_, kills):
    """Kills the relay or the training of one pod after the other. Returns the seconds from each kill until the last
    training may start."""
    took = []
    pods.wait_started(1)
    for i in range(kills):
        lost = random_.choice(pods.pods)
        codes = [len(p.codes) for p in pods.pods]
        process = random_.choice((lost.relay.process, lost.training))
        killed = time.monotonic()
        process.send_signal(signal.SIGKILL)
        pods.wait_started(i + 2)
        took.append(max(p.started[-1] for p in pods.pods) - killed)
        same([len(p.codes) for p in pods.pods], [n + 1 for n in codes], "each relay has ended once")
        same([p.codes[-1] for p in pods.pods if p is not lost], [CODE] * (len(pods.pods) - 1), "exit codes")
    return took


def generation(pods):
    """Of all relays, which have started."""
    got = {re.search(r"generation (\d+) has started", ask(pod.relay.port, "/startz?verbose")[1]).group(1)
           for pod in pods.pods}
    same(len(got), 1, "generations")
    return int(got.pop())


def generation_after(pods, starts):
    pods.wait_started(starts)
    return generation(pods)


@case
def the_nodes_of_a_run_start_together_and_start_again_together():
    with Store() as store, Pods(store, 4, ["pod-0", "pod-1", "pod-2"]) as pods:
        for pod in pods.pods:
            until(lambda: "3 of 4 relays of the run are here: " in pod.says()[1], "three are here")
        status, body = pods.pods[1].says()
        same(status, 503, "/startz before the fourth")
        check(all(name in body for name in ("pod-0", "pod-1", "pod-2")), body)
        pods.add(store, "pod-3")
        took = kill_some(pods, random.Random(SEED), 6)
        print("  seconds from a kill to the last start: %s" % ", ".join("%.2f" % t for t in took))
        same(generation(pods), 7, "the generation")


@case
def a_relay_that_starts_again_before_the_others_notice_waits_for_them():
    with Store() as store, Pods(store, 3) as pods:
        pods.wait_started(1)
        frozen = [p.relay.process for p in pods.pods[:2]]
        for process in frozen:
            process.send_signal(signal.SIGSTOP)
        lost = pods.pods[2]
        lost.begins.clear()
        lost.relay.process.kill()
        lost.begins.wait(30)
        until(lambda: all(p.name in lost.says()[1].partition("missing: ")[2] for p in pods.pods[:2]),
              "the sentence names the others")
        same(lost.says()[0], 503, "/startz while the others have not started again")
        for process in frozen:
            process.send_signal(signal.SIGCONT)
        pods.wait_started(2)
        same(generation(pods), 2, "the generation")


@case
def a_relay_that_is_lost_before_the_last_one_comes_is_waited_for():
    with Store() as store, Pods(store, 3, ["pod-0"]) as pods:
        gone = Relay(store, flags=("--exit-on-restart=85", "--expect=3", "--name=pod-1"))
        until(lambda: "2 of 3" in pods.pods[0].says()[1], "two are here")
        gone.stop(signal.SIGKILL)
        last = pods.add(store, "pod-2")
        until(lambda: last.says()[1].startswith("[+]loop ok") and "missing: pod-1" in last.says()[1],
              "the sentence names the lost one")
        same([len(p.started) for p in pods.pods], [0, 0], "starts without the lost node")
        pods.add(store, "pod-1")
        pods.wait_started(1)
        same(generation(pods), 1, "the generation")


@case
def a_relay_that_is_frozen_when_the_last_one_comes_is_waited_for():
    """Its link is open, as that of a machine without power."""
    with Store() as store, Pods(store, 3, ["pod-0", "pod-1"]) as pods:
        until(lambda: "2 of 3" in pods.pods[0].says()[1], "two are here")
        frozen = pods.pods[1].relay.process
        frozen.send_signal(signal.SIGSTOP)
        pods.add(store, "pod-2").relay.linked()
        same(ask(store.port, "/livez")[0], 200, "an answer of the store after that")
        goes_on = time.monotonic()
        frozen.send_signal(signal.SIGCONT)
        pods.wait_started(1)
        check(min(p.started[0] for p in pods.pods) >= goes_on, "a training has started without a frozen relay")


@case
def an_operator_restarts_a_run_with_agents_or_without():
    with Store(token_flag()) as store, Pods(store, 3) as pods:
        pods.wait_started(1)
        status, body = order(store, "runs/another?order=restart")
        check(status == 404 and "No such run: another" in body, body)
        same([order(store, "runs/default?order=restart")[0], generation_after(pods, 2)], [200, 2], "status, and the generation")
        rejoin([Agent(pod.relay.port, "job", pod.name) for pod in pods.pods])
        same([order(store, "runs/job?order=restart")[0], generation_after(pods, 3)], [200, 3], "status, and the generation")
        same([p.codes for p in pods.pods], [[CODE] * 2] * 3, "exit codes of the relays")
        store.daemon.wait_log("event=operator_order .*order=restart about=job")


@case
def a_store_that_is_killed_and_started_ends_no_relay():
    with Store() as store, Pods(store, 3) as pods:
        pods.wait_started(1)
        for i in range(3):
            store.kill()
            for pod in pods.pods:
                pod.relay.lost(i + 1)
            store.start()
            for pod in pods.pods:
                pod.relay.linked(i + 2)
        pods.pods[0].relay.process.kill()
        pods.wait_started(2)
        same(generation(pods), 2, "the generation")
        same([p.codes for p in pods.pods[1:]], [[CODE], [CODE]], "exit codes")


@case
def a_store_that_has_lost_its_state_gets_the_generation_back():
    with Store(durable=False) as store, Pods(store, 3) as pods:
        pods.wait_started(1)
        pods.pods[0].relay.process.kill()
        pods.wait_started(2)
        store.kill()
        for pod in pods.pods:
            pod.relay.lost()
        store.start()
        for pod in pods.pods:
            pod.relay.linked(2)
        pods.pods[1].training.kill()
        pods.wait_started(3)
        same(generation(pods), 3, "the generation")


@case
def relays_that_wait_find_each_other_in_a_store_that_has_lost_its_state():
    with Store(durable=False) as store, Pods(store, 3) as pods:
        pods.wait_started(1)
        pods.pods.pop().end()
        pods.pods[0].relay.process.kill()
        until(lambda: all(len(p.codes) == 1 for p in pods.pods), "both have ended")
        for pod in pods.pods:
            until(lambda: "2 of 3" in pod.says()[1], "two are here")
        store.kill()
        for pod in pods.pods:
            pod.relay.lost()
        store.start()
        pods.add(store, "pod-2").started.append(None)
        pods.wait_started(2)


@case
def a_run_of_another_size_begins_a_generation():
    with Store() as store:
        with Pods(store, 2) as pods:
            pods.wait_started(1)
        with Pods(store, 3) as pods:
            pods.wait_started(1)
            check(generation(pods) >= 2, "the generation is %d" % generation(pods))


@case
def relays_of_agents_restart_together():
    """Their keys are no keys of workers, whose store is another one in each round."""
    flags = ("--exit-on-restart=85", "--expect=2")
    with Store() as store:
        relays = [Relay(store, flags=(*flags, "--name=" + name)) for name in "ab"]
        rejoin([Agent(relay.port, "job", name) for relay, name in zip(relays, "ab")])
        for relay in relays:
            relay.wait_log("event=restart_started generation=1 ")
        relays[0].stop(signal.SIGKILL)
        relays[0] = Relay(store, flags=(*flags, "--name=a"))
        same(relays[1].process.wait(20), 85, "exit code")
        store.daemon.wait_log("event=node_disconnected .*node=b/")
        relays[1] = Relay(store, flags=(*flags, "--name=b"))
        for relay in relays:
            relay.wait_log("event=restart_started generation=2 ")
            same(relay.stop(), 0, "exit code after SIGTERM")


@case
def a_link_has_one_node():
    """A second name left a node with the link of the first one: the next generation wrote to a freed link."""
    with Store() as store:
        with socket.create_connection(("127.0.0.1", store.port), timeout=20) as link:
            link.sendall(relay_frames.hello(b"default") + relay_frames.restart(b"a") + relay_frames.restart(b"b"))
            store.daemon.wait_log("event=dropped .*the name of a second node")
            while link.recv(65536):
                pass
        with Pods(store, 2) as pods:
            pods.wait_started(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    with Store() as store, Pods(store, options.nodes) as pods:
        took = sorted(kill_some(pods, random.Random(options.seed), options.kills))
        print("%d nodes, %d kills, seed %d: from the kill to the last start: median %.2f s, 90%% %.2f s, most %.2f s" % (
            options.nodes, options.kills, options.seed, statistics.median(took), took[len(took) * 9 // 10], took[-1]))
        same(generation(pods), options.kills + 1, "the generation")


if __name__ == "__main__":
    sys.exit(main())
