"""What rdzvd does for torch's elastic agents, over the wire: agents and workers here are scripts, so
that each case chooses who says what when. (With real torchrun: ../torch/repair.py.)

    run.py [--steps N] [--seed N] [NAME...]
                        all cases, or those with one of these words in their name; the fuzzing case
                        takes N steps (10000) from seed N (1)

The cases are in the modules imported here, by subject; scene.py has what they share. The daemon is $RDZVD, else the one
in build/. Everything stays on loopback; six cases run side by side.
"""

import argparse
import sys

import scene  # noqa: F401  first, since it says where the modules of the tests are
import cases
import failures  # noqa: F401
import forgetting  # noqa: F401
import fuzz
import joining  # noqa: F401
import losses  # noqa: F401
import orders  # noqa: F401
import over_etcd  # noqa: F401
import ranks  # noqa: F401
import status  # noqa: F401
import worker_store  # noqa: F401

OPTIONS = None


@cases.case
def random_requests_of_agents_do_no_harm():
    fuzz.run(OPTIONS.seed, OPTIONS.steps)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("names", nargs="*")
    OPTIONS = parser.parse_args()
    sys.exit(cases.run("tests/elastic/run.py", OPTIONS.names, at_once=6))
