"""kubectl rdzv: it finds the stores and relays of manifests that rdzv-manifest has made, reads their Secrets, and forwards a
port to a real rdzvd. The kubectl is fake_kubectl.py.

    kubectl.py [NAME...]     all cases, or the cases whose name contains a NAME

The programs are those of the build of $RDZVD, else of build/.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("support", "elastic"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))
import cases  # noqa: E402
from agents import meet  # noqa: E402
from c10d import Peer  # noqa: E402
from cases import case, check  # noqa: E402
from certs import Ca  # noqa: E402
from servers import ROOT, Rdzvd, rdzvd_binary  # noqa: E402

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary())))
PLUGIN = os.path.join(ROOT, "client", "python", "rdzvd", "kubectl.py")
TOKEN = os.path.join(ROOT, "tests", "support", "operator.token")
SCRATCH = tempfile.mkdtemp(prefix="rdzv-kubectl-")
FINE, USAGE, UNREACHABLE = 0, 2, 3
CA = Ca()
SERVER = CA.issue("store", "DNS:my-job-rdzv.ml.svc")
CLIENT = CA.issue("relay", "URI:rdzv://relay/ml.my-job")
JOB = {"jobName": "my-job", "namespace": "ml", "platform": "job", "containerImage": "t:1", "nodes": {"min": 1, "max": 2},
       "mainProgram": "train.py"}
ISSUER = {"issuer": {"name": "ca", "kind": "ClusterIssuer"}}
ADMIN = {"name": "tokens", "key": "operator"}


def read(path):
    with open(path, "rb") as f:
        return f.read()


def emit(**rdzv):
    user_file = json.dumps(dict(JOB, rdzv=dict(image="r:1", **rdzv)))
    done = subprocess.run([os.path.join(BUILD, "deploy", "rdzv-manifest"), "emit", "-f", "-", "-o", "json"], input=user_file,
                          capture_output=True, text=True, timeout=120)
    check(done.returncode == 0, done.stderr)
    return json.loads(done.stdout)["items"]


def pods_of(thing, count):
    """As the controller of a workload makes them."""
    template = thing["spec"]["template"]
    for i in range(count):
        metadata = dict(template.get("metadata", {}), name="%s-%d" % (thing["metadata"]["name"], i), namespace="ml")
        yield dict(template, kind="Pod", metadata=metadata,
                   status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})


def secret(name, **data):
    return {"kind": "Secret", "metadata": {"name": name, "namespace": "ml"},
            "data": {key.replace("_", "."): base64.b64encode(value).decode() for key, value in data.items()}}


SECRETS = [secret("my-job-rdzv-tls", tls_crt=read(SERVER[0]), tls_key=read(SERVER[1]), ca_crt=read(CA.pem)),
           secret("my-job-rdzv-client-tls", tls_crt=read(CLIENT[0]), tls_key=read(CLIENT[1]), ca_crt=read(CA.pem)),
           secret("tokens", operator=read(TOKEN))]
FILES = {"/etc/rdzvd/tls/tls.crt": SERVER[0], "/etc/rdzvd/tls/tls.key": SERVER[1], "/etc/rdzvd/tls/ca.crt": CA.pem,
         "/etc/rdzvd/client-tls/ca.crt": CA.pem, "/etc/rdzvd/client-tls/tls.crt": CLIENT[0],
         "/etc/rdzvd/client-tls/tls.key": CLIENT[1], "/etc/rdzvd/admin/token": TOKEN}


class Cluster:
    """Objects, and the servers behind their pods."""

    def __init__(self, objects):
        self.folder = tempfile.mkdtemp(dir=SCRATCH)
        self.objects, self.ports, self.forbidden = list(SECRETS), [], []
        for thing in objects:
            counts = {"StatefulSet": 1, "Job": 2}
            if thing["kind"] in counts:
                self.objects += pods_of(thing, counts[thing["kind"]])
            else:
                self.objects.append(thing)
        with open(os.path.join(self.folder, "kubectl"), "w", encoding="ascii") as f:
            f.write("#!/bin/sh\nexec %s %s \"$@\"\n" % (sys.executable, os.path.join(HERE, "fake_kubectl.py")))
        os.chmod(f.name, 0o755)

    def pods(self):
        return [o for o in self.objects if o["kind"] == "Pod"]

    def start(self, pod, name, *more, upstream=None):
        """The container of that pod as a real daemon, with the arguments of the manifest."""
        spec = next(o for o in self.pods() if o["metadata"]["name"] == pod)["spec"]
        container, = [c for c in spec.get("initContainers", []) + spec["containers"] if c["name"] == name]
        args = []
        for flag, _, value in (a.partition("=") for a in container["args"]):
            if flag == "--data-dir":
                value = os.path.join(self.folder, "data")
            elif flag == "--upstream":
                value = "my-job-rdzv.ml.svc:%d" % upstream
            if flag not in ("--listen", "--advertise"):
                args.append("%s=%s" % (flag, FILES.get(value, value)))
        daemon = Rdzvd(*args, *more)
        self.ports.append(("%s:29400" % pod, daemon.port))
        return daemon

    def environment(self):
        path = os.path.join(self.folder, "cluster.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"objects": self.objects, "ports": self.ports, "forbidden": self.forbidden, "calls": self.calls_file()}, f)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("RDZVCTL_", "KUBE"))}
        return dict(env, FAKE_CLUSTER=path,
                    PATH=":".join((self.folder, os.path.join(BUILD, "client"), os.environ["PATH"])))

    def calls_file(self):
        return os.path.join(self.folder, "calls")

    def calls(self):
        return read(self.calls_file()).decode()

    def rdzv(self, *words, code=FINE, **more):
        done = subprocess.run([sys.executable, PLUGIN, *words], env=dict(self.environment(), **more), capture_output=True,
                              text=True, timeout=300)
        check(done.returncode == code, "%s: exit %d, not %d\n%s%s" % (
            " ".join(words), done.returncode, code, done.stdout, done.stderr))
        return done.stdout, done.stderr


def has(text, *wanted):
    for word in wanted:
        check(word in text, "no %r in:\n%s" % (word, text))


@case
def the_store_is_found_by_its_labels():
    cluster = Cluster(emit(placement="service"))
    with cluster.start("my-job-rdzv-0", "rdzvd") as store:
        Peer(store.port).add(b"/n", 2)
        out, err = cluster.rdzv("-n", "ml", "--context=c1", "get", "/n")
        check(out == "2\n" and err == "", out + err)
        has(cluster.calls(), "--namespace=ml --context=c1 get service,pod -l app.kubernetes.io/name=rdzvd",
            "port-forward --address=127.0.0.1 pod/my-job-rdzv-0 :29400")
        cluster.rdzv("get", "/other", code=1)  # the exit code is that of rdzvctl
        cluster.rdzv("--store", "my-job", "preflight")
        _, err = cluster.rdzv("--store", "other", "status", code=UNREACHABLE)
        has(err, "no Service and no pod", "app.kubernetes.io/instance=other", "-n")


@case
def tls_and_the_token_come_from_the_secrets():
    cluster = Cluster([o for o in emit(placement="relay", tls=ISSUER, adminToken=ADMIN) if o["kind"] != "Job"])
    with cluster.start("my-job-rdzv-0", "rdzvd", "--plaintext=off"):
        out, err = cluster.rdzv("preflight")
        check("tls" in out and err == "", out + err)
        cluster.rdzv("clear", "default", "--yes")  # only operators may
        cluster.forbidden.append("tokens")
        _, err = cluster.rdzv("clear", "default", "--yes", code=4)
        has(err, "without the token of operators", '"tokens" is forbidden')
    cluster.forbidden.append("my-job-rdzv-tls")
    cluster.ports.clear()
    with cluster.start("my-job-rdzv-0", "rdzvd"):  # plain text is for the pod's loopback
        _, err = cluster.rdzv("spaces")
        has(err, "without TLS inside the tunnel of kubectl", '"my-job-rdzv-tls" is forbidden')


@case
def without_a_token_the_command_goes_to_a_relay_of_the_job():
    cluster = Cluster(emit(placement="relay"))
    with cluster.start("my-job-rdzv-0", "rdzvd") as store:
        with contextlib.ExitStack() as stack:
            relays = [stack.enter_context(Rdzvd("--upstream=127.0.0.1:%d" % store.port, "--space=ml.my-job")) for _ in range(2)]
            cluster.ports += [("my-job-%d:29400" % i, relay.port) for i, relay in enumerate(relays)]
            agents = meet(relays[0].port, "the-run", ["node-0"])
            out, err = cluster.rdzv("status", code=1)
            has(out, "the-run", "MISSING: 1")
            has(err, "through the relay of the pod my-job-0, which shows the space ml.my-job")
            cluster.pods()[1]["status"]["conditions"][0]["status"] = "False"
            _, err = cluster.rdzv("--space", "ml.my-job", "runs")
            has(err, "through the relay of the pod my-job-1")
            _, err = cluster.rdzv("--space", "none", "runs", code=UNREACHABLE)
            has(err, "no relay of this store has the space none: there are ml.my-job")
            other = json.dumps(cluster.pods()[-1]).replace("my-job-1", "their-job-0").replace("ml.my-job", "ml.their-job")
            cluster.objects.append(json.loads(other))
            _, err = cluster.rdzv("status", code=UNREACHABLE)
            has(err, "spaces ml.my-job, ml.their-job", "--space")
            check(agents, "they stay connected until here")


@case
def the_store_beside_worker_0_is_found_by_its_service():
    store, = [o for o in emit(placement="service") if o["kind"] == "StatefulSet"]
    service, = [o for o in emit(placement="service") if o["kind"] == "Service"]
    cluster = Cluster([store, service])
    cluster.pods()[0]["metadata"]["labels"] = {"rdzvd": "my-job"}  # the labels of a training pod
    with cluster.start("my-job-rdzv-0", "rdzvd"):
        cluster.rdzv("spaces")


@case
def mistakes_get_a_sentence():
    cluster = Cluster(emit(placement="service"))
    _, err = cluster.rdzv("status", code=UNREACHABLE)
    has(err, "unable to forward port", "kubectl port-forward has ended with code 1")
    cluster.pods()[0]["status"]["phase"] = "Pending"
    has(cluster.rdzv("status", code=UNREACHABLE)[1], "no pod of the store my-job is running")
    service = next(o for o in cluster.objects if o["kind"] == "Service")
    cluster.objects.append(json.loads(json.dumps(service).replace("my-job", "their-job")))
    has(cluster.rdzv("status", code=UNREACHABLE)[1], "the stores of this namespace are my-job, their-job", "--store")
    has(cluster.rdzv("status", code=UNREACHABLE, KUBECTL="no-such-kubectl")[1], "no-such-kubectl: No such file")
    has(cluster.rdzv(code=USAGE)[1], "a command is missing")
    has(cluster.rdzv("--help")[0], "--store", "kubectl rdzv help")
    has(cluster.rdzv("help")[0], "preflight")


def forwards(cluster):
    return [int(line.split()[0]) for line in cluster.calls().splitlines() if " port-forward " in line]


def wait_until(is_true, what):
    until = time.monotonic() + 120
    while not is_true():
        check(time.monotonic() < until, "not after two minutes: " + what)
        time.sleep(0.05)


def wait_end(pid):
    wait_until(lambda: not os.path.exists("/proc/%d" % pid), "port-forward ends with the plugin")


@case
def the_tunnel_ends_with_the_command():
    cluster = Cluster(emit(placement="service"))
    with cluster.start("my-job-rdzv-0", "rdzvd") as store:
        cluster.rdzv("spaces")
        wait_end(forwards(cluster)[0])
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            plugin = subprocess.Popen([sys.executable, PLUGIN, "wait", "/never"], env=cluster.environment(),
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            wait_until(lambda: waits(store), "rdzvctl waits")
            if number == signal.SIGINT:
                os.killpg(plugin.pid, number)  # as a terminal does
            else:
                plugin.send_signal(number)
            plugin.wait(60)
            wait_end(forwards(cluster)[-1])


def waits(store):
    out = subprocess.run([os.path.join(BUILD, "client", "rdzvctl"), "-s", "127.0.0.1:%d" % store.port, "waiters"],
                         capture_output=True, text=True, timeout=60).stdout
    return "/never" in out


@case
def kubectl_itself_runs_the_plugin():
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        return "there is no kubectl"
    os.symlink(PLUGIN, os.path.join(SCRATCH, "kubectl-rdzv"))
    env = dict(os.environ, PATH=":".join((SCRATCH, os.path.join(BUILD, "client"), os.environ["PATH"])), HOME=SCRATCH)
    done = subprocess.run([kubectl, "rdzv", "--version"], env=env, capture_output=True, text=True, timeout=120)
    check(done.returncode == 0 and done.stdout.startswith("rdzvctl "), done.stdout + done.stderr)
    return None


if __name__ == "__main__":
    try:
        sys.exit(cases.run(os.path.join("tests", "client", "kubectl.py")))
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
