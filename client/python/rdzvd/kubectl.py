#!/usr/bin/python3
"""kubectl rdzv: rdzvctl at a store in a cluster, through `kubectl port-forward`.

    kubectl rdzv [-n NAMESPACE] [--context NAME] [--kubeconfig FILE] [--store JOB] [--space SPACE] COMMAND [WORD...]

COMMAND and its words are those of rdzvctl: `kubectl rdzv status -w`, `kubectl rdzv help`. The store is that of the namespace
whose Service or pod has the labels of `rdzv-manifest emit` and of the Helm chart; --store chooses one of several by its label
app.kubernetes.io/instance. TLS and the token of operators come from the Secrets that the store's pod mounts.

Without that token, a store does not show the spaces of relays. Then the command goes to a relay of the store, in a pod of
the job; --space chooses one of several."""

import argparse
import base64
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading

LABELS = "app.kubernetes.io/name=rdzvd,app.kubernetes.io/component=rendezvous"
INSTANCE = "app.kubernetes.io/instance"
STORE, RELAY = "rdzvd", "rdzvd-relay"  # names of containers
TLS_VARIABLES = ("RDZVCTL_CACERT", "RDZVCTL_CERT", "RDZVCTL_KEY", "RDZVCTL_TLS_SERVER_NAME")
OFFLINE = ("help", "completion", "--version")
PR_SET_PDEATHSIG = 1
UNREACHABLE = 3  # an exit code of rdzvctl


class Failure(Exception):
    """Its text says why there is no answer, and the remedy."""


def note(text):
    print("kubectl rdzv: " + text, file=sys.stderr)


def find_rdzvctl():
    try:
        from rdzvd import program_path
        return program_path("rdzvctl")
    except (ImportError, FileNotFoundError):
        path = shutil.which("rdzvctl")
    if path is None:
        raise Failure("there is no rdzvctl on PATH")
    return path


class Cluster:
    """kubectl with the flags of the command line."""

    def __init__(self, options):
        self.argv = [os.environ.get("KUBECTL", "kubectl")]
        for name in ("namespace", "context", "kubeconfig"):
            if getattr(options, name):
                self.argv.append("--%s=%s" % (name, getattr(options, name)))

    def get(self, *words):
        """The object, or the list of objects."""
        try:
            done = subprocess.run(self.argv + ["get", *words, "-o", "json"], stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True)
        except OSError as error:
            raise Failure("%s: %s" % (self.argv[0], error.strerror)) from error
        if done.returncode != 0:
            raise Failure(done.stderr.strip())
        found = json.loads(done.stdout)
        return found["items"] if "items" in found else found

    def forward(self, pod, port):
        """A child that forwards a port of loopback to the pod and ends with this process; and that port."""
        libc = ctypes.CDLL(None)
        child = subprocess.Popen(self.argv + ["port-forward", "--address=127.0.0.1", "pod/" + pod, ":%d" % port],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True,
                                 preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM))
        for line in child.stdout:
            found = re.match(r"Forwarding from 127\.0\.0\.1:(\d+) ", line)
            if found:
                threading.Thread(target=child.stdout.read, daemon=True).start()  # a full pipe would stop it
                return child, int(found.group(1))
        raise Failure("kubectl port-forward has ended with code %d" % child.wait())


# --- Pods. ---

def container_of(pod, name):
    spec = pod["spec"]
    found = [c for c in spec.get("initContainers", []) + spec["containers"] if c["name"] == name]
    return found[0] if found else None


def flag_of(container, name):
    """The first value of a flag among the arguments of a container; None without it."""
    values = [a.partition("=")[2] for a in container.get("args", []) if a.startswith("--%s=" % name)]
    return values[0] if values else None


def choose_running(pods):
    """A pod that is ready if there is one; None if no pod runs."""
    def is_ready(pod):
        return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
    running = [p for p in pods if p["status"]["phase"] == "Running"]
    return max(running, key=is_ready, default=None)


def find_store(cluster, options):
    """The Service of the store, or None, and its running pod."""
    found = cluster.get("service,pod", "-l", LABELS)
    if options.store:
        found = [o for o in found if o["metadata"]["labels"].get(INSTANCE) == options.store]
    names = sorted({o["metadata"]["labels"].get(INSTANCE, "") for o in found})
    if not names:
        raise Failure("no Service and no pod %s has the labels %s%s: name another namespace with -n" % (
            "of the namespace " + options.namespace if options.namespace else "of this namespace", LABELS,
            ",%s=%s" % (INSTANCE, options.store) if options.store else ""))
    if len(names) > 1:
        raise Failure("the stores of this namespace are %s: choose one with --store" % ", ".join(names))
    services = [o for o in found if o["kind"] == "Service"]
    pods = [o for o in found if o["kind"] == "Pod"]
    if not pods:  # the store is a container of a training pod
        selector = ",".join("%s=%s" % item for item in sorted(services[0]["spec"].get("selector", {}).items()))
        pods = cluster.get("pod", "-l", selector)
    pod = choose_running([p for p in pods if container_of(p, STORE)])
    if pod is None:
        raise Failure("no pod of the store %s is running: kubectl get pods" % names[0])
    return services[0] if services else None, pod


