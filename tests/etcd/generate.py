"""Makes random etcd v2 requests from a seed: paths, parameters, bodies, content types.

Nothing here talks to a server. A Model remembers what the answers said, so that many comparisons
hold and many paths exist; a wrong model costs coverage and nothing else. Requests are templates
in which {{B+n}} stands for an index and {{SEQ+n}} for the name of an in-order key (compare.Side).
"""

import re
import shlex
import urllib.parse

import wire

NAMES = ["a", "a", "b", "b", "c", "ab", "_h"]
ODD_NAMES = [
    b"%C3%A9", b"\xc3\xa9", b"x%20y", b"a+b", b"_", b"__", b"a%2Fb", b"%2F", b"%2Fa", b"a%2F",
    b"%00", b"..", b".", b"", b"%2e%2e", b"%2E", b"...", b"!*'()", b"~", b"-._~", b"a%25b", b"=",
    b"a;b", b"a:b", b"@", b"$&,", b"%3F", b"%23", b"%0A", b"%3Cb%3E", b"<b>", b"%ff", b"%C3",
    b"%E2%80%A8", b"%22", b'"', b"%5C", b"\\", b"|", b"^", b"`", b"{}", b"[]", b"%7F", b"%5fh",
    b"n" * 300, b"L" * 3500, b"dG9yY2g=", b"a//b", b"a/./b", b"a/../b", b"%61", b"0",
    b"9000000000000000007",  # looks like an in-order name, and sorts behind all of them
    b"%E4%B8%AD%E6%96%87", b"%F0%9F%98%80", b"*", b"..a", b"a..", b"+",
    b"%2B",
]
BAD_NAMES = [b"%zz", b"%", b"%4", b"a%g0", b"%%"]
VALUES = [
    b"", b"v1", b"v1", b"v2", b"v2", b"v3", b"hello world", b"\xc3\xa9", b'{"a": "<b>&"}', b"x=y&z",
    b"\x00\xff\xfe", b"line\nline\r\n\t", b"\xe2\x80\xa8\x08\x0c\x1b\x7f", b"+%", b"\xed\xa0\x80",
    b"\xf0\x9f\x98\x80", b"\xef\xbf\xbd", b"\\u0041\\", b"1", b"true", b"[v1 != v2]", b"/a/b",
]
BOOLS = [
    "recursive", "sorted", "dir", "quorum", "stream", "prevExist", "refresh", "noValueOnSuccess",
]
TRUE = [b"true", b"true", b"true", b"1", b"t", b"T", b"TRUE", b"True"]
FALSE = [b"false", b"false", b"0", b"f", b"F", b"FALSE", b"False"]
NOT_BOOLS = [b"", b"yes", b"tRUE", b"2", b" true", b"true ", b"on", b"null", b"00", b"-1"]
NOT_NUMBERS = [
    b"", b"-1", b"+5", b"1_0", b"0x10", b"1.5", b"abc", b"18446744073709551616", b"9" * 30, b" 5",
    b"5 ", b"1e3", b"\xd9\xa5", b"0b1", b"NaN",
]
CONTENT_TYPES = [
    "text/plain", "application/json", "multipart/form-data; boundary=XX", "multipart/form-data", "",
    wire.FORM + "; charset=utf-8", wire.FORM.upper(), wire.FORM + ";", wire.FORM + " ", "*/*",
    "application", wire.FORM + '; a="b;c"', wire.FORM + "; a*=utf-8''x", wire.FORM + "2",
]
SPOILED = [b"%zz", b"a;b", b"value=%", b"a=1;value=2", b"%gg=1", b"ttl=%4", b"value=v1%", b"=%zz"]
HARMLESS = [
    b"unknown=x", b"VALUE=x", b"x", b"=", b"=v", b"&", b"a[]=1", b"Recursive=true", b"ttL=5",
    b"prevexist=false", b"value ", b"callback=f", b"", b"_=1700000000", b"%72ecursive=true",
]
KINDS = ["set"] * 6 + ["update", "cas value", "cas index"] * 2 + [
    "dir", "create", "create dir", "update dir", "cas both", "refresh", "refresh set",
    "refresh cas", "mixed"]
