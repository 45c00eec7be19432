"""Torch's TCPStore protocol, c10d: the only Python module of the tests that packs its requests, and a client of it.

    modern.set(b"key", b"value")    the bytes of a request, as torch 2.x sends it
    legacy.add(b"key", 1)           the same, as torch 1.x sends it
    Peer(port).add(b"key", 1)       a client that sends requests and returns their answers

Nothing in here waits for time.
"""

import socket
import struct
import time

# The opcode of a request is the place of its name in the list.
MODERN = ("VALIDATE SET COMPARE_SET GET ADD CHECK WAIT GETNUMKEYS DELETE_KEY APPEND MULTI_GET MULTI_SET CANCEL_WAIT "
          "PING QUEUE_PUSH QUEUE_POP QUEUE_LEN LIST_KEYS BARRIER").split()
LEGACY = "SET COMPARE_SET GET ADD CHECK WAIT GETNUMKEYS WATCH_KEY DELETE_KEY".split()
# Snapshots of torch 2.1 had these behind the legacy opcodes. rdzvd refuses them.
SNAPSHOT = "APPEND MULTI_GET MULTI_SET CANCEL_WAIT".split()

VALIDATE_MAGIC = 0x3C85F7CE
NONCE = bytes.fromhex("78563412")  # the answer to a PING repeats its nonce
STOP_WAITING, WAIT_CANCELED = b"\0", b"\1"  # the answers to WAIT and to CANCEL_WAIT
READY, NOT_READY = b"\0", b"\1"  # the answers to CHECK


def number(n):
    return struct.pack("<q", n)


def length(n):
    """A length or a count: unsigned, also if no store can hold that many bytes."""
    return struct.pack("<Q", n)


def blob(data):
    return length(len(data)) + data


def blobs(items):
    return length(len(items)) + b"".join(map(blob, items))


def read_number(data):
    return struct.unpack("<q", data)[0]


class Requests:
    """The requests of one version: each method returns the bytes of one request."""

    def __init__(self, names):
        self.opcodes = {name: bytes([i]) for i, name in enumerate(names)}

    def opcode(self, name):
        return self.opcodes[name]

    def validate(self, magic=VALIDATE_MAGIC):
        return self.opcodes["VALIDATE"] + struct.pack("<I", magic)

    def ping(self, nonce=NONCE):
        return self.opcodes["PING"] + nonce

    def hello(self, nonce=NONCE):
        """The first requests of a client of torch 2.5 or later."""
        return self.validate() + self.ping(nonce)

    def set(self, key, value):
        return self.opcodes["SET"] + blob(key) + blob(value)

    def compare_set(self, key, expected, desired):
        return self.opcodes["COMPARE_SET"] + blob(key) + blob(expected) + blob(desired)

    def get(self, key):
        return self.opcodes["GET"] + blob(key)

    def add(self, key, delta):
        return self.opcodes["ADD"] + blob(key) + number(delta)

    def check(self, *keys):
        return self.opcodes["CHECK"] + blobs(keys)

    def wait(self, *keys):
        return self.opcodes["WAIT"] + blobs(keys)

    def count(self):
        return self.opcodes["GETNUMKEYS"]

    def watch(self, key):
        return self.opcodes["WATCH_KEY"] + blob(key)

    def delete(self, key):
        return self.opcodes["DELETE_KEY"] + blob(key)

    def append(self, key, more):
        return self.opcodes["APPEND"] + blob(key) + blob(more)

    def multi_get(self, *keys):
        return self.opcodes["MULTI_GET"] + blobs(keys)

    def multi_set(self, *pairs):
        return self.opcodes["MULTI_SET"] + length(len(pairs)) + b"".join(blob(k) + blob(v) for k, v in pairs)

    def cancel_wait(self):
        return self.opcodes["CANCEL_WAIT"]

    def push(self, queue, value):
        return self.opcodes["QUEUE_PUSH"] + blob(queue) + blob(value)

    def pop(self, queue):
        return self.opcodes["QUEUE_POP"] + blob(queue)

    def queue_len(self, queue):
        return self.opcodes["QUEUE_LEN"] + blob(queue)

    def list_keys(self):
        return self.opcodes["LIST_KEYS"]

    def barrier(self, key, size):
        return self.opcodes["BARRIER"] + blob(key) + number(size)


