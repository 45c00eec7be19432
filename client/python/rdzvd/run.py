"""An agent whose store is rdzvd, with any release of torch: `python -m rdzvd run -- torchrun …`.

The command line of torchrun stays as it is, except its flags about the rendezvous.
From torch 2.4 on, torchrun gets `--rdzv-backend=rdzvd`, and the backend does the rest. Older releases load no backend of a
package: they get c10d, and as their endpoint a relay that this program starts before it becomes torchrun. The relay ends
with torchrun, which holds its pipe; it is not started again, because these releases cannot reconnect."""

import os
import re
import sys
from importlib import metadata

from rdzvd.relay import Relay, RelayError
from rdzvd.settings import FLAGS, SettingError, flags_of

FIRST = (2, 4)  # the first release that loads backends of packages
READ_TIMEOUT_S = 60  # torch's default
USAGE = "usage: python -m rdzvd run -- torchrun --rdzv-endpoint=STORE_HOST:29400 --rdzv-id=JOB ... train.py"
FLAG = re.compile(r"--(rdzv[-_](?:backend|endpoint|conf|id))(?:=(.*))?\Z", re.S)


def torch_release():
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        sys.exit("rdzvd: the environment of %s has no torch" % sys.executable)
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])


def take_flags(words):
    """Removes torchrun's flags about the rendezvous: their values, and the other words. A flag that is missing has the
    value of torch's variable (PET_RDZV_…)."""
    given, rest, words = {}, [], list(words)
    while words:
        word = words.pop(0)
        flag = FLAG.match(word)
        if not flag:
            rest.append(word)
        elif flag.group(2) is None and not words:
            sys.exit("rdzvd: %s needs a value" % word)
        else:
            name = flag.group(1).replace("-", "_")
            given[name] = words.pop(0) if flag.group(2) is None else flag.group(2)
    for name in ("rdzv_backend", "rdzv_endpoint", "rdzv_conf", "rdzv_id"):
        given.setdefault(name, os.environ.get("PET_" + name.upper(), ""))
    return given, rest


def start_relay(given):
    """Returns a child that ends with this process, whatever program it becomes."""
    conf = dict(word.split("=", 1) for word in given["rdzv_conf"].split(",") if "=" in word)
    flags, role = flags_of(given["rdzv_endpoint"], given["rdzv_id"] or "none", conf)
    relay = Relay(flags, role, stderr=None)
    relay.wait_ready(int(conf.get("read_timeout") or READ_TIMEOUT_S))
    relay.hand_over()
    left = ["%s=%s" % item for item in conf.items() if item[0] not in FLAGS and item[0] != "is_host"]
    given.update(rdzv_backend="c10d", rdzv_endpoint="%s:%d" % (relay.host, relay.port),
                 rdzv_conf=",".join(["is_host=0"] + left))
    return relay


def main(words):
    if words[:1] == ["--"]:
        del words[0]
    if not words or words[0].startswith("-"):
        sys.exit(USAGE)
    given, rest = take_flags(words[1:])
    if given["rdzv_backend"] not in ("", "rdzvd", "c10d", "static"):
        sys.exit("rdzvd: --rdzv-backend=%s is wrong: rdzvd is the store of this command" % given["rdzv_backend"])
    given["rdzv_backend"] = "rdzvd"
    relay = None
    if torch_release() < FIRST:
        try:
            relay = start_relay(given)  # it would end if nothing referred to it
        except (RelayError, SettingError) as error:
            sys.exit("rdzvd: %s" % error)
    # Behind the program's name, and the module's of `python -m torch.distributed.run`.
    at = 2 if rest[:1] == ["-m"] else 0
    rest[at:at] = ["--%s=%s" % (name, value) for name, value in sorted(given.items()) if value]
    try:
        os.execvp(words[0], [words[0]] + rest)
    except OSError as error:
        del relay
        sys.exit("rdzvd: %s: %s" % (words[0], error))
