"""The programs of the wheel by the name of the package, for an environment whose scripts are not on PATH:

    python -m rdzvd [SETTING...]           the store, or a relay (--help)
    python -m rdzvd etcd [FLAG...]         the store in the place of an etcd, with etcd's flags and defaults
    python -m rdzvd run -- torchrun ...    an agent whose store is rdzvd, with any release of torch
    python -m rdzvd ctl ...                rdzvctl
    python -m rdzvd manifest ...           rdzv-manifest
    python -m rdzvd bench ...              rdzv-bench
"""

import os
import sys

from rdzvd import program_path

NAMES = {"etcd": ("rdzvd", "etcd"), "ctl": ("rdzvctl", "rdzvctl"), "manifest": ("rdzv-manifest", "rdzv-manifest"),
         "bench": ("rdzv-bench", "rdzv-bench")}


def main():
    words = sys.argv[1:]
    if words[:1] == ["run"]:
        from rdzvd import run
        run.main(words[1:])
    program, name = NAMES.get(words[0] if words else "", ("rdzvd", "rdzvd"))
    if words and words[0] in NAMES:
        del words[0]
    try:
        os.execv(program_path(program), [name] + words)
    except OSError as error:
        sys.exit("rdzvd: %s" % error)


if __name__ == "__main__":
    main()
