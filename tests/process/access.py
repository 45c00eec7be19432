"""rdzv/net/README.md against a running rdzvd: the recipe makes certificates that work, and each client of the tables
can do what its row says.

    access.py [NAME...]     all cases, or the cases whose name contains a NAME

A row of the first table has a client here, which tries each column; a row without a client fails, and so does a cell
that says something else. The daemon is $RDZVD, else the one in build/.
"""

import contextlib
import http.client
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("support", "elastic")]
import cases  # noqa: E402
from agents import meet  # noqa: E402
from c10d import NONCE, modern  # noqa: E402
from cases import case, check  # noqa: E402
from certs import Ca  # noqa: E402
from servers import OPERATOR, ROOT, Rdzvd, free_port, rdzvd_binary, token_flag  # noqa: E402

DOCUMENT = os.path.join(ROOT, "rdzv", "net", "README.md")
CA = Ca()
READER = {"Authorization": "Bearer reader"}
PAGE = {"Origin": "http://evil.example"}
CLIENTS = {}


def document():
    with open(DOCUMENT, encoding="utf-8") as f:
        return f.read()


def table(head):
    """The rows of the table whose first column has this head, as lists of plain cells."""
    found = re.search(r"^\| %s \|.*\n\|[-|]+\n((?:\|.*\n)+)" % head, document(), re.M)
    return [line[2:-2].replace("`", "").split(" | ") for line in found.group(1).splitlines()]


class Client:
    """Tries what a client of that kind can do: over TCP or a Unix socket, in plain text or with TLS."""

    def __init__(self, port=None, path=None, tls=None, headers=None, host="127.0.0.1"):
        self.port, self.path, self.tls, self.headers, self.host = port, path, tls, headers or {}, host

    def connect(self):
        if self.path:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(20)
            s.connect(self.path)
            return s
        s = socket.create_connection((self.host, self.port), timeout=20)
        return self.tls.wrap_socket(s, server_hostname="localhost") if self.tls else s

    def ask(self, method, path, body=None, **headers):
        """The status; None: the store has closed the connection."""
        c = http.client.HTTPConnection(self.headers.get("Host", "localhost"), timeout=20)
        try:
            c.sock = self.connect()
            c.request(method, path, body=body, headers={**self.headers, **headers})
            return c.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            c.close()

    def c10d(self):
        try:
            with contextlib.closing(self.connect()) as s:
                s.sendall(modern.hello())
                return s.recv(4) == NONCE
        except OSError:
            return False

    def etcd(self):
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.ask("POST", "/v2/keys/queue", "value=1", **form) == 201

    def probes(self):
        asked = {self.ask("GET", path) for path in ("/livez", "/readyz", "/health", "/metrics")}
        return asked == {200} if 200 in asked else False

    def reads(self):
        return self.ask("GET", "/rdzv/v1/status") == 200

    def changes(self):
        done = [self.ask("DELETE", "/rdzv/v1/spaces/default") == 200, self.ask("GET", "/rdzv/v1/monitor") == 200,
                self.ask("PUT", "/config/local/log", '{"Level":"INFO"}') in (200, 204)]
        check(len(set(done)) == 1, "one of the changes differs: %s" % done)
        return done[0]


def context(pair=None):
    made = ssl.create_default_context(cafile=CA.pem)
    if pair:
        made.load_cert_chain(*pair)
    return made


def row(symptom):
    """The function starts a store, and returns its client or clients, for the row that begins with this text."""
    def keep(function):
        CLIENTS[symptom] = function
        return function
    return keep


class Start(contextlib.ExitStack):
    def rdzvd(self, *flags, **kwargs):
        return self.enter_context(Rdzvd(*flags, **kwargs))

    def folder(self):
        return self.enter_context(tempfile.TemporaryDirectory(prefix="rdzv-access-"))

    def tls(self, *flags):
        cert, key = CA.issue()
        return self.rdzvd("--cert=" + cert, "--key=" + key, "--plaintext=off", *flags)

    def reader_token(self):
        path = os.path.join(self.folder(), "token")
        with open(path, "w", encoding="ascii") as f:
            f.write("reader\n")
        return "--read-token-file=" + path


@row("any client that reaches a listener")
def anybody(start):
    return [Client(start.rdzvd(token_flag()).port)]