METHODS = ["PATCH", "PATCH", "OPTIONS", "OPTIONS", "TRACE", "Put", "FOO", "MKCOL"]
# For set and create these mean "no TTL" or a time centuries away; for an update some of them mean a
# time long past.
WRAPPING_TTLS = [b"9223372036", b"7000000000", b"9223372037"]
LONG_TTLS = [3600, 5000, 7200, 100000, 1000000]
# None of these may make a difference.
HEADERS = [
    ("Origin", "http://example.com"), ("Accept-Encoding", "gzip"), ("X-Odd", "\u00e9"),
    ("Authorization", "Basic YTpi"), ("Cookie", "a=b"), ("Connection", "keep-alive"),
    ("Upgrade", "h2c"), ("Range", "bytes=0-1"), ("If-None-Match", "*"), ("TE", "trailers"),
    ("X-HTTP-Method-Override", "DELETE"), ("Content-Encoding", "gzip")]


class Request:
    """A request and what a comparison of its answers needs to know."""

    def __init__(self, method, path, query=None, headers=(), body=None, version="HTTP/1.1"):
        self.method = method
        self.path = path
        self.query = query
        self.headers = list(headers)
        self.body = body
        self.version = version
        self.ordered = False  # the listing's order is defined
        self.prev_indexes = []  # of body and query: the type of the body decides which counts
        self.wait_index = None
        self.about = "keys"

    def target(self):
        return self.path + (b"?" + self.query if self.query is not None else b"")

    def encode(self, side):
        body = self.body
        if body is not None:
            body = side.render(body)
        return wire.encode(side.port, self.method, side.render(self.target()), self.headers, body,
                           self.version)

    def curl(self, side):
        """The request as a command line for a shell."""
        words = ["curl", "-sS", "-i", "--path-as-is", "--max-time", "5"]
        if self.version == "HTTP/1.0":
            words.append("--http1.0")
        words += ["-I"] if self.method == "HEAD" else ["-X", self.method]
        for name, value in self.headers:
            words += ["-H", "%s:%s" % (name, " " + value if value else "")]
        if self.body is not None and not any(n == "Content-Type" for n, _ in self.headers):
            words += ["-H", "Content-Type:"]
        words = [shlex.quote(word) for word in words]
        if self.body is not None:
            words += ["--data-binary", shell_bytes(side.render(self.body))]
        words.append(shell_bytes(b"http://127.0.0.1:%d" % side.port + side.render(self.target())))
        return " ".join(words)


def shell_bytes(data):
    """Bytes as a word for bash, cut when they are very many."""
    if len(data) > 6000:
        return shell_bytes(data[:2000]) + "...(%d bytes)" % len(data)
    if all(0x20 <= c < 0x7f for c in data):
        return shlex.quote(data.decode())
    return "$'" + "".join(
        chr(c) if 0x20 <= c < 0x7f and c not in b"'\\" else "\\x%02x" % c for c in data) + "'"


class Model:
    """What is known of the tree: for each path its value and modifiedIndex relative to the base."""

    def __init__(self):
        self.nodes = {}
        self.index = 0

    def known(self):
        """All paths, in an order that does not depend on how a server lists them."""
        return sorted(self.nodes)

    def learn(self, event, base):
        """Remembers what the answer to a change or to a get says about its node."""
        node = event.get("node")
        if not isinstance(node, dict) or "key" not in node:
            return
        key = template_key(node["key"], base)
        if event.get("action") in ("delete", "expire", "compareAndDelete"):
            self.forget(key)
            return
        self._learn_node(node, base)

    def _learn_node(self, node, base):
        key = template_key(node["key"], base)
        value = None if node.get("dir") else node.get("value", "").encode("utf-8", "replace")
        self.nodes[key] = value, node.get("modifiedIndex", base) - base
        for child in node.get("nodes", []):
            self._learn_node(child, base)

    def forget(self, key):
        for have in [k for k in self.nodes if k == key or k.startswith(key + b"/")]:
            del self.nodes[have]


def template_key(key, base):
    """A key as it stands in answers, as a path template: in-order names become {{SEQ+n}}."""
    quoted = urllib.parse.quote(key.encode("utf-8", "replace"), safe="/").encode()
    return re.sub(rb"(?<!\d)0{8}\d{12}(?!\d)",
                  lambda m: b"{{SEQ%+d}}" % (int(m.group()) - base), quoted)


def quote(value):
    """A form value; templates stay as they are."""
    if b"{{" in value:
        return value
    return urllib.parse.quote_plus(value).encode()


