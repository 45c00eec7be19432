"""Says whether two servers gave the same answer, although each counts indexes from its own base.

What may differ is named here and nowhere else: indexes (relative to a base taken from each server),
times, TTLs by one second, raft numbers, ids, own addresses, the order of unsorted listings, the
framing of bodies of about 2 KiB and more, the line that Go quotes of malformed trailers, and how a
change of the members is refused, which etcd checks before and rdzvd does not.
Everything else must be the same, byte for byte.
"""

import datetime
import html
import re

import normal

INDEX = re.compile(r'"(modifiedIndex|createdIndex|index)":(\d+)')
SEQUENCE = re.compile(r"(?<!\d)0{8}\d{12}(?!\d)")
TTL = re.compile(r'"ttl":(-?\d+)')
EXPIRATION = re.compile(r'"expiration":"([^"]*)"')
TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{0,8}[1-9])?Z")
CLEARED = re.compile(r'"cause":"the requested history has been cleared \[(\d+)/(\d+)\]"')
TRAILER = re.compile(r'("cause":"malformed MIME header[^"\\]*?)(?:: \\"(?:[^"\\]|\\.)*)?"')
OWN_URL = re.compile(r"http://(?:127\.0\.0\.1|localhost):\d+")
STATS_TIME = re.compile(r'"(startTime|uptime)":"[^"]*"')
NUMBER = re.compile(r":\d+")
# On a loaded machine the second server may get a request this much later than the first.
APART_S = 1.5
# From about this size on etcd sends chunks instead of a Content-Length; either framing is right.
SMALL = 1900
FRAMING = ("Content-Length", "Transfer-Encoding")


class Side:
    """One server, with the base of the indexes in its answers."""

    def __init__(self, server):
        self.name = server.name
        self.port = server.port
        self.base = 0
        self.cluster = None
        self.member = None

    def render(self, template):
        """A request's text with {{B+n}} and {{SEQ+n}} as this server counts."""
        if b"{{" not in template:
            return template
        return PLACE.sub(self._place, template)

    def _place(self, match):
        number = self.base + int(match.group(2))
        return b"%d" % number if match.group(1) == b"B" else b"%020d" % number

    def relative(self, number):
        return "B%+d" % (int(number) - self.base) if int(number) > 0 else "0"


PLACE = re.compile(rb"\{\{(B|SEQ)([+-]\d+)\}\}")


def seconds(text):
    """A time as Go writes it, in seconds; None when it is not such a time."""
    match = TIME.fullmatch(text)
    if not match:
        return None
    moment = datetime.datetime.fromisoformat(match.group(1)).replace(tzinfo=datetime.timezone.utc)
    return moment.timestamp() + float(match.group(2) or 0)


