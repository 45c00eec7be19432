"""gate.py FIFO MODULE [ARG...]: python -m MODULE, held back once torch is loaded.

Loading takes a second, and twenty on a busy machine: what is measured begins behind it. Says
`train: ready`, goes on when FIFO has been opened for writing, and closed.

GATE_CLOCK_AHEAD_S in the environment puts the clock of this process so many seconds ahead, or
behind: what torch's agents write into their state are datetimes of now.
"""

import datetime
import os
import runpy
import sys
import time


def shift_clock(seconds):
    """Called before torch is loaded; torch then uses a datetime class with a shifted clock. The class has the real
    one's name, so pickle treats both alike, here and in other agents."""
    real_time, ahead = time.time, datetime.timedelta(seconds=seconds)

    class Shifted(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) + ahead

        @classmethod
        def utcnow(cls):
            return super().utcnow() + ahead

    Shifted.__module__, Shifted.__qualname__, Shifted.__name__ = "datetime", "datetime", "datetime"
    datetime.datetime = Shifted
    time.time = lambda: real_time() + seconds


if float(os.environ.get("GATE_CLOCK_AHEAD_S", 0)):
    shift_clock(float(os.environ["GATE_CLOCK_AHEAD_S"]))

import torch.distributed.run  # noqa: E402,F401


def main():
    fifo, module = sys.argv[1:3]
    sys.argv[:] = [module, *sys.argv[3:]]
    del sys.path[0]  # the tests' own modules are none of the module's business
    os.write(1, b"train: ready fifo=%s\n" % os.path.basename(fifo).encode())
    with open(fifo) as f:
        f.read()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