class Generator:
    """Random requests on keys. `rng` decides everything."""

    def __init__(self, rng, model):
        self.rng = rng
        self.model = model

    def chance(self, percent):
        return self.rng.random() * 100 < percent

    def names(self, deepest=4):
        depth = self.rng.choice([1, 1, 1, 2, 2, 2, 2, 3, 3, 4])
        return [self.rng.choice(NAMES).encode() for _ in range(min(depth, deepest))]

    def path(self, odd=4):
        """A path below /v2/keys, `odd` percent of them with names that are hard to get right."""
        if self.chance(odd):
            return self.odd_path()
        if self.model.nodes and self.chance(60):
            known = self.model.known()
            files = [key for key in known if self.model.nodes[key][0] is not None]
            key = self.rng.choice(files if files and self.chance(60) else known)
            key = self.near(key)
        elif self.chance(2):
            key = b""
        else:
            key = b"/" + b"/".join(self.names())
        return b"/v2/keys" + key + (b"/" if self.chance(6) else b"")

    def near(self, key):
        """The key itself, mostly; else its directory, or a name below it."""
        turn = self.rng.random()
        if turn < 0.1 and key.count(b"/") > 1:
            return key.rpartition(b"/")[0]
        if turn < 0.25 and key.count(b"/") < 5:
            return key + b"/" + self.rng.choice(NAMES).encode()
        return key

    def odd_path(self):
        names = self.names()
        for _ in range(self.rng.choice([1, 1, 2])):
            names.insert(self.rng.randrange(len(names) + 1), self.rng.choice(ODD_NAMES))
        if self.chance(5):
            names.append(self.rng.choice(BAD_NAMES))
        start = self.rng.choice([b"/v2/keys/"] * 12 + [b"/v2//keys/", b"//v2/keys/", b"/v2/./keys/",
                                b"/x/../v2/keys/", b"/v2/keys//", b"/v2/%6beys/", b"/v2%2Fkeys/"])
        return start + b"/".join(names) + (b"/" if self.chance(15) else b"")

    def key_of(self, path):
        return path[len(b"/v2/keys"):].rstrip(b"/")

    def value(self):
        if self.chance(1):
            return self.rng.choice([b"L" * 2500, b"<" * 700, b"\xff" * 400, b"M" * 100000])
        return self.rng.choice(VALUES)

    def prev_value(self, path):
        known = self.model.nodes.get(self.key_of(path))
        if known and known[0] and self.chance(70):
            return known[0]
        return self.rng.choice(VALUES[1:])

    def prev_index(self, path):
        known = self.model.nodes.get(self.key_of(path))
        if known and self.chance(70):
            return b"{{B%+d}}" % known[1]
        if self.chance(8):
            return self.rng.choice([b"0", b"007", b"18446744073709551615", b"99999999999"])
        return b"{{B%+d}}" % self.rng.randrange(1, max(2, self.model.index + 3))

    def request(self, odd=4):
        """Any request on keys that is answered at once and whose TTLs outlive the run."""
        turn = self.rng.random()
        if turn < 0.25:
            return self.get(odd)
        if turn < 0.65:
            return self.put(odd)
        if turn < 0.72:
            return self.post(odd)
        if turn < 0.90:
            return self.delete(odd)
        if turn < 0.94:
            return self.get(odd, method="HEAD")
        return self.other(odd)

    def get(self, odd=4, method="GET"):
        params = []
        if self.chance(40):
            params.append((b"recursive", self.boolean()))
        if self.chance(40):
            params.append((b"sorted", self.boolean()))
        if self.chance(8):
            params.append((b"quorum", self.boolean()))
        if self.chance(3):
            params += [(b"wait", b"true"), (b"quorum", b"true")]
            params = [p for i, p in enumerate(params) if p[0] not in [q[0] for q in params[i + 1:]]]
        elif self.chance(2):
            params.append((b"wait", self.rng.choice(NOT_BOOLS + FALSE) if method == "GET"
                           else self.boolean()))
        if self.chance(2):
            params.append((b"waitIndex", self.rng.choice([b"0", b"7", b"{{B+1}}"] + NOT_NUMBERS)))
        return self.build(method, self.path(odd), params, query_only=True)

    def put(self, odd=4, path=None):
        path = self.path(odd) if path is None else path
        params = []
        kind = self.rng.choice(KINDS)
        if kind in ("set", "create", "update", "cas value", "cas index", "cas both", "mixed"):
            if self.chance(96):
                params.append((b"value", self.value()))
        if kind in ("dir", "create dir", "update dir") or (kind == "mixed" and self.chance(40)):
            params.append((b"dir", self.boolean(95)))
        if kind.startswith("create"):
            params.append((b"prevExist", self.rng.choice(FALSE)))
        if kind.startswith("update") or kind == "refresh":
            params.append((b"prevExist", self.rng.choice(TRUE)))
        if kind == "mixed" and self.chance(60):
            params.append((b"prevExist", self.boolean()))
        if kind in ("cas value", "cas both", "refresh cas") or (
            kind == "mixed" and self.chance(40)):
            params.append((b"prevValue", self.prev_value(path)))
        if kind in ("cas index", "cas both") or (kind == "mixed" and self.chance(40)):
            params.append((b"prevIndex", self.prev_index(path)))
        if kind.startswith("cas") and self.chance(15):
            params.append((b"prevExist", self.rng.choice(TRUE)))
        if kind.startswith("refresh") or (kind == "mixed" and self.chance(20)):
            params.append((b"refresh", self.boolean(90)))
            if self.chance(90):
                params.append((b"ttl", self.long_ttl()))
            if self.chance(5):
                params.append((b"value", self.value()))
        elif self.chance(15):
            params.append((b"ttl", self.long_ttl()))
        elif self.chance(5) and not any(n.startswith(b"prev") for n, _ in params):
            params.append((b"ttl", self.rng.choice(WRAPPING_TTLS)))
        if self.chance(6):
            params.append((b"noValueOnSuccess", self.boolean()))
        return self.build("PUT", path, params)

    def post(self, odd=4, path=None):
        params = []
        if self.chance(90):
            params.append((b"value", self.value()))
        if self.chance(15):
            params.append((b"dir", self.boolean()))
        if self.chance(20):
            params.append((b"ttl", self.long_ttl()))
        if self.chance(8):
            params.append((b"prevExist", self.boolean()))
        if self.chance(8):
            params.append((b"noValueOnSuccess", self.boolean()))
        return self.build("POST", self.path(odd) if path is None else path, params)

    def delete(self, odd=4, path=None):
        path = self.path(odd) if path is None else path
        params = []
        if self.chance(35):
            params.append((b"recursive", self.boolean()))
        if self.chance(35):
            params.append((b"dir", self.boolean()))
        if self.chance(15):
            params.append((b"prevValue", self.prev_value(path)))
        if self.chance(15):
            params.append((b"prevIndex", self.prev_index(path)))
        if self.chance(3):
            params.append((b"prevExist", self.boolean()))
        return self.build("DELETE", path, params, query_only=True)

    def other(self, odd=4):
        """A request with a method that keys do not support, or OPTIONS, which every path supports."""
        method = self.rng.choice(METHODS)
        params = [(b"value", self.value())] if self.chance(50) else []
        return self.build(method, self.path(odd), params, query_only=method != "PATCH")

    def boolean(self, true=75):
        return self.rng.choice(TRUE if self.chance(true) else FALSE)

    def long_ttl(self):
        if self.chance(6):
            return b""
        return b"%d" % self.rng.choice(LONG_TTLS)

    def noise(self, params):
        """Sometimes adds a superfluous or a wrong parameter."""
        if any(value in WRAPPING_TTLS for _, value in params):
            return  # prevExist would make it an update, whose node expires at once
        if self.chance(6):
            name = self.rng.choice(BOOLS).encode()
            params.append((name, self.rng.choice(NOT_BOOLS + TRUE + FALSE)))
        if self.chance(3):
            params.append(
                (self.rng.choice([b"prevIndex", b"waitIndex"]), self.rng.choice(NOT_NUMBERS)))
        if self.chance(2):
            params.append((b"ttl", self.rng.choice(NOT_NUMBERS)))
        if self.chance(2):
            params.append((b"prevValue", b""))
        if self.chance(2):
            params.append((b"value", self.value()))
        if self.chance(3):
            self.rng.shuffle(params)

    def build(self, method, path, params, query_only=False):
        """Spreads parameters over query and form, and chooses how they travel."""
        self.noise(params)
        query = []
        form = []
        for name, value in params:
            to_query = query_only or self.chance(20)
            (query if to_query else form).append(name + b"=" + quote(value))
        if self.chance(4):
            query.insert(self.rng.randrange(len(query) + 1), self.rng.choice(HARMLESS))
        if self.chance(1.5):
            (form if form and self.chance(50) else query).append(self.rng.choice(SPOILED))
        request = Request(method, path, b"&".join(query) if query or self.chance(2) else None)
        self.note(request, form, query)
        if not query_only:
            self.attach_body(request, b"&".join(form))
        elif method in ("GET", "DELETE", "HEAD", "OPTIONS") and self.chance(2):
            # Servers never parse a body with these methods.
            request.headers.append(("Content-Type", wire.FORM))
            request.body = b"recursive=true&value=%zz"
        if self.chance(2):
            request.headers.append(self.rng.choice(HEADERS))
        return request

    @staticmethod
    def note(request, form, query):
        """Remembers what the comparison needs: the first of a name counts, forms before queries."""
        seen = {}
        for part in form + query:
            name, _, value = part.partition(b"=")
            seen.setdefault(name, value)
            if name == b"prevIndex":
                request.prev_indexes.append(value)
        request.ordered = seen.get(b"sorted") in TRUE
        request.wait_index = seen.get(b"waitIndex")

    def attach_body(self, request, form):
        turn = self.rng.random()
        if turn < 0.04:
            # Without the content type of a form servers ignore the body.
            if self.chance(80):
                request.headers.append(("Content-Type", self.rng.choice(CONTENT_TYPES)))
            request.body = form
            return
        if turn < 0.06 and not form:
            return
        request.headers.append(("Content-Type", wire.FORM))
        if turn > 0.95 and b"{{" not in form:
            request.headers.append(("Transfer-Encoding", "chunked"))
            request.body = self.chunked(form)
        else:
            request.body = form

    def chunked(self, body):
        out = b""
        while body:
            size = self.rng.randrange(1, len(body) + 1)
            extension = b";x=y" if self.chance(10) else b""
            out += b"%x%s\r\n%s\r\n" % (size, extension, body[:size])
            body = body[size:]
        return out + b"0\r\n" + (b"X-Trailer: 1\r\n" if self.chance(20) else b"") + b"\r\n"

    def watch(self):
        """A watch: from now, from a past or a future index, of a key or all below it."""
        params = [(b"wait", self.rng.choice(TRUE))]
        if self.chance(55):
            params.append((b"recursive", self.boolean(90)))
        if self.chance(25):
            params.append((b"stream", self.boolean(90)))
        index = self.wait_index()
        if index is not None:
            params.append((b"waitIndex", index))
        path = b"/v2/keys/" if self.chance(12) else self.path(odd=1)
        self.rng.shuffle(params)
        request = Request("GET", path, b"&".join(n + b"=" + v for n, v in params))
        self.note(request, [], request.query.split(b"&"))
        return request

    def wait_index(self):
        now = self.model.index
        turn = self.rng.random()
        if turn < 0.35:
            return None
        if turn < 0.55:
            at = now + 1
        elif turn < 0.65:
            at = now + self.rng.randrange(2, 6)
        elif turn < 0.82:
            at = now - self.rng.randrange(0, 25)
        elif turn < 0.86:
            at = now - self.rng.randrange(25, 990)
        elif turn < 0.97:
            # The edge of the 1000 events that are kept, and beyond.
            at = now - self.rng.choice([997, 998, 999, 1000, 1001, 1005, 1500])
        else:
            return self.rng.choice([b"0", b"", b"abc", b"-1", b"18446744073709551615"])
        return b"{{B%+d}}" % max(1, at)

    def mortal(self, path=None):
        """A change that gives its node one or two seconds to live, or takes its TTL away again."""
        path = b"/v2/keys/" + b"/".join(self.names(3)) if path is None else path
        ttl = self.rng.choice([b"1", b"1", b"2"])
        turn = self.rng.random()
        if turn < 0.45:
            return self.plain("PUT", path, [(b"value", self.value()), (b"ttl", ttl)])
        if turn < 0.60:
            return self.plain("PUT", path, [(b"dir", b"true"), (b"ttl", ttl)])
        if turn < 0.70:
            return self.plain("POST", path, [(b"value", self.value()), (b"ttl", ttl)])
        if turn < 0.80:
            return self.plain("PUT", path, [(b"prevExist", b"true"), (b"ttl", ttl)])
        if turn < 0.88:
            return self.plain("PUT", path, [(b"prevExist", b"true"),
                              (b"refresh", b"true"), (b"ttl", ttl)])
        if turn < 0.94:
            return self.plain("PUT", path, [(b"value", self.value()), (b"prevExist", b"true")])
        return self.plain("PUT", path, [(b"value", self.value())])

    def doomed(self):
        """A change whose TTL is over at once: zero, or so large that it wraps into the past."""
        path = b"/v2/keys/" + b"/".join(self.names(3))
        turn = self.rng.random()
        if turn < 0.5:
            return self.plain("PUT", path, [(b"value", b"v1"), (b"ttl", b"0")])
        if turn < 0.75:
            return self.plain("PUT", path, [(b"value", b"v1"), (b"ttl", b"18446744073709551615")])
        if self.model.nodes:
            path = b"/v2/keys" + self.rng.choice(self.model.known())
        return self.plain("PUT", path, [(b"prevExist", b"true"), (b"ttl", b"9223372036")])

    def plain(self, method, path, params):
        """Exactly these parameters, all in the form, or in the query where there is none."""
        text = b"&".join(name + b"=" + quote(value) for name, value in params)
        if method in ("PUT", "POST"):
            return Request(method, path, None, [("Content-Type", wire.FORM)], text)
        return Request(method, path, text or None)