class Canonical:
    """An answer without the numbers that belong to its side alone."""

    def __init__(self, side, request, answer):
        self.ttls = []
        self.expirations = []
        self.status = answer.status
        self.text = self._body(side, request, bytes(answer.body))
        self.headers = self._headers(side, request, answer)
        if (request.about == "members" and request.method in ("PUT", "POST", "DELETE")
                and answer.status >= 400):
            self.status, self.text, self.headers = "refused", "", []
        self.end = "cut off" if answer.cut else "whole" if answer.complete else "open"

    def _headers(self, side, request, answer):
        out = []
        self.size = len(answer.body)
        for name, value in answer.headers:
            if name == "Date":
                value = "a date"
            elif name in ("X-Raft-Index", "X-Raft-Term"):
                value = "a number" if value.isdigit() else value
            elif name == "X-Etcd-Index" and value.isdigit():
                value = side.relative(value)
            elif name == "X-Etcd-Cluster-Id" and value == side.cluster:
                value = "the cluster's"
            elif name == "Content-Length" and value.isdigit():
                self.size = int(value)
                value = "a length"
            elif name == "Location":
                value = self._redirect(side, request, value)
            out.append((name, value))
        return sorted(out)

    def _redirect(self, side, request, text):
        """The target of a redirect, into which the server copied the query of the request."""
        if request.query:
            given = side.render(request.query).decode("latin-1")
            meant = request.query.decode("latin-1")
            text = text.replace(given, meant).replace(html.escape(given), html.escape(meant))
        return self._sequences(side, text)

    def _sequences(self, side, text):
        return SEQUENCE.sub(lambda m: "SEQ%+d" % (int(m.group()) - side.base), text)

    def _body(self, side, request, body):
        text = body.decode("utf-8", "backslashreplace")
        if not text:
            return text
        if request.about == "stats":
            if side.member:
                text = text.replace('"%s"' % side.member, '"the member\'s"')
            return NUMBER.sub(":N", STATS_TIME.sub(r'"\1":"T"', text))
        if request.about == "members":
            if side.member:
                text = text.replace('"%s"' % side.member, '"the member\'s"')
                text = text.replace(": %s\"" % side.member, ": the member's\"")
            return OWN_URL.sub("URL", text)
        if self.status == 301:
            return self._redirect(side, request, text)
        text = self._sequences(side, text)
        text = INDEX.sub(lambda m: '"%s":%s' % (m.group(1), side.relative(m.group(2))), text)
        text = self._cause(side, request, text)
        # A mark replaces each time, and moves with its node when the nodes are sorted.
        text = TTL.sub('"ttl":\x1et\\1\x1e', text)
        text = EXPIRATION.sub('"expiration":"\x1ee\\1\x1e"', text)
        if '"nodes":[' in text and not request.ordered:
            text = normal.sort_nodes(text)
        for kind, value in MARK.findall(text):
            if kind == "t":
                self.ttls.append(int(value))
            else:
                self.expirations.append(value)
        return MARK.sub("", text)

    @staticmethod
    def _cause(side, request, text):
        if "errorCode" not in text:
            return text
        text = TRAILER.sub(r'\1"', text)
        for given in request.prev_indexes:
            number = side.render(given).decode("latin-1").lstrip("0")
            text = re.sub(r"\[%s != (\d+)\]\"" % re.escape(number),
                          lambda m: '[%s != %s]"' % (given.decode("latin-1"),
                                                     side.relative(m.group(1))), text)
        match = CLEARED.search(text)
        if match:
            asked = match.group(2)
            if request.wait_index is not None and side.render(request.wait_index) == asked.encode():
                asked = request.wait_index.decode()
            text = CLEARED.sub('"cause":"cleared [%s/%s]"' % (
                side.relative(match.group(1)), asked), text)
        return text


# No answer has such marks: JSON escapes control characters.
MARK = re.compile("\x1e([te])([^\x1e]*)\x1e")


def difference(side_a, side_b, request, answer_a, answer_b):
    """What differs between two answers to one request, as text; None when nothing does."""
    a = Canonical(side_a, request, answer_a)
    b = Canonical(side_b, request, answer_b)
    if a.status != b.status:
        return "status %d, %d" % (a.status, b.status)
    only_a = [pair for pair in a.headers if pair not in b.headers]
    only_b = [pair for pair in b.headers if pair not in a.headers]
    if max(a.size, b.size) >= SMALL:  # a time may be a digit longer in one of the two
        only_a = [pair for pair in only_a if pair[0] not in FRAMING]
        only_b = [pair for pair in only_b if pair[0] not in FRAMING]
    if only_a or only_b or (a.size < SMALL and b.size < SMALL and a.headers != b.headers):
        return "headers: only %s %r, only %s %r" % (side_a.name, only_a, side_b.name, only_b)
    if a.text != b.text:
        at = next((i for i, (x, y) in enumerate(zip(a.text, b.text)) if x != y),
                  min(len(a.text), len(b.text)))
        return "body from byte %d: %r, %r" % (
            at, a.text[max(0, at - 60):at + 60], b.text[max(0, at - 60):at + 60])
    if a.end != b.end:
        return "end: %s, %s" % (a.end, b.end)
    if len(a.ttls) != len(b.ttls) or any(abs(x - y) > 1 for x, y in zip(a.ttls, b.ttls)):
        return "ttl: %r, %r" % (a.ttls, b.ttls)
    for x, y in zip(a.expirations, b.expirations):
        at_a, at_b = seconds(x), seconds(y)
        if at_a is None or at_b is None or abs(at_a - at_b) > APART_S:
            return "expiration: %s, %s" % (x, y)
    return None
