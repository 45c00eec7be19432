"""Requests beside the keys: members, stats, version, health, auth, unknown pages, odd HTTP.

Made from a seed like those of generate.py; nothing here talks to a server.
"""

import base64

import wire
from generate import Request

PAGES = [
    "/v2/machines", "/v2/members", "/v2/members/", "/v2/members/leader", "/v2/members/1234",
    "/v2/members/xyz", "/v2/members/8e9e05c52164694d", "/v2/members/leader/", "/v2/members/a/b",
    "/v2/stats/self", "/v2/stats/leader", "/v2/stats/store", "/v2/stats/self/", "/v2/stats",
    "/v2/stats/x", "/version", "/version/", "/health", "/health?exclude=NOSPACE", "/health/", "/v2",
    "/v2/", "/v2/keysfoo", "/nope", "/v2/machines/", "/v2/auth", "/v2/auth/", "/v2/auth/x",
    "/v2/members?x=%zz", "/favicon.ico", "/v2/machines?a;b", "//version", "/./health",
    "/v2/../version", "/v2/keys/../members", "/Version", "/v2/Keys/a", "/v1/keys/a",
    "/debug/pprof/", "/v2/admin/config", "/leader", "/config",
]
METHODS = ["GET", "GET", "GET", "GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH", "get"]
# A valid POST to /v2/members would leave a one-node cluster without a majority: servers refuse
# all of these.
MEMBER_BODIES = [
    "", "{}", "{bad", "[]", "null", '"x"', '{"peerURLs":[]}', '{"peerURLs":null}',
    '{"peerURLs":["x"]}', '{"peerURLs":["http://127.0.0.1"]}',
    '{"peerURLs":["http://127.0.0.1:1/path"]}', '{"peerURLs":["ftp://127.0.0.1:1"]}',
    '{"peerURLs":["http://localhost:2380"]}', '{"peerURLs":"x"}', '{"peerURLs":[1]}',
    '{"name":"x"}', '{"peerURLs":["http://127.0.0.1:1/"]}', '{"peerURLs":[""]}', "{",
    '{"peerURLs":["http://127.0.0.1:1", "x"]}', '{"peerURLs":["127.0.0.1:1"]}',
    '{"peerURLs":["http://127.0.0.1:99999999"]} x',
]
MEMBER_TYPES = ["application/json"] * 8 + [
    "text/plain", "application/json; charset=utf-8", "application/JSON; x=y", None, "", wire.FORM,
    "text/html; a=b"]
NAMES = ["al", "bo", "root", "root", "guest", "_x", "\u00e9"]


class Admin:
    """Random requests beside the keys. `rng` decides everything."""

    def __init__(self, rng):
        self.rng = rng

    def chance(self, percent):
        return self.rng.random() * 100 < percent

    def page(self):
        """Any page with any method that does not change the cluster."""
        path = self.rng.choice(PAGES).encode()
        method = self.rng.choice(METHODS)
        if b"/v2/members" in path and method in ("PUT", "POST", "DELETE"):
            return self.member(method)
        path, question, query = path.partition(b"?")
        request = Request(method, path, query if question else None)
        if method in ("PUT", "POST", "PATCH"):
            request.body = b""
        request.about = "stats" if b"stats" in path else "members" if (
            b"members" in path or b"machines" in path) else "page"
        return request

    def member(self, method):
        """A change of the cluster that is refused, whatever its reason."""
        path = b"/v2/members" + self.rng.choice([b"", b"/"] if method == "POST" else [
            b"", b"/", b"/1234", b"/xyz", b"/leader", b"/0", b"/ffffffffffffffffff", b"/-1",
            b"/a/b"])
        if method == "DELETE" and self.chance(30):
            path = b"/v2/members/{{MEMBER}}"
        request = Request(method, path)
        request.about = "members"
        if method != "DELETE" or self.chance(10):
            kind = self.rng.choice(MEMBER_TYPES)
            if kind is not None:
                request.headers.append(("Content-Type", kind))
            request.body = self.rng.choice(MEMBER_BODIES).encode()
        return request

    def credentials(self):
        """An Authorization header, which servers without auth do not look at."""
        return ("Authorization", self.rng.choice([
            "", "Basic", "Basic ", "Bearer x", "Basic !!!", "basic cm9vdDpycHc=", "Basic cm9vdA==",
            "Basic cm9vdDpycHc=", "Basic " + base64.b64encode(b"nobody:x").decode(), "Basic cm9vdDpycHc"]))

    def auth(self):
        """A request to the auth endpoints that changes nothing."""
        kind = self.rng.choice([b"users", b"roles"])
        path = b"/v2/auth/" + self.rng.choice(
            [b"enable", kind, kind + b"/", kind + b"/" + quoted(self.rng.choice(NAMES))])
        if self.chance(8):
            path += self.rng.choice([b"/", b"/x"])
        request = Request(self.rng.choice(["GET", "GET", "GET", "HEAD", "POST"]), path)
        request.about = "auth"
        if request.method == "POST":
            request.body = b""
        return request

    def raw(self):
        """A request that is odd as HTTP, as a pair of its name and its bytes ({port} is filled
        in)."""
        return self.rng.choice(RAW)


