"""gate.py FIFO MODULE [ARG...]: python -m MODULE, held back once torch is loaded.

Loading takes a second, and twenty on a busy machine: what is measured begins behind it. Says
`train: ready`, goes on when FIFO has been opened for writing, and closed.
"""

import os
import runpy
import sys

import torch.distributed.run  # noqa: F401


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
