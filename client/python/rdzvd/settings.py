"""What torchrun's flags say about the store, as flags of a relay."""

import difflib
import hashlib
import re

DEFAULT_PORT = 29400

# Keys of --rdzv-conf, and the flags of rdzvd that get their values. torch gets all other keys.
FLAGS = {"ca": "--upstream-ca", "cert": "--upstream-cert", "key": "--upstream-key", "name": "--upstream-name",
         "crl": "--crl", "space": "--space"}
SPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")


class SettingError(Exception):
    """Its text says which setting is wrong, and the right one."""


def space_of(run_id):
    """A space of its own for each job: behind relays, two jobs in one space would have to share the workers' port."""
    if SPACE.match(run_id):
        return run_id
    return "run-" + hashlib.sha256(run_id.encode()).hexdigest()[:32]


def upstream_of(endpoint):
    """HOST:PORT of each store, with torch's default port. An IPv6 address stands in brackets."""
    hosts = []
    for word in endpoint.split(","):
        has_port = re.search(r"(\]|^[^:\[\]]+):\d+\Z", word)
        if not has_port and not re.match(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\],/ ]+)\Z", word):
            raise SettingError("--rdzv-endpoint=%s is wrong: it must be HOST:PORT of the store, such as store:29400, "
                               "and of each replica, with commas between them." % endpoint)
        hosts.append(word if has_port else "%s:%d" % (word, DEFAULT_PORT))
    return ",".join(hosts)


def flags_of(endpoint, run_id, conf):
    """The flags of the child, and its role: "relay", or "store" if no endpoint is named."""
    if "token" in conf:
        raise SettingError("--rdzv-conf token=… is wrong: rdzvd has no passwords over c10d. It admits agents by "
                           "certificate (ca=FILE,cert=FILE,key=FILE); a token is only for rdzvctl (--token-file).")
    for key in sorted(set(conf) - set(FLAGS)):  # torch's own keys resemble none of these
        meant = difflib.get_close_matches(key, FLAGS, 1, 0.85)
        if meant:
            raise SettingError("--rdzv-conf %s=… is wrong: did you mean %s=?" % (key, meant[0]))
    given = {key: str(conf[key]) for key in FLAGS if conf.get(key) not in (None, "")}
    if not endpoint:
        if given:
            raise SettingError("--rdzv-conf %s= needs --rdzv-endpoint=HOST:PORT: without an endpoint, the agent starts a "
                               "store of its own." % sorted(given)[0])
        return [], "store"
    given.setdefault("space", space_of(run_id))
    return ["--upstream=" + upstream_of(endpoint)] + ["%s=%s" % (FLAGS[k], given[k]) for k in sorted(given)], "relay"


def explain(text):
    """The child's words name its flags; a user of torchrun knows their names in --rdzv-conf."""
    for key, flag in FLAGS.items():
        text = re.sub(re.escape(flag) + r"(?![\w-])=?", "--rdzv-conf %s=" % key, text)
    return re.sub(r"--upstream(?![\w-])", "--rdzv-endpoint", text)
