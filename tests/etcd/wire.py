"""HTTP over a raw socket: callers choose every byte of a request and see every byte of an answer.

Knows framing only (length, chunked, until close); what an answer means is for its callers. An
answer may be taken apart while it is still growing, as watches need.
"""

import socket
import time


class Closed(Exception):
    """The peer ended the connection before an answer began or was whole."""


class Garbled(Exception):
    """What the peer sent is not HTTP."""


class Answer:
    """One answer. `body` is without chunk framing; `framing` is none, length, chunked or close."""

    def __init__(self, status, version, headers, head):
        self.status = status
        self.version = version
        self.headers = headers
        self.head = head
        self.body = bytearray()
        self.framing = "none"
        self.left = 0
        self.complete = False
        self.cut = False  # the connection ended in the middle of the body

    def header(self, name):
        """The first value of a header, or None."""
        for have, value in self.headers:
            if have.lower() == name.lower():
                return value
        return None

    def index(self):
        value = self.header("X-Etcd-Index")
        return int(value) if value is not None and value.isdigit() else None

    def show(self):
        text = self.head.decode("latin-1").rstrip("\r\n") + "\n\n" + bytes(self.body).decode(
            "utf-8", "backslashreplace")
        return text + ("" if self.complete else "\n(the answer is still open)") + (
            "\n(cut off)" if self.cut else "")


