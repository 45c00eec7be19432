"""rdzvd as a process: its command line, signals, listeners, settings and log.

    run.py [NAME...]     all cases, or the cases whose name contains a NAME

The cases are in the modules imported here; daemon.py has what they share. The daemon is $RDZVD, else the one in build/.
Everything stays on loopback.
"""

import sys

import daemon  # noqa: F401  first, since it says where the modules of the tests are
import cases
import access_rules  # noqa: F401
import environment  # noqa: F401
import listeners  # noqa: F401

if __name__ == "__main__":
    sys.exit(cases.run("tests/process/run.py"))