modern = Requests(MODERN)
legacy = Requests(LEGACY + SNAPSHOT)


def unread(sock):
    """Bytes of a TCP connection to a process of this machine that this process has not read yet."""
    near, far = ("%04X" % end[1] for end in (sock.getsockname(), sock.getpeername()))
    count = 0
    for name in ("tcp", "tcp6"):
        with open("/proc/net/" + name, encoding="ascii") as f:
            for words in map(str.split, f):
                ends, (sent, received) = [w[-4:] for w in words[1:3]], (words[4] + ":").split(":")[:2]
                count += int(sent, 16) if ends == [near, far] else int(received, 16) if ends == [far, near] else 0
    return count


def await_read(sock):
    """Waits until the server has read all that was sent. An answer on another connection does not show that: the server
    reads connections that are ready in any order."""
    end = time.monotonic() + 20
    while unread(sock):
        if time.monotonic() > end:
            raise AssertionError("the server has left %d bytes unread" % unread(sock))
        time.sleep(0.002)


class Peer:
    """A TCPStore client. `ping`: of torch 2.5 or later."""

    def __init__(self, port, ping=True, host="127.0.0.1", source=None):
        self.socket = socket.create_connection((host, port), timeout=20,
                                               source_address=source and (source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.name = "%s:%d" % self.socket.getsockname()[:2]
        self.send(modern.hello() if ping else modern.validate())
        if ping:
            self.expect(NONCE)

    def send(self, data):
        self.socket.sendall(data)

    def take(self, n):
        got = bytearray()
        while len(got) < n:
            more = self.socket.recv(n - len(got))
            if not more:
                raise EOFError("the server closed after %r" % bytes(got[:80]))
            got += more
        return bytes(got)

    def expect(self, data):
        got = self.take(len(data))
        if got != data:
            raise AssertionError("%r came, not %r" % (got, data))

    def expect_stop_waiting(self):
        """The answer of a WAIT whose keys are there, or of a BARRIER that all have reached."""
        self.expect(STOP_WAITING)

    def number(self):
        return read_number(self.take(8))

    def blob(self):
        return self.take(self.number())

    def set(self, key, value):
        self.send(modern.set(key, value))

    def cas(self, key, expected, desired):
        self.send(modern.compare_set(key, expected, desired))
        return self.blob()

    def get(self, key):
        self.send(modern.get(key))
        return self.blob()

    def wait(self, *keys):
        """Sends the WAIT, and does not wait for its answer."""
        self.send(modern.wait(*keys))

    def wait_get(self, key):
        """As TCPStore.get(): blocks until the key is there."""
        self.wait(key)
        self.expect_stop_waiting()
        return self.get(key)

    def add(self, key, delta):
        self.send(modern.add(key, delta))
        return self.number()

    def check(self, *keys):
        self.send(modern.check(*keys))
        return self.take(1) == READY

    def count(self):
        self.send(modern.count())
        return self.number()

    def delete(self, key):
        """Returns 1, or 0 if the key was not there."""
        self.send(modern.delete(key))
        return self.number()

    def append(self, key, more):
        self.send(modern.append(key, more))

    def push(self, queue, value):
        self.send(modern.push(queue, value))

    def pop(self, queue):
        self.send(modern.pop(queue))
        if self.number() < 1:
            raise AssertionError("the queue is empty")
        return self.blob()

    def queue_len(self, queue):
        self.send(modern.queue_len(queue))
        return self.number()

    def list_keys(self):
        """All keys, in no order."""
        self.send(modern.list_keys())
        return [self.blob() for _ in range(self.number())]

    def ping(self):
        """Returns when all requests sent before have taken effect."""
        self.send(modern.ping())
        self.expect(NONCE)

    def await_read(self):
        """Waits until the server has read all that was sent here."""
        await_read(self.socket)

    def is_silent(self, other):
        """True when the server has read all that was sent here, has answered `other` since, and nothing has come here."""
        self.await_read()
        other.count()
        self.socket.setblocking(False)
        try:
            return self.socket.recv(1, socket.MSG_PEEK) is None
        except BlockingIOError:
            return True
        finally:
            self.socket.settimeout(20)

    def expect_end(self):
        got = self.socket.recv(1)
        if got:
            raise AssertionError("%r came, not the end" % got)

    def close(self):
        self.socket.close()