@row("the same, if the store has --read-token-file")
def without_token(start):
    return [Client(start.rdzvd(start.reader_token()).port)]


@row("a reader")
def readers(start):
    store = start.rdzvd(start.reader_token())
    secure = start.tls("--client-ca=" + CA.pem, "--read-names=reader", start.reader_token())
    return [Client(store.port, headers=READER), Client(secure.port, tls=context(CA.issue(san="DNS:reader")))]


@row("an operator: the token")
def operators(start):
    store = start.rdzvd(token_flag(), start.reader_token())
    secure = start.tls("--client-ca=" + CA.pem, "--admin-names=operator")
    return [Client(store.port, headers=OPERATOR), Client(secure.port, tls=context(CA.issue(san="DNS:operator")))]


@row("an operator at a Unix socket of the store")
def at_unix_socket(start):
    path = os.path.join(start.folder(), "socket")
    start.rdzvd("--listen=unix:" + path, start.reader_token()).wait_log("event=ready")
    return [Client(path=path)]


@row("any client at the Unix socket of a relay")
def at_unix_socket_of_relay(start):
    path = os.path.join(start.folder(), "socket")
    relay = start.rdzvd("--upstream=127.0.0.1:%d" % start.rdzvd(token_flag()).port, "--listen=unix:" + path)
    relay.wait_log("event=upstream_connected")
    return [Client(path=path)]


@row("a client whose address is not in --allow")
def from_elsewhere(start):
    words = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
    own = [a for a in words if "." in a]
    if not own:
        return []
    return [Client(start.rdzvd("--allow=203.0.113.0/24", listen=("0.0.0.0:0",)).port, host=own[0])]


@row("a client without TLS")
def plain_text(start):
    return [Client(start.tls().port)]


@row("a client without a certificate")
def no_certificate(start):
    return [Client(start.tls("--client-ca=" + CA.pem).port, tls=context())]


@row("a client whose certificate has none of --client-names")
def another_name(start):
    store = start.tls("--client-ca=" + CA.pem, "--client-names=agent")
    check(Client(store.port, tls=context(CA.issue(san="DNS:agent"))).c10d(), "the right name")
    return [Client(store.port, tls=context(CA.issue(san="DNS:other")))]


@row("a web page, if the listener is on loopback")
def page_with_a_name(start):
    return [WebPage(start.rdzvd(token_flag()).port, headers={"Host": "evil.example", **PAGE})]


@row("a web page, at any other listener")
def page(start):
    """At an address, whose Host header a listener on loopback admits as well."""
    store = start.rdzvd(token_flag())
    return [WebPage(store.port, headers={"Host": "127.0.0.1", **PAGE}),
            WebPage(store.port, headers={"Host": "127.0.0.1", **PAGE, **OPERATOR})]


class WebPage(Client):
    def c10d(self):
        return False  # a browser speaks HTTP only


@case
def each_client_can_do_what_its_row_says():
    rows, left, skipped = table("who"), dict(CLIENTS), []
    for client, *cells in rows:
        names = [n for n in left if client.startswith(n)]
        check(len(names) == 1, "the row %r has clients %s here" % (client, names))
        with Start() as start:
            clients = left.pop(names[0])(start)
            skipped += [client] * (not clients)
            for c in clients:
                tried = {"c10d": c.c10d(), "etcd": c.etcd(), "probes": c.probes(), "reads": c.reads(),
                         "changes": c.changes()}
                keys, *others = [cell.split(",")[0] for cell in cells]
                wanted = {"c10d": keys == "yes", "etcd": keys in ("yes", "etcd's"),
                          **dict(zip(("probes", "reads", "changes"), (o != "no" for o in others)))}
                check(tried == wanted, "%s: %s, and the document says %s" % (client, tried, wanted))
                if "all spaces" in cells[2]:
                    check_sees_spaces(c)
    check(not left, "no row for %s" % list(left))
    if skipped:
        print("not tried, for want of an address but loopback: %s" % skipped)


def check_sees_spaces(client):
    c = http.client.HTTPConnection("localhost", timeout=20)
    c.sock = client.connect()
    c.request("GET", "/rdzv/v1/status", headers=client.headers)
    text = c.getresponse().read().decode()
    c.close()
    check('"all_spaces":true' in text.replace(" ", ""), text)


