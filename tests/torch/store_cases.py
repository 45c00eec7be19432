"""Connections, threads and processes for the cases of store_api.py, and the list of these cases."""

import datetime
import faulthandler
import multiprocessing
import os
import threading
import time
import traceback

import torch
import torch.distributed as dist


CASE_SECONDS = 120
VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split("a")[0].split(".")[:2])
IS_1X = VERSION < (2, 0)


class SERVER:
    """The server under test, from the command line."""

    host, port, against = "127.0.0.1", 0, "rdzvd"


CASES = []


class Skip(Exception):
    """This torch release or this server does not support the call."""


def case(function):
    CASES.append(function)
    return function


def need(*names):
    for name in names:
        if not hasattr(dist.TCPStore, name):
            raise Skip("torch %s has no %s" % (torch.__version__, name))


def not_against_torch(why):
    if SERVER.against == "torch":
        raise Skip("torch's own server: " + why)


def seconds(s):
    return datetime.timedelta(seconds=s)


def has_libuv():
    """Whether this torch supports libuv: a client without it refuses queue calls."""
    try:
        dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=True)
    except (RuntimeError, TypeError):  # a build without it; a release without the word
        return False
    return True


HAS_LIBUV = has_libuv()


def connect(timeout=30, **options):
    if hasattr(dist.TCPStore, "libuvBackend") and not HAS_LIBUV:
        options.setdefault("use_libuv", False)
    options.setdefault("wait_for_workers", False)
    return dist.TCPStore(SERVER.host, SERVER.port, is_master=False, timeout=seconds(timeout), **options)


def own_keys(name):
    """A store of its own connection, and nobody else's keys."""
    return dist.PrefixStore("case-" + name, connect())


def raises(function, *words):
    """Calls `function`, which must fail as a store fails: a RuntimeError, or one of its kind."""
    try:
        function()
    except RuntimeError as error:
        text = str(error).lower()
        assert not words or any(word in text for word in words), text
        return error
    raise AssertionError("no error from %r" % (function,))


def times_out(function, least, most=20):
    begin = time.monotonic()
    raises(function, "timeout", "timed out", "time out")
    took = time.monotonic() - begin
    assert least * 0.9 <= took < most, "took %.2f s, wanted %.2f" % (took, least)


def in_threads(*functions):
    """Runs all at once; the first error of any is raised here."""
    errors = []

    def run(function):
        try:
            function()
        except BaseException as error:  # noqa: B902 - handed on below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(f,), daemon=True) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(CASE_SECONDS)
        assert not thread.is_alive(), "a thread did not end"
    if errors:
        raise errors[0]


# ------------------------------------------------------------ processes


def child_main(function, args, server, answer):
    SERVER.host, SERVER.port, SERVER.against = server
    faulthandler.dump_traceback_later(CASE_SECONDS - 30, exit=True)
    try:
        answer.send((None, function(*args)))
    except BaseException:  # noqa: B902 - told to the parent
        answer.send((traceback.format_exc(), None))
    # The answer is given, and what comes is no matter of the store's: torch 2.6 at times locks up
    # in destroy_process_group (it joins a thread of gloo's that waits for the interpreter's lock),
    # 2.13 at times aborts while the interpreter ends.
    os._exit(0)


class Children:
    """Processes that run `function(*args)` of a module, forked from one server that has
    imported torch, and their answers in order."""

    def __init__(self):
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["torch", "torch.distributed"])

    def start(self, calls):
        server = (SERVER.host, SERVER.port, SERVER.against)
        self.processes, self.pipes = [], []
        for function, *args in calls:
            mine, theirs = self.context.Pipe(duplex=False)
            process = self.context.Process(target=child_main, daemon=True,
                                           args=(function, args, server, theirs))
            process.start()
            theirs.close()
            self.processes.append(process)
            self.pipes.append(mine)
        return self.processes

    def answers(self):
        values = []
        for i, pipe in enumerate(self.pipes):
            assert pipe.poll(CASE_SECONDS), "child %d says nothing" % i
            error, value = pipe.recv()
            assert error is None, "child %d:\n%s" % (i, error)
            values.append(value)
        for process in self.processes:
            process.join(CASE_SECONDS)
        return values


def in_processes(*calls):
    children = Children()
    children.start(calls)
    return children.answers()
