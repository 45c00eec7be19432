"""One connection of a play: sends bytes as told, and compares what arrives with what is expected.
Knows nothing of scripts' text; run.py decides when which of these happens.
"""

import re
import select
import socket
import struct
import time


class Unmet(Exception):
    """An expectation that failed: what was expected, and what came instead."""

    def __init__(self, expected, got):
        super().__init__("expected %s, got %s" % (expected, got))
        self.expected, self.got = expected, got


def show(data, limit=160):
    """Bytes for a reader: text as text, the rest as hex, long ones cut."""
    data = bytes(data)
    if not data:
        return "no bytes"
    part = data[:limit]
    printable = sum(32 <= b < 127 or b in b"\r\n\t" for b in part)
    text = repr(part)[1:] if printable * 10 >= len(part) * 9 else part.hex(" ")
    return text if len(data) <= limit else "%s... (%d bytes)" % (text, len(data))


class Connection:
    """A TCP connection that is only read when a test looks."""

    def __init__(self, address, patience, receive_buffer=None):
        self.patience = patience
        self.got = bytearray()  # arrived, and not yet expected by anyone
        self.ended = None       # "end of stream" or "reset", once the server has closed
        self.in_body = None     # how much of a chunk is left while an answer is read in parts
        self.sock = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(patience)
        self.sock.connect(address)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.name = "%s:%d" % self.sock.getsockname()[:2]  # what the server's log calls us

    # ---- sending

    def send(self, data):
        """Hands all bytes to the kernel. A server that has closed is for an expectation to see."""
        left, deadline = memoryview(data), time.monotonic() + self.patience
        while left:
            try:
                left = left[self.sock.send(left):]
            except BlockingIOError:
                if not self._wait(select.POLLOUT, deadline):
                    raise Unmet("the server to read %d bytes" % len(data),
                                "a full socket, %d bytes left" % len(left)) from None
            except (ConnectionResetError, BrokenPipeError):
                return

    def half_close(self):
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the server was first; an expectation says whether it may be

    def close(self):
        self.sock.close()

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    # ---- receiving

    def _wait(self, events, deadline):
        poll = select.poll()
        poll.register(self.sock, events)
        return bool(poll.poll(max(0, deadline - time.monotonic()) * 1000))

    def _receive(self, deadline):
        """Reads the available bytes; waits until `deadline` for the first byte. False if no byte came."""
        if self.ended or not self._wait(select.POLLIN, deadline):
            return False
        try:
            data = self.sock.recv(1 << 20)
        except BlockingIOError:
            return False
        except (ConnectionResetError, BrokenPipeError):
            self.ended = "reset"
            return True
        if not data:
            self.ended = "end of stream"
        self.got += data
        return True

    def _more(self, deadline, expected):
        """Waits for more bytes; if none come, fails with the missing part of `expected`."""
        if not self._receive(deadline):
            raise Unmet(expected, "%s, then %s" % (
                show(self.got), self.ended or "silence for %g s" % self.patience))

    def _deadline(self):
        return time.monotonic() + self.patience

    def wait_for(self, count, expected):
        """Returns when `count` bytes have arrived."""
        deadline = self._deadline()
        while len(self.got) < count:
            self._more(deadline, expected)

    def still_open(self):
        """Whether the server has not ended the connection; takes in what has arrived."""
        while self._receive(0):
            pass
        return not self.ended

    def listen(self, seconds):
        """Takes in what arrives first within some time."""
        self._receive(time.monotonic() + seconds)

    def expect(self, choices):
        """Exactly the bytes of one of the choices."""
        deadline, expected = self._deadline(), " or ".join(show(choice) for choice in choices)
        compared = 0  # so many bytes begin each choice that is left
        while True:
            here = len(self.got)
            choices = [choice for choice in choices
                       if self.got[compared:len(choice)] == choice[compared:here]]
            if not choices:
                raise Unmet(expected, show(self.got))
            for choice in choices:
                if len(choice) <= here:
                    del self.got[:len(choice)]
                    return
            compared = here
            self._more(deadline, expected)

    def expect_nothing(self, silence):
        """No byte and no end for `silence` seconds."""
        deadline = time.monotonic() + silence
        while not self.ended and not self.got and self._receive(deadline):
            pass
        if self.got or self.ended:
            raise Unmet("nothing", show(self.got) if self.got else self.ended)

    def expect_closed(self, skip=False):
        """The end; `skip`: behind whatever bytes."""
        deadline = self._deadline()
        while not self.ended:
            if skip:
                self.got.clear()
            if self.got:
                raise Unmet("closed", show(self.got))
            self._more(deadline, "closed")
        if self.got and not skip:
            raise Unmet("closed", show(self.got))

    # ---- HTTP answers

    def _until(self, mark, expected):
        """Takes the bytes up to and including `mark`."""
        deadline, at = self._deadline(), -1
        while at < 0:
            at = self.got.find(mark)
            if at < 0:
                self._more(deadline, expected)
        data = bytes(self.got[:at + len(mark)])
        del self.got[:at + len(mark)]
        return data

    def _exactly(self, count, expected):
        self.wait_for(count, expected)
        data = bytes(self.got[:count])
        del self.got[:count]
        return data

    def _to_end(self, expected):
        deadline = self._deadline()
        while not self.ended:
            self._more(deadline, expected)
        data = bytes(self.got)
        self.got.clear()
        return data

    def _chunk(self, expected):
        """The next chunk's bytes; empty for the last one."""
        line = self._until(b"\r\n", expected)
        if not re.fullmatch(rb"[0-9a-fA-F]+\r\n", line):
            raise Unmet(expected, "chunk size %s" % show(line))
        data = self._exactly(int(line, 16) + 2, expected)
        if data[-2:] != b"\r\n":
            raise Unmet(expected, "a chunk that ends in %s" % show(data[-2:]))
        return data[:-2]

    def _chunks(self, expected):
        body = b""
        while True:
            chunk = self._chunk(expected)
            if not chunk:
                return body
            body += chunk

    def expect_http(self, answer, env):
        """An answer as described by a script's HttpAnswer."""
        expected = "HTTP/%s %s" % (answer.version, answer.status)
        head = self._until(b"\r\n\r\n", expected)
        lines = head[:-4].split(b"\r\n")
        status = re.escape(expected).replace("x", r"\d") + " "
        if not re.match(status.encode(), lines[0]):
            raise Unmet(expected, show(head + self.got, 600))
        headers = {}
        for line in lines[1:]:
            name, colon, value = line.partition(b": ")
            if not colon or not re.fullmatch(rb"[A-Za-z-]+", name):
                raise Unmet("a header line", show(line))
            headers.setdefault(name.decode(), []).append(value)
        for name, glob in answer.headers:
            if not any(glob.match(value, env) for value in headers.get(name, [])):
                raise Unmet("%s: %s" % (name, glob), show(head, 1000))
        for name in answer.absent:
            if any(name.lower() == other.lower() for other in headers):
                raise Unmet("no header %s" % name, show(head, 1000))
        self._expect_body(answer, headers, env, int(lines[0].split()[1]))

    def _expect_body(self, answer, headers, env, status):
        expected = "the body of an answer %d" % status
        length = headers.get("Content-Length")
        if headers.get("Transfer-Encoding") == [b"chunked"] and length is None:
            framing = "chunked"
        elif length is not None and len(length) == 1 and re.fullmatch(rb"\d+", length[0]):
            framing = "length"
        elif length is None and "Transfer-Encoding" not in headers:
            framing = "until-close"
        else:
            raise Unmet("one clear framing", "headers %r" % headers)
        if answer.framing not in (None, framing):
            raise Unmet("a body framed by %s" % answer.framing, "headers %r" % headers)
        if answer.bodiless or status < 200 or status in (204, 304):
            return
        if answer.begin:
            self.in_body = bytearray()
            if framing != "chunked":
                raise Unmet("a chunked body", "headers %r" % headers)
            return
        if framing == "chunked":
            body = self._chunks(expected)
        elif framing == "length":
            body = self._exactly(int(length[0]), expected)
        else:
            body = self._to_end(expected)
        if answer.body is not None and not answer.body.match(body, env):
            raise Unmet("body %s" % answer.body, show(body, 600))

    def next_event(self):
        """The next line of a body that arrives in parts; None at its end."""
        while b"\n" not in self.in_body:
            chunk = self._chunk("an event")
            if not chunk:
                return None
            self.in_body += chunk
        line, end, rest = bytes(self.in_body).partition(b"\n")
        self.in_body = bytearray(rest)
        return line + end

    def expect_event(self, glob, env):
        """The next line of such a body."""
        line = self.next_event()
        if line is None:
            raise Unmet("event %s" % glob, "the end of the body")
        if not glob.match(line, env):
            raise Unmet("event %s" % glob, show(line, 2000))

    def expect_end(self):
        """The last chunk, and nothing before it."""
        rest = bytes(self.in_body) + self._chunk("the last chunk")
        self.in_body = None
        if rest:
            raise Unmet("the last chunk", show(rest))