def quoted(name):
    return b"".join(b"%%%02X" % c if c > 127 else bytes([c]) for c in name.encode())


def get(target, *headers, version="HTTP/1.1",
        host="Host: 127.0.0.1:{port}", end="\r\n", method="GET"):
    lines = ["%s %s %s" % (method, target, version), *headers]
    if host is not None:
        lines.insert(1, host)
    return (end.join(lines) + end * 2).encode("utf-8")


def put(headers, body, version="HTTP/1.1"):
    return get("/v2/keys/raw", "Content-Type: " + wire.FORM,
               *headers, version=version, method="PUT") + body


VALUE = b"value=v1"
LENGTH = "Content-Length: 8"
CHUNKED = "Transfer-Encoding: chunked"
CHUNKS = b"8\r\nvalue=v1\r\n0\r\n\r\n"
RAW = [
    ("HTTP/1.0", get("/v2/keys/a", version="HTTP/1.0")),
    ("HTTP/1.0 without Host", get("/v2/keys/a", version="HTTP/1.0", host=None)),
    ("HTTP/1.0 keep-alive", get("/version", "Connection: keep-alive", version="HTTP/1.0")),
    ("HTTP/1.0 with a form", put([LENGTH], VALUE, version="HTTP/1.0")),
    ("HTTP/1.0 404", get("/nope", version="HTTP/1.0")),
    ("HTTP/1.0 chunked", put([CHUNKED], CHUNKS, version="HTTP/1.0")),
    ("Connection: close", get("/v2/keys/a", "Connection: close")),
    ("Connection: close, upper case", get("/v2/keys/a", "CONNECTION: CLOSE")),
    ("Connection: a list with close", get("/version", "Connection: x, close")),
    ("no Host", get("/v2/keys/a", host=None)),
    ("empty Host", get("/v2/keys/a", host="Host:")),
    ("two Hosts", get("/v2/keys/a", "Host: b")),
    ("bad Host", get("/v2/keys/a", host="Host: a b")),
    ("foreign Host", get("/v2/keys/a", host="Host: etcd.example.com")),
    ("bare LF", get("/v2/keys/a", end="\n")),
    ("no colon", get("/v2/keys/a", "Nonsense")),
    ("space before the colon", get("/v2/keys/a", "X-A : b")),
    ("empty header name", get("/v2/keys/a", ": b")),
    ("folded header", get("/v2/keys/a", "X-A: b", " c")),
    ("first header folded", b"GET /v2/keys/a HTTP/1.1\r\n Host: x\r\n\r\n"),
    ("bad header name", get("/v2/keys/a", "X(A): b")),
    ("control character in a header", get("/v2/keys/a", "X-A: b\x01c")),
    ("tab in a header", get("/v2/keys/a", "X-A:\tb\tc\t")),
    ("NUL in a header", get("/v2/keys/a", "X-A: b\x00c")),
    ("Content-Length: abc", put(["Content-Length: abc"], b"")),
    ("Content-Length: -1", put(["Content-Length: -1"], b"")),
    ("Content-Length: +8", put(["Content-Length: +8"], VALUE)),
    ("Content-Length empty", put(["Content-Length:"], b"")),
    ("Content-Length huge", put(["Content-Length: 99999999999999999999"], b"")),
    ("Content-Length with spaces", put(["Content-Length:   8  "], VALUE)),
    ("Content-Length 08", put(["Content-Length: 08"], VALUE)),
    ("Content-Length twice the same", put([LENGTH, LENGTH], VALUE)),
    ("Content-Length twice", put([LENGTH, "Content-Length: 9"], VALUE)),
    ("Content-Length list", put(["Content-Length: 8, 8"], VALUE)),
    ("Content-Length and chunked", put([LENGTH, CHUNKED], CHUNKS)),
    ("Transfer-Encoding: gzip", put(["Transfer-Encoding: gzip"], b"")),
    ("Transfer-Encoding: identity", put(["Transfer-Encoding: identity", LENGTH], VALUE)),
    ("Transfer-Encoding: chunked, chunked", put(["Transfer-Encoding: chunked, chunked"], CHUNKS)),
    ("Transfer-Encoding: gzip, chunked", put(["Transfer-Encoding: gzip, chunked"], CHUNKS)),
    ("Transfer-Encoding twice", put([CHUNKED, CHUNKED], CHUNKS)),
    ("Transfer-Encoding: CHUNKED", put(["Transfer-Encoding: CHUNKED"], CHUNKS)),
    ("Transfer-Encoding empty", put(["Transfer-Encoding:", LENGTH], VALUE)),
    ("chunk extension", put([CHUNKED], b"8;a=\"b\"\r\nvalue=v1\r\n0;x\r\n\r\n")),
    ("chunk trailers", put([CHUNKED], b"8\r\nvalue=v1\r\n0\r\nX-A: b\r\nX-C: d\r\n\r\n")),
    ("chunk upper case and zeros", put([CHUNKED], b"0008\r\nvalue=v1\r\n000\r\n\r\n")),
    ("chunk size bad", put([CHUNKED], b"zz\r\nvalue=v1\r\n0\r\n\r\n")),
    ("chunk size negative", put([CHUNKED], b"-8\r\nvalue=v1\r\n0\r\n\r\n")),
    ("chunk size huge", put([CHUNKED], b"ffffffffffffffffff\r\nvalue=v1\r\n0\r\n\r\n")),
    ("chunk without CRLF", put([CHUNKED], b"8\r\nvalue=v1xx0\r\n\r\n")),
    ("chunk size empty", put([CHUNKED], b"\r\nvalue=v1\r\n0\r\n\r\n")),
    ("no body at all", put([], b"")),
    ("Expect: 100-continue with the body", put([LENGTH, "Expect: 100-continue"], VALUE)),
    ("Expect: 100-Continue", put([LENGTH, "Expect: 100-Continue"], VALUE)),
    ("Expect: 100-continue on a GET", get("/v2/keys/a", "Expect: 100-continue")),
    ("Expect: other", put([LENGTH, "Expect: tea"], VALUE)),
    ("absolute form", get("http://any.host/v2/keys/a?recursive=true")),
    ("absolute form with port", get("http://any.host:99/v2/keys/a")),
    ("absolute form, https", get("https://any.host/version")),
    ("absolute form without path", get("http://any.host")),
    ("absolute form, query only", get("http://any.host?x=y")),
    ("authority form", get("any.host:80")),
    ("OPTIONS *", get("*", method="OPTIONS")),
    ("GET *", get("*")),
    ("no slash", get("v2/keys/a")),
    ("only a query", get("?a=b")),
    ("empty target", get("")),
    ("fragment", get("/v2/keys/a#b")),
    ("fragment in the query", get("/v2/keys/a?recursive=true#b")),
    ("two question marks", get("/v2/keys/a?recursive=true?sorted=true")),
    ("double space", b"GET  /v2/keys/a HTTP/1.1\r\nHost: x\r\n\r\n"),
    ("space in the target", get("/v2/keys/a b")),
    ("tab in the target", get("/v2/keys/a\tb")),
    ("control character in the target", get("/v2/keys/a\x01b")),
    ("DEL in the target", get("/v2/keys/a\x7fb")),
    ("no version", b"GET /v2/keys/a\r\nHost: x\r\n\r\n"),
    ("HTTP/1.2", get("/v2/keys/a", version="HTTP/1.2")),
    ("HTTP/1.10", get("/v2/keys/a", version="HTTP/1.10")),
    ("HTTP/2.0", get("/v2/keys/a", version="HTTP/2.0")),
    ("HTTP/0.9", get("/v2/keys/a", version="HTTP/0.9")),
    ("http/1.1", get("/v2/keys/a", version="http/1.1")),
    ("FTP/1.1", get("/v2/keys/a", version="FTP/1.1")),
    ("bad method", get("/v2/keys/a", method="G@T")),
    ("empty method", b" /v2/keys/a HTTP/1.1\r\nHost: x\r\n\r\n"),
    ("method of symbols", get("/v2/keys/a", method="M-SEARCH")),
    ("CRLF first", b"\r\n" + get("/v2/keys/a")),
    ("CRLF after a POST", get("/v2/keys/raw", "Content-Length: 0", method="POST") + b"\r\n"
     + get("/version", "Connection: close")),
    ("two requests, the first closes", get("/version", "Connection: close") + get("/version")),
    ("two requests", get("/version") + get("/nope", "Connection: close")),
    ("HEAD then GET", get("/v2/keys/a", method="HEAD") + get("/version", "Connection: close")),
    ("a redirect and more", get("//version") + get("/version", "Connection: close")),
    ("body of a GET is skipped", get("/version", "Content-Length: 5") + b"12345"
     + get("/version", "Connection: close")),
    ("chunked body of a DELETE is skipped", get("/v2/keys/none", CHUNKED, method="DELETE") + CHUNKS
     + get("/version", "Connection: close")),
    ("body of a page that is not there", get("/nope", LENGTH, method="PUT") + VALUE
     + get("/version", "Connection: close")),
    ("bytes that are not UTF-8 in the target",
     b"GET /v2/keys/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n"),
    ("percent at the end", get("/v2/keys/a%")),
    ("plus and space in the query", get("/v2/keys/a?recursive=+true")),
    ("many parameters", get("/v2/keys/a?" + "&".join("p%d=1" % i for i in range(2000)))),
    ("many headers", get("/v2/keys/a", *["X-%d: y" % i for i in range(500)])),
    ("long header", get("/v2/keys/a", "X-A: " + "b" * 60000)),
    ("form over the limit", put(["Content-Length: 12000000"], b"value=" + b"x" * (12000000 - 6))),
]
