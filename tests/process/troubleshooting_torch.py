"""Rows of rdzv/TROUBLESHOOTING.md that begin with a message of torch. They run with troubleshooting.py."""

import http.client
import os
import re
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("support", "elastic", "torch")]
from agents import Agent, meet  # noqa: E402
from c10d import modern  # noqa: E402
from cases import check  # noqa: E402
from certs import Ca  # noqa: E402
from servers import OPERATOR, free_port  # noqa: E402
from troubleshooting_scene import TORCH, WORKER, checked, joined, python_worker, row, trains, wait_until  # noqa: E402


# ------------------------------------------------------------ torch prints a message


@row("RendezvousTimeoutError")
def too_few_nodes(r, scene):
    store = scene.rdzvd()
    agent = scene.agent(store.port, nnodes="2:2", conf="join_timeout=3")
    joined(store)
    r.show(store=store.port)
    r.see(agent.end())


@row("RendezvousClosedError, at the start")
def closed_at_start(r, scene):
    store = scene.rdzvd("--closed-run-ttl=1h", "--closed-run-wait=1s")
    scene.agent(store.port).end()
    r.see(scene.agent(store.port).end())
    r.show(store=store.port, logs=[store])


@row("RendezvousClosedError, at the start, of some hosts")
def closed_for_a_spare(r, scene):
    store = scene.rdzvd("--closed-run-ttl=100ms", "--closed-run-wait=1s")
    done, = meet(store.port, "RUN", ["a"])
    spare = Agent(store.port, "RUN", "127.0.0.1")
    spare.wait_in_line()
    done.finish(0)
    done.close_run()
    for agent in (done, spare):
        agent.close()
    store.wait_log("event=run_forgotten .*run=RUN")
    r.see(scene.agent(store.port).end())
    r.show(store=store.port, logs=[store])


@row("RendezvousClosedError, in a running job")
def closed_in_job(r, scene):
    store = scene.rdzvd()
    agents = [scene.agent(store.port, nnodes="2:2", worker=w) for w in ("sleep 30", "sleep 1; exit 3")]
    r.see(agents[0].end())
    r.show(store=store.port, logs=[store])


@row("RendezvousClosedError, over etcd-v2")
def closed_over_etcd(r, scene):
    store = scene.rdzvd()
    scene.agent(store.port, backend="etcd-v2").end()
    r.see(scene.agent(store.port, backend="etcd-v2").end())
    r.show(store=store.port)


@row("RendezvousClosedError, over etcd, at the start")
def closed_over_torch_etcd(r, scene):
    store = scene.rdzvd()
    scene.agent(store.port, backend="etcd").end()
    r.see(scene.agent(store.port, backend="etcd").end())
    r.show(store=store.port)
    c = http.client.HTTPConnection("127.0.0.1", store.port, timeout=20)
    c.request("DELETE", "/rdzv/v1/spaces/default/runs/RUN", headers=OPERATOR)  # as rdzvctl forget does
    check(c.getresponse().status == 200, "forgotten")
    c.close()
    again = scene.agent(store.port, backend="etcd", worker="echo begins again").end()
    check("begins again" in again, again)


@row("RendezvousConnectionError, wait timeout")
def store_away(r, scene):
    store = scene.rdzvd()
    relay = scene.relay(store.port)
    agent = scene.agent(relay.port, nnodes="2:2", conf="read_timeout=3,keep_alive_interval=60")
    # While it waits for the answer to a GET or COMPARE_SET, torch has no timeout: the store ends between two polls.
    polls = r'rdzvd_requests_total{.*"GET".*} [3-9]'
    wait_until(lambda: re.search(polls, get(store.port, "/metrics")[1]), lambda: get(store.port, "/metrics")[1])
    store.stop(signal.SIGKILL)
    relay.wait_log("event=upstream_failed")
    r.show(relay=relay.port)
    r.see(agent.end())


@row("Failed to recv, got 0 bytes, Broken pipe")
def store_restarts(r, scene):
    port = free_port()
    store = scene.rdzvd(listen=("127.0.0.1:%d" % port,))
    joins = scene.agent(port, run="FIRST", nnodes="2:2")
    beats = trains(scene, port)
    joined(store, "FIRST")
    store.stop(signal.SIGKILL)
    r.see(joins.end(), beats.end())
    r.show(logs=[scene.rdzvd(listen=("127.0.0.1:%d" % port,))])


@row("has failed to send a keep-alive heartbeat")
def heartbeat_fails(r, scene):
    store = scene.rdzvd()
    agent = trains(scene, store.port)
    store.stop(signal.SIGKILL)
    r.show(store=store.port)
    r.see(agent.end())


@row("has failed to shutdown the rendezvous")
def shutdown_fails(r, scene):
    ended_before_its_agent(r, scene)


@row("Error waiting on exit barrier")
def exit_barrier_fails(r, scene):
    ended_before_its_agent(r, scene)


def ended_before_its_agent(r, scene):
    port, folder = free_port(), scene.folder()
    store = scene.rdzvd(listen=("127.0.0.1:%d" % port,))
    goes_on = os.path.join(folder, "goes-on")
    os.mkfifo(goes_on)
    agent = scene.agent(port, worker="cat " + goes_on, more=("--monitor-interval=2",))
    joined(store, event="worker_store_assigned")
    with open(goes_on, "wb"):  # the worker runs
        store.stop(signal.SIGKILL)
    r.see(agent.end())
    check(agent.process.poll() in (0, 1), agent.text())
    if "exit barrier" in r.symptom:
        check(agent.process.poll() == 0, agent.text())
    r.show(logs=[scene.rdzvd(listen=("127.0.0.1:%d" % port,))])