def find_relay(cluster, service, space):
    """A running pod with a relay of that store, and its container; None if there is none."""
    upstream = re.compile(re.escape(service["metadata"]["name"]) + r"[.:]")
    relays = {}
    for pod in cluster.get("pod", "--field-selector=status.phase=Running"):
        container = container_of(pod, RELAY)
        if container and upstream.match(flag_of(container, "upstream") or ""):
            relays.setdefault(flag_of(container, "space") or "default", []).append(pod)
    if space and space not in relays:
        raise Failure("no relay of this store has the space %s: there are %s" % (space, ", ".join(sorted(relays)) or "none"))
    if space:
        relays = {space: relays[space]}
    if len(relays) > 1:
        raise Failure("the store has no token for operators, and relays of the spaces %s: choose one with --space" %
                      ", ".join(sorted(relays)))
    for name, pods in relays.items():
        pod = choose_running(pods)
        note("through the relay of the pod %s, which shows the space %s" % (pod["metadata"]["name"], name))
        return pod, container_of(pod, RELAY)
    return None


# --- Secrets. ---

def mounted_key(pod, container, path):
    """The Secret and the key behind a file of the container."""
    for mount in container.get("volumeMounts", []):
        if not path.startswith(mount["mountPath"] + "/"):
            continue
        volume, = [v for v in pod["spec"]["volumes"] if v["name"] == mount["name"]]
        secret, name = volume.get("secret"), path[len(mount["mountPath"]) + 1:]
        if secret:
            renamed = [item["key"] for item in secret.get("items", []) if item["path"] == name]
            return secret["secretName"], renamed[0] if renamed else name
    raise Failure("the store's file %s is in no Secret" % path)


class Secrets:
    """Keys of Secrets as files of memory, for rdzvctl to read; nothing of them is on a disk."""

    def __init__(self, cluster):
        self.cluster, self.objects = cluster, {}

    def file(self, name, key):
        if name not in self.objects:
            self.objects[name] = self.cluster.get("secret", name)
        data = self.objects[name].get("data", {}).get(key)
        if data is None:
            raise Failure("the Secret %s has no key %s" % (name, key))
        fd = os.memfd_create("rdzv", 0)
        os.write(fd, base64.b64decode(data))
        return "/proc/self/fd/%d" % fd


def token_variables(secrets, pod, container):
    path = flag_of(container, "admin-token-file")
    if path is None:
        return {}
    try:
        return {"RDZVCTL_TOKEN_FILE": secrets.file(*mounted_key(pod, container, path))}
    except Failure as failure:
        note("without the token of operators: %s" % failure)
        return {}


def tls_variables(secrets, pod, container, service):
    """What rdzvctl needs for TLS. Without Secrets, it speaks plain text: behind the tunnel, it comes from the pod's
    loopback, and a store takes plain text from there unless it has --plaintext=off."""
    cert = flag_of(container, "cert")
    if cert is None or service is None:
        return {}
    name = service["metadata"]["name"]
    try:
        secret, _ = mounted_key(pod, container, cert)
        found = {"RDZVCTL_CACERT": secrets.file(secret, "ca.crt"),
                 "RDZVCTL_TLS_SERVER_NAME": "%s.%s.svc" % (name, service["metadata"]["namespace"])}
        if flag_of(container, "client-ca"):
            found.update(RDZVCTL_CERT=secrets.file(name + "-client-tls", "tls.crt"),
                         RDZVCTL_KEY=secrets.file(name + "-client-tls", "tls.key"))
        return found
    except Failure as failure:
        note("without TLS inside the tunnel of kubectl: %s" % failure)
        return {}


def choose_target(cluster, options):
    """The pod, the port, and variables for rdzvctl."""
    service, pod = find_store(cluster, options)
    container, secrets = container_of(pod, STORE), Secrets(cluster)
    variables = token_variables(secrets, pod, container)
    if not variables and "RDZVCTL_TOKEN_FILE" not in os.environ and service is not None:
        relay = find_relay(cluster, service, options.space)
        if relay is not None:
            pod, container = relay
            return pod, int(flag_of(container, "listen").rpartition(":")[2]), {}
    port, = [p["containerPort"] for p in container["ports"] if p["name"] == "c10d"]
    variables.update(tls_variables(secrets, pod, container, service))
    return pod, port, variables


def run_at_target(options, words):
    cluster = Cluster(options)
    pod, port, variables = choose_target(cluster, options)
    env = {name: value for name, value in os.environ.items() if name not in TLS_VARIABLES}
    child, local = cluster.forward(pod["metadata"]["name"], port)
    scheme = "https" if "RDZVCTL_CACERT" in variables else "http"
    env.update(variables, RDZVCTL_SERVER="%s://127.0.0.1:%d" % (scheme, local))
    try:
        signal.signal(signal.SIGINT, lambda *_: None)  # rdzvctl gets it as well, and ends
        return subprocess.run([find_rdzvctl(), *words], env=env, close_fds=False).returncode
    finally:
        child.terminate()
        child.wait()


def read_options(words):
    """The options before the command, and the command."""
    parser = argparse.ArgumentParser(prog="kubectl rdzv", allow_abbrev=False, description="rdzvctl at a store in a cluster, "
                                     "through kubectl port-forward.", epilog="`kubectl rdzv help` lists the commands.")
    parser.add_argument("-n", "--namespace")
    parser.add_argument("--context")
    parser.add_argument("--kubeconfig")
    parser.add_argument("--store", metavar="JOB", help="one of several stores, by its label " + INSTANCE)
    parser.add_argument("--space", help="one of several spaces of relays, if the store has no token for operators")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="that of rdzvctl, with its words and options")
    options = parser.parse_args(words)
    if not options.command:
        parser.error("a command is missing, such as status")
    return options


def main():
    words = sys.argv[1:]
    try:
        if words[:1] and words[0] in OFFLINE:
            return subprocess.run([find_rdzvctl(), *words]).returncode
        options = read_options(words)
        return run_at_target(options, options.command)
    except Failure as failure:
        note(str(failure))
        return UNREACHABLE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