class Connection:
    """A client connection. Answers are read in the order in which requests were sent."""

    def __init__(self, port, host="127.0.0.1", timeout=20):
        self.timeout = timeout
        self.socket = socket.create_connection((host, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = bytearray()
        self.eof = False
        self.usable = True  # false once the peer has closed, or has said that it will

    def close(self):
        self.usable = False
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            # The peer may have answered before it closed: the reader finds out.
            pass

    def _receive(self, deadline):
        """Takes what is there; False at the end, TimeoutError when nothing came in time."""
        left = deadline - time.monotonic()
        if self.eof:
            return False
        self.socket.settimeout(max(left, 0.0005))
        try:
            data = self.socket.recv(262144)
        except ConnectionResetError:
            data = b""
        if not data:
            self.eof = True
            self.usable = False
            return False
        self.pending += data
        return True

    def _line(self, at=0):
        end = self.pending.find(b"\n", at)
        return None if end < 0 else end + 1

    def begin(self, method="GET", timeout=None):
        """Reads one head and returns its Answer, without waiting for the body. Skips 1xx heads,
        which `interim` reads."""
        deadline = time.monotonic() + (timeout or self.timeout)
        while True:
            answer = self._head(deadline)
            if answer.status >= 200:
                break
        self._frame(answer, method)
        self._advance(answer)
        return answer

    def interim(self, timeout=None):
        """Reads one head whatever its status, without a body: for 100 Continue."""
        answer = self._head(time.monotonic() + (timeout or self.timeout))
        if answer.status >= 200:
            self._frame(answer, "GET")
            self._advance(answer)
        return answer

    def _head(self, deadline):
        while True:
            end = self.pending.find(b"\r\n\r\n")
            if end >= 0:
                break
            if not self._receive(deadline):
                raise Closed("closed after %d bytes: %r" % (
                    len(self.pending), bytes(self.pending[:200])))
        head = bytes(self.pending[:end + 4])
        del self.pending[:end + 4]
        lines = head[:-4].decode("latin-1").split("\r\n")
        parts = lines[0].split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/") or not parts[1].isdigit():
            raise Garbled("bad status line %r" % lines[0])
        headers = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                raise Garbled("bad header line %r" % line)
            headers.append((name, value.strip(" \t")))
        return Answer(int(parts[1]), parts[0], headers, head)

    def _frame(self, answer, method):
        length = answer.header("Content-Length")
        coding = answer.header("Transfer-Encoding")
        connection = (answer.header("Connection") or "").lower()
        if "close" in connection or (answer.version == "HTTP/1.0" and connection != "keep-alive"):
            self.usable = False
        if method == "HEAD" or answer.status in (204, 304):
            answer.complete = True
        elif coding is not None and coding.lower() == "chunked":
            answer.framing = "chunked"
            answer.left = -1  # a chunk head is next
        elif length is not None:
            answer.framing = "length"
            answer.left = int(length)
        else:
            answer.framing = "close"

    def _advance(self, answer):
        """Moves what is here from `pending` to the body, without waiting."""
        while not answer.complete:
            if answer.framing == "close":
                answer.body += self.pending
                self.pending.clear()
                answer.complete = self.eof
                return
            if answer.framing == "length":
                part = self.pending[:answer.left]
                del self.pending[:answer.left]
                answer.body += part
                answer.left -= len(part)
                answer.complete = answer.left == 0
                break
            if not self._advance_chunk(answer):
                break
        if self.eof and not answer.complete:
            answer.cut = True

    def _advance_chunk(self, answer):
        """One step through chunked framing; False when more bytes are needed."""
        if answer.left == -1:
            end = self._line()
            if end is None:
                return False
            try:
                size = int(bytes(self.pending[:end]).split(b";")[0].strip(), 16)
            except ValueError:
                raise Garbled("bad chunk head %r" % bytes(self.pending[:end])) from None
            del self.pending[:end]
            answer.left = size if size > 0 else -2
            return True
        if answer.left == -2:  # after the last chunk: trailers, then an empty line
            end = self._line()
            if end is None:
                return False
            answer.complete = bytes(self.pending[:end]).strip() == b""
            del self.pending[:end]
            return True
        if len(self.pending) < answer.left + 2:
            return False
        answer.body += self.pending[:answer.left]
        if self.pending[answer.left:answer.left + 2] != b"\r\n":
            raise Garbled("chunk of %d bytes does not end in CRLF" % answer.left)
        del self.pending[:answer.left + 2]
        answer.left = -1
        return True

    def poll(self, answer, timeout):
        """Adds to `answer` what comes within `timeout`; returns at the first bytes. False: none."""
        before = len(answer.body), answer.complete
        deadline = time.monotonic() + timeout
        self._advance(answer)
        while (len(answer.body), answer.complete) == before and not answer.complete:
            try:
                more = self._receive(deadline)
            except TimeoutError:
                return False
            self._advance(answer)
            if not more:
                break
        return (len(answer.body), answer.complete) != before

    def finish(self, answer, timeout=None):
        """Waits until `answer` is whole."""
        deadline = time.monotonic() + (timeout or self.timeout)
        while not answer.complete:
            more = self._receive(deadline)
            self._advance(answer)
            if not more and not answer.complete:
                raise Closed("cut off in the body after %r" % bytes(answer.body[-200:]))
        return answer

    def read(self, method="GET", timeout=None):
        return self.finish(self.begin(method, timeout), timeout)

    def ended(self, timeout):
        """Whether the peer closes within `timeout`; bytes that come instead stay pending."""
        try:
            return not self._receive(time.monotonic() + timeout)
        except TimeoutError:
            return False


def encode(port, method, target, headers=(), body=None, version="HTTP/1.1"):
    """A request as bytes. `target` and `body` are bytes or text; a length is added when it is
    missing and the body is not chunked by the caller."""
    if isinstance(target, str):
        target = target.encode("utf-8")
    if isinstance(body, str):
        body = body.encode("utf-8")
    lines = [b"%s %s %s" % (method.encode(), target, version.encode()),
             b"Host: 127.0.0.1:%d" % port]
    for name, value in headers:
        lines.append(("%s: %s" % (name, value)).encode("utf-8"))
    framed = any(name.lower() in ("content-length", "transfer-encoding") for name, _ in headers)
    if body is not None and not framed:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")


FORM = "application/x-www-form-urlencoded"