@row("Connection reset by peer, while the store runs")
def dropped(r, scene):
    store = scene.rdzvd("--value-limit=50KiB")
    r.see(scene.script(WORKER, "value", str(store.port), "100000").end())
    r.show(logs=[store])


@row("The client socket has timed out")
def nobody_listens(r, scene):
    port = free_port()
    agent = scene.agent(port, conf="read_timeout=1")
    r.show(store=port)
    r.see(agent.end())


@row("The connection to the C10d store has failed")
def store_wants_tls(r, scene):
    ca = Ca()
    cert, key = ca.issue()
    store = scene.rdzvd("--cert=" + cert, "--key=" + key, "--plaintext=off")
    agent = scene.agent(store.port, conf="read_timeout=1")
    r.show(logs=[store])
    r.see(agent.end())


@row("DistNetworkError, and the endpoint's name is unknown")
def unknown_name(r, scene):
    agent = scene.agent(None, endpoint="store..x:29400", conf="read_timeout=1")  # no DNS server is asked for that
    r.see(agent.end())
    r.show(store="store..x:29400")


@row("EADDRINUSE, address already in use")
def second_store(r, scene):
    store = scene.rdzvd()
    r.see(scene.agent(store.port, conf="is_host=1,read_timeout=2").end())
    r.show(store=store.port)


@row("Gloo connectFullMesh failed", instead="takes two machines")
def gloo_at_loopback(r, scene):
    r.show(store=scene.rdzvd().port)


@row("wait timeout after 300000ms, keys: /default_pg/0//")
def worker_waits(r, scene):
    store = scene.rdzvd()
    worker = scene.script(WORKER, "wait", "5", RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                          MASTER_PORT=str(store.port), TORCHELASTIC_USE_AGENT_STORE="True")
    waits_for_key(store)
    r.show(store=store.port)
    r.see(worker.end())


def waits_for_key(store):
    wait_until(lambda: re.search(r"rdzvd_space_waiters\S* [1-9]", get(store.port, "/metrics")[1]),
               lambda: "no client waits")


def get(port, path, **headers):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    c.request("GET", path, headers=headers)
    answer = c.getresponse()
    got = answer.status, answer.read().decode()
    c.close()
    return got


@row("is setting up NCCL communicator", instead="takes GPUs")
def waits_for_nccl(r, scene):
    store = scene.rdzvd()
    scene.peer(store.port).send(modern.wait(b"/default_pg/0//cuda//0"))
    waits_for_key(store)
    r.show(store=store.port)


@row("This is typically caused by a remote worker")
def gloo_loses_worker(r, scene):
    store = scene.rdzvd()
    agents = [scene.agent(store.port, nnodes="2:2", worker=python_worker("lose", 30),
                          more=("--monitor-interval=5",))  # it ends a worker no sooner, so the worker says why it fails
              for _ in range(2)]
    r.see(*[a.end() for a in agents])
    r.show(logs=[store])


@row("ChildFailedError, To enable traceback see")
def worker_fails(r, scene):
    store = scene.rdzvd()
    r.see(scene.agent(store.port, worker="exit 3").end())
    r.show(logs=[store])


@row("Rendezvous gracefully exited")
def spare(r, scene):
    store, folder = scene.rdzvd(), scene.folder()
    goes_on = os.path.join(folder, "goes-on")
    os.mkfifo(goes_on)
    scene.agent(store.port, worker="cat " + goes_on)
    joined(store, event="worker_store_assigned")
    with open(goes_on, "wb"):
        second = scene.agent(store.port)
        store.wait_log("event=node_joined .*role=spare")
    r.see(second.end())
    check(second.process.poll() == 1, second.text())
    r.show(logs=[store])


@row("The rendezvous state is corrupt")
def foreign_state(r, scene):
    store = scene.rdzvd()
    scene.peer(store.port).set(b"/torch.rendezvous.RUN", b"AAAA")
    r.see(scene.agent(store.port).end())
    check("AAAA" in r.show(store=store.port)[0], "the text that another program has written")


@row("UnicodeError: encoding with 'idna' codec failed")
def long_host_name(r, scene):
    if os.getuid() != 0:
        return "changing the host name takes root"
    store = scene.rdzvd()
    renamed = 'hostname %s && PYTHONWARNINGS=ignore exec "$@"' % ("n" * 64)
    there = ["unshare", "--uts", "sh", "-c", renamed, "sh"]
    argv = [*TORCH.python, "-m", "torch.distributed.run", "--nnodes=1:1", "--rdzv-backend=c10d",
            "--local-addr=127.0.0.1", "--rdzv-endpoint=127.0.0.1:%d" % store.port, "--rdzv-conf=is_host=0",
            "--no-python", "true"]
    done = subprocess.run(there + argv, env=TORCH.environment(), capture_output=True, text=True, timeout=60)
    r.see(done.stderr)
    r.show(within=there)
    return None


@row("The hostname of the rendezvous endpoint")
def endpoint_is_url(r, scene):
    store = scene.rdzvd()
    r.see(scene.agent(None, endpoint="http://127.0.0.1:%d" % store.port).end())
    r.show(manifest=checked("endpoint-scheme"))


@row("The connection to etcd has failed")
def no_etcd(r, scene):
    port = free_port()
    r.see(scene.agent(port, backend="etcd-v2").end())
    r.show(store=port)
