"""A child process for each agent: a relay between the agent and its store, or, without an endpoint, a store in memory.

The child ends with the agent. It holds one end of a pipe as its standard input (--exit-with-stdin), and the agent holds
the other end, which the kernel closes even if the agent is killed. (PR_SET_PDEATHSIG would follow the thread that has
started the child, and agents start threads.)

A child listens at an address of its own: a random one of 127.29.0.0/16, and a port that the kernel has chosen. So the
children of two agents never meet, whether the agents belong to one job, to two jobs or to two users; and the backend
recognises the address of a relay in an answer of the store."""

import atexit
import collections
import http.client
import json
import logging
import os
import random
import re
import socket
import subprocess
import threading
import time
import weakref

from rdzvd import program_path
from rdzvd.settings import explain

log = logging.getLogger("rdzvd")

BLOCK = "127.29."  # the addresses of relays
DRAIN = "500ms"  # an agent that is killed leaves no relay behind for longer
POLL_S = 0.02
TELL_AFTER_S = 3
TELL_EACH_S = 15
RESTART_EACH_S = 1
LINES = 20
LAST_LINES_S = 5  # the child has ended, and the thread that reads its lines must come to their end


class RelayError(Exception):
    """The child cannot start, or does not reach the store. Its text is a sentence for people."""


def is_relay_address(host):
    return host.startswith(BLOCK)


def choose_address():
    """An address of the block, and a port that is free there."""
    randomly = random.SystemRandom()
    while True:
        host = "%s%d.%d" % (BLOCK, randomly.randrange(256), randomly.randrange(1, 255))
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind((host, 0))
            except OSError as error:
                raise RelayError("A relay cannot listen on loopback at %s: %s." % (host, error)) from error
            return host, s.getsockname()[1]


def sentence_of(lines):
    """The last line of a log, or of a program that refuses its flags, without the fields that only machines read."""
    line = lines[-1] if lines else ""
    words = re.findall(r'\b(?:reason|hint)="((?:[^"\\]|\\.)*)"', line)
    return explain("; ".join(words) or line)


class Relay:
    """The child, which is started again when it dies: a thread waits for its end."""

    _process = _reader = None

    def __init__(self, settings, what="relay", stderr=subprocess.PIPE):
        """`settings`: flags of rdzvd. A store in memory ("store") is not started again, because its state is lost.
        `stderr`: None is that of this process; else each line of the child goes to the log of this process."""
        self.what = what
        self.host, self.port = choose_address()
        self.starts = 0  # how often the child was started
        self._argv = [program_path("rdzvd"), "--listen=%s:%d" % (self.host, self.port), "--exit-with-stdin=on",
                      "--drain-timeout=" + DRAIN, "--log-level=warn"] + settings
        self._lines = collections.deque(maxlen=LINES)
        self._changed = threading.Condition()
        self._stderr, self._stopped, self._was_ready = stderr, False, False
        self._start()
        threading.Thread(target=Relay._watch, args=(weakref.ref(self), self._process), daemon=True).start()
        atexit.register(Relay._stop_weak, weakref.ref(self))

    def _start(self):
        # In a session of its own, so that a Ctrl-C for the agent does not end it first.
        self._process = subprocess.Popen(self._argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                         stderr=self._stderr, text=True, errors="replace", start_new_session=True)
        if self._process.stderr is not None:
            self._reader = threading.Thread(target=Relay._read, args=(self._process.stderr, self._lines), daemon=True)
            self._reader.start()
        self.starts += 1

    @staticmethod
    def _read(stderr, lines):
        for line in stderr:
            lines.append(line.strip())
            log.warning("%s", line.strip())

    @staticmethod
    def _watch(weak, process):
        """Holds no reference to the relay while it waits, so that a relay that is no longer used can end."""
        while process is not None:
            began = time.monotonic()
            process.wait()
            self = weak()
            process = self._start_again(began) if self is not None else None
            del self

    def _start_again(self, began):
        """Returns the new child; None: there will be none."""
        with self._changed:
            if not self._was_ready or self.what != "relay":
                return None
            self._changed.wait_for(lambda: self._stopped, max(0, RESTART_EACH_S - (time.monotonic() - began)))
            if self._stopped:
                return None
            log.warning("The relay at %s:%d has ended with code %d, and is started again.",
                        self.host, self.port, self._process.returncode)
            self._start()
            self._changed.notify_all()
            return self._process

    def wait_for_start(self, starts, seconds):
        """True as soon as the child was started more often than `starts`; False after that many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self.starts > starts, seconds)

    @property
    def pid(self):
        return self._process.pid

    def state(self):
        """None: the child is ready. Else the reason in its own words, with the names of settings that a user knows."""
        if self._process.poll() is not None:
            return "it has ended with code %d" % self._process.returncode
        status, text = self._get("/readyz?verbose")
        failed = [line[len("[-]"):] for line in text.splitlines() if line.startswith("[-]")]
        return None if status == 200 else explain("; ".join(failed)) if status else "it starts"

    def has_ended_well(self, run_id):
        """False also if the store does not say so, such as to clients without a token (--read-token-file)."""
        status, text = self._get("/rdzv/v1/status")
        spaces = json.loads(text)["spaces"] if status == 200 else []
        return "done" in [run["end"] for space in spaces for run in space["ended"] if run["id"] == run_id][:1]

    def _get(self, path):
        """The status of the child's answer, and its text; (None, ""): there is no answer."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=2)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException):
            return None, ""
        finally:
            connection.close()

    def wait_ready(self, seconds):
        """Until the relay has reached its store for the first time. Raises RelayError with the relay's own reason."""
        began = time.monotonic()
        tell = began + TELL_AFTER_S
        while True:
            why = self.state()
            now = time.monotonic()
            if why is None:
                self._was_ready = True
                return
            if self._process.poll() is not None:
                if self._reader is not None:
                    self._reader.join(LAST_LINES_S)
                raise RelayError("The %s cannot start: %s" % (self.what, sentence_of(self._lines) or why))
            if now - began > seconds:
                raise RelayError("The %s has not reached its store for %d s: %s." % (self.what, seconds, why))
            if now > tell:
                tell = now + TELL_EACH_S
                log.warning("The %s waits for its store: %s.", self.what, why)
            time.sleep(POLL_S)

    def stop(self):
        """Ends the child, after its clients' requests have reached the store."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        try:
            self._process.stdin.close()
        except OSError:
            pass

    def hand_over(self):
        """Before this process becomes another program: that program keeps the pipe."""
        os.set_inheritable(self._process.stdin.fileno(), True)

    def __del__(self):
        if self._process is not None:
            self.stop()

    @staticmethod
    def _stop_weak(weak):
        self = weak()
        if self is not None:
            self.stop()