@case
def a_web_page_reads_no_answer():
    """A browser shows it none without these headers."""
    with Rdzvd() as store:
        c = http.client.HTTPConnection("127.0.0.1", store.port, timeout=20)
        c.request("GET", "/rdzv/v1/status", headers=PAGE)
        answer = c.getresponse()
        answer.read()
        check(not any(name.lower().startswith("access-control") for name, _ in answer.getheaders()), "CORS headers")


@case
def relays_get_the_spaces_of_their_rows():
    check([r[0].split(",")[0] for r in table("relay")] == [
        "without a certificate", "with a certificate that --relay-names names for a space",
        "at a listener with a space"], "the rows have changed: so must this case")
    cert, key = CA.issue()
    pair = CA.issue("relay", "DNS:job-a.example")
    with Rdzvd("--cert=" + cert, "--key=" + key, "--client-ca=" + CA.pem, "--client-cert=optional", "--plaintext=off",
               "--relay-names=job-a=job-a.example", listen=("127.0.0.1:0", "127.0.0.1:0/job-b")) as store:
        named = ["--upstream-cert=" + pair[0], "--upstream-key=" + pair[1]]
        for port, flags, space, fine in ((0, [], "other", True), (0, [], "job-a", False), (0, named, "job-a", True),
                                         (0, named, "other", True), (1, [], "job-b", True), (1, [], "other", False),
                                         (1, named, "job-a", False)):
            with Rdzvd("--upstream=127.0.0.1:%d" % store.ports[port], "--upstream-ca=" + CA.pem, "--space=" + space,
                       *flags) as relay:
                relay.wait_log("event=%s" % ("upstream_connected" if fine else "upstream_refused"))


@case
def the_recipe_makes_certificates_that_work():
    first, second, service = [b for b in re.findall(r"(?ms)^```sh\n(.*?)^```", document()) if "ca.crt" in b]
    programs = os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary())))
    with tempfile.TemporaryDirectory(prefix="rdzv-recipe-") as folder:
        done = subprocess.run(["bash", "-ec", first.replace("STORE_HOST", "localhost")], cwd=folder, text=True,
                              capture_output=True, timeout=60, check=False)
        check(done.returncode == 0, done.stderr)
        with open(os.path.join(folder, "token"), "w", encoding="ascii") as token:
            token.write("of operators")
        settings = re.search(r"(?ms)<<'END'\n(.*?)^END", service).group(1)
        with open(os.path.join(folder, "rdzvd.yaml"), "w", encoding="ascii") as out:
            out.write(re.sub(r"/(etc|run|var/lib)/rdzvd", folder, settings))
        done = subprocess.run([rdzvd_binary(), "--check-config", "--config=" + out.name], text=True, capture_output=True,
                              timeout=60, check=False)
        check(done.returncode == 0, done.stdout + done.stderr)
        port, other = free_port(), free_port()
        places = {"localhost:29400": "localhost:%d" % other, "STORE_HOST:29400": "localhost:%d" % port,
                  "*:29400": "*:%d" % port}
        for word, place in places.items():
            second = second.replace(word, place)
        lines = second.splitlines()
        store, relay, ctl = [line.replace("'", "").split() for line in lines]
        check((store[0], relay[0], ctl[0]) == ("rdzvd", "rdzvd", "rdzvctl"), lines)
        with Rdzvd("--plaintext=off", *store[2:], listen=[store[1].split("=")[1]], cwd=folder) as server, \
                Rdzvd(*relay[2:], listen=[relay[1].split("=")[1]], cwd=folder) as behind:
            behind.wait_log("event=upstream_connected")
            for agent in meet(other, "RUN", ["a", "b"]):
                agent.close()
            done = subprocess.run([os.path.join(programs, "client", ctl[0]), *ctl[1:]], cwd=folder, text=True,
                                  capture_output=True, timeout=60, check=False)
            check(done.returncode == 0 and "tls" in done.stdout, done.stdout + done.stderr)
            check(not Client(port, host="127.0.0.1").c10d(), "plain text")
            server.wait_log("event=round_complete")


if __name__ == "__main__":
    sys.exit(cases.run("tests/process/access.py"))
