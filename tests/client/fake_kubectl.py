"""A kubectl for tests of `kubectl rdzv`: it answers `get … -o json` from the objects in $FAKE_CLUSTER, a JSON file, and
forwards ports of pods to servers on loopback. It knows no other flags than those that the plugin uses.

    objects     live objects, of the namespace `ml`
    forbidden   names of Secrets that the user may not read
    ports       ["POD:PORT", the port of loopback behind it]
    calls       a file to which each call adds its command line
"""

import json
import os
import signal
import socket
import sys
import threading


def fail(text):
    sys.exit("Error from server " + text)


def matches(thing, selector):
    labels = thing["metadata"].get("labels", {})
    return all(labels.get(name) == value for name, _, value in (part.partition("=") for part in selector.split(",")))


def get(cluster, words):
    kinds, selector, phase, name = words.pop(0).split(","), "", None, None
    while words:
        word = words.pop(0)
        if word == "-l":
            selector = words.pop(0)
        elif word.startswith("--field-selector=status.phase="):
            phase = word.rpartition("=")[2]
        elif word == "-o":
            assert words.pop(0) == "json"
        else:
            name = word
    found = [o for o in cluster["objects"] if o["kind"].lower() in kinds and (not selector or matches(o, selector))]
    if phase is not None:
        found = [o for o in found if o["status"]["phase"] == phase]
    if name is None:
        print(json.dumps({"kind": "List", "items": found}))
        return
    if name in cluster["forbidden"]:
        fail('(Forbidden): secrets "%s" is forbidden: User "ann" cannot get resource "secrets" in API group "" in the '
             'namespace "ml"' % name)
    found = [o for o in found if o["metadata"]["name"] == name]
    if not found:
        fail('(NotFound): secrets "%s" not found' % name)
    print(json.dumps(found[0]))


def copy(source, target):
    try:
        for data in iter(lambda: source.recv(65536), b""):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def port_forward(cluster, words):
    address, pod, port = words
    assert address == "--address=127.0.0.1" and pod.startswith("pod/") and port.startswith(":"), words
    target = dict(cluster["ports"]).get(pod[4:] + port)
    if target is None:
        sys.exit("error: unable to forward port because pod is not running. Current status=Pending")
    listener = socket.create_server(("127.0.0.1", 0))
    print("Forwarding from 127.0.0.1:%d -> %s" % (listener.getsockname()[1], port[1:]), flush=True)
    while True:
        client, _ = listener.accept()
        print("Handling connection for %d" % listener.getsockname()[1], flush=True)
        server = socket.create_connection(("127.0.0.1", target))
        for pair in ((client, server), (server, client)):
            threading.Thread(target=copy, args=pair, daemon=True).start()


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    words = sys.argv[1:]
    with open(os.environ["FAKE_CLUSTER"], encoding="utf-8") as f:
        cluster = json.load(f)
    with open(cluster["calls"], "a", encoding="utf-8") as f:
        print(os.getpid(), *words, file=f)
    while words[0].startswith("--"):
        if words[0] not in ("--namespace=ml", "--context=c1"):
            sys.exit("error: " + words[0])
        del words[0]
    {"get": get, "port-forward": port_forward}[words.pop(0)](cluster, words)


if __name__ == "__main__":
    main()
