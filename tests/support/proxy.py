"""Stands between two programs, and disturbs their connections like a network: ends or resets them, also between two
bytes, and delays them."""

import socket
import struct
import threading


class Proxy:
    """A TCP port of loopback that leads to another one, or to a Unix socket: `target` is its number, or a path."""

    def __init__(self, target):
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.open = set()
        self.flows = threading.Event()
        self.flows.set()
        self.left = None  # bytes until all connections are cut; None: any number
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _connect(self):
        if isinstance(self.target, int):
            s = socket.create_connection(("127.0.0.1", self.target), 5)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            s = socket.socket(socket.AF_UNIX)
            s.connect(self.target)
        s.settimeout(None)
        return s

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                far = self._connect()
            except OSError:  # the target has gone; the client may ask again
                near.close()
                continue
            with self.lock:
                self.open |= {near, far}
            for pair in (near, far), (far, near):
                threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source, sink):
        try:
            while True:
                data = source.recv(65536)
                self.flows.wait()
                if not data:
                    break
                self._pass(sink, data)
        except OSError:
            pass
        self._end(source, sink)

    def _pass(self, sink, data):
        with self.lock:
            cut = self.left is not None and len(data) >= self.left
            if cut:
                data = data[:self.left]
                self.left = None
            elif self.left is not None:
                self.left -= len(data)
        sink.sendall(data)
        if cut:
            self.cut()

    def _end(self, *sockets):
        with self.lock:
            self.open -= set(sockets)
        for s in sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """All connections end now."""
        with self.lock:
            open_ = list(self.open)
        self.cuts += 1
        self._end(*open_)

    def reset(self):
        """The same, with an RST to both sides."""
        with self.lock:
            open_, self.open = list(self.open), set()
        self.cuts += 1
        for s in open_:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            try:
                s.shutdown(socket.SHUT_RD)  # a thread may be reading, and would keep it open
            except OSError:
                pass  # its peer was the first
            s.close()

    def cut_after(self, count):
        """Cuts all connections after `count` more bytes, sent or received."""
        with self.lock:
            self.left = count

    def close(self):
        self.flows.set()
        self.listener.close()
        self.cut()
