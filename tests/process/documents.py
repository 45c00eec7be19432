"""The documents against the programs: settings, log events, HTTP paths, metrics, test steps, links, pictures.
And the names of settings in what the fuzzer of settings files mixes.

    documents.py [--update] [NAME...]     all cases, or the cases whose name contains a NAME

--update first writes the generated tables (settings in rdzv/config/README.md, metrics in
rdzv/admin/METRICS.md) anew; read them before they are committed. The daemon is $RDZVD, else the one in build/.
"""

import glob
import http.client
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "elastic"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "client", "ctl"))
import cases  # noqa: E402
import commands  # noqa: E402
from agents import meet  # noqa: E402
from cases import case, check  # noqa: E402
from servers import ROOT, Rdzvd, rdzvd_binary  # noqa: E402

CONFIG = os.path.join("rdzv", "config", "README.md")
API = os.path.join("rdzv", "admin", "API.md")
METRICS = os.path.join("rdzv", "admin", "METRICS.md")
EVENTS = os.path.join("rdzv", "admin", "EVENTS.md")
TESTS = os.path.join("tests", "README.md")

# Options in the daemon's documents that are not rdzvd's: those of torchrun, and of etcd.
FOREIGN = re.compile(r"--(nnodes|nproc-per-node|local-addr|max-restarts|monitor-interval|rdzv[-_]\w+|enable-v2|"
                     r"config-file|advertise-client-urls|cors|"
                     r"listen-(client|metrics)-urls|cert-file|key-file|trusted-ca-file|client-cert-auth|"
                     r"client-crl-file|client-cert-allowed-hostname|"
                     r"auto-compaction-\w+|max-request-bytes|max-txn-ops)$")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def section(path, heading):
    """The text below a heading of the second level, up to the next one."""
    found = re.search(r"^## %s\n(.*?)(?=^## |\Z)" % re.escape(heading), read(path), re.M | re.S)
    check(found, "%s has no section %r" % (path, heading))
    return found.group(1)


def documents(*folders):
    """All documents in these folders; without one, also those at the top."""
    found = [] if folders else glob.glob(os.path.join(ROOT, "*.md"))
    for folder in folders or ("client", "deploy", "proto", "rdzv", "store", "tests"):
        found += glob.glob(os.path.join(ROOT, folder, "**", "*.md"), recursive=True)
    return sorted(os.path.relpath(path, ROOT) for path in found)


def rows(text):
    """The cells of all table rows, without heads and rulers."""
    lines = re.findall(r"^\| (.*) \|$", re.sub(r"^\|.*\|\n\|[-|]+\|$", "", text, flags=re.M), re.M)
    return [re.split(r" \| ", line) for line in lines]


def same(documented, real, what):
    """Two sets of names are the same."""
    lacks, has = sorted(set(real) - set(documented)), sorted(set(documented) - set(real))
    check(not lacks and not has, "%s: missing in the document: %s; only in the document: %s" % (
        what, lacks or "none", has or "none"))


# ------------------------------------------------------------ generated tables


def help_text():
    return subprocess.run([rdzvd_binary(), "--help"], capture_output=True, text=True, check=True,
                          timeout=60).stdout


def options():
    """(group, name, value, help, default) of each option."""
    group, found = None, []
    for line in help_text().splitlines():
        head = re.match(r"(\w.*):$", line)
        option = re.match(r"  --([a-z0-9-]+)(?:=(\S+))?  +(.*?)(?: \(([^()]*)\))?$", line)
        if head:
            group = head.group(1)
        elif option:
            name, value, text, default = option.groups()
            found.append((group, name, value or "", text, default or ""))
    return found


def settings_table():
    lines, last = ["| setting | default | what it does |", "|---|---|---|"], None
    for group, name, value, text, default in options():
        if group != last:
            lines.append("| **%s** | | |" % group)
            last = group
        flag = "--%s%s" % (name, "=" + value if value else "")
        default = "`%s`" % default if re.fullmatch(r"\S+", default) else default
        lines.append("| `%s` | %s | %s |" % (flag.replace("|", "\\|"), default, text))
    return "\n".join(lines)


def printed_metrics(*flags, run=False):
    with Rdzvd(*flags) as daemon:
        agents = meet(daemon.port, "JOB", ["a"]) if run else []
        c = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=20)
        c.request("GET", "/metrics")
        text = c.getresponse().read().decode()
        c.close()
        for a in agents:
            a.close()
    return text


def table_of_metrics(text):
    lines = ["| metric | kind | what it is |", "|---|---|---|"]
    for name, about in re.findall(r"^# HELP (\S+) (.*)$", text, re.M):
        kind = re.search(r"^# TYPE %s (\S+)$" % name, text, re.M).group(1)
        labels = re.search(r"^%s(?:_bucket)?\{(.*)\}" % name, text, re.M)
        names = re.findall(r"(\w+)=\"", labels.group(1)) if labels else []
        names = [n for n in names if n != "le"]
        lines.append("| `%s%s` | %s | %s |" % (
            name, "{%s}" % ",".join(names) if names else "", kind, about))
    return "\n".join(lines)


def metrics_table():
    """Of a daemon with a data directory and a run, which has some more."""
    with tempfile.TemporaryDirectory() as folder:
        return table_of_metrics(printed_metrics("--data-dir=" + folder, run=True))


def relay_metrics_table():
    """Those that only a relay has. Nothing listens on port 1."""
    own = [block for block in printed_metrics("--upstream=127.0.0.1:1").split("# HELP ")
           if block.startswith("rdzvd_relay_")]
    return table_of_metrics("".join("# HELP " + block for block in own))


def replica_metrics_table():
    """The metrics that only a replica has. It prints them even if it cannot reach its etcd."""
    own = [block for block in printed_metrics("--journal=etcd://127.0.0.1:1/x").split("# HELP ")
           if block.startswith("rdzvd_journal_")]
    return table_of_metrics("".join("# HELP " + block for block in own))


TABLES = {"settings": (CONFIG, settings_table), "metrics": (METRICS, metrics_table),
          "relay-metrics": (METRICS, relay_metrics_table), "replica-metrics": (METRICS, replica_metrics_table)}
MARKED = r"(<!-- %s: [^\n]*-->\n)(.*?)(<!-- end -->)"


def update():
    for name, (path, make) in TABLES.items():
        text = re.sub(MARKED % name, lambda m, t=make(): m.group(1) + t + "\n" + m.group(3), read(path),
                      flags=re.S)
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as f:
            f.write(text)


def check_table(name):
    path, make = TABLES[name]
    found = re.search(MARKED % name, read(path), re.S)
    check(found, "%s has no generated table of %s" % (path, name))
    have, want = found.group(2).splitlines(), make().splitlines()
    check(have == want, "%s, %s: run documents.py --update\n  missing: %s\n  too many: %s" % (
        path, name, "\n    ".join(x for x in want if x not in have) or "none",
        "\n    ".join(x for x in have if x not in want) or "none"))


@case
def settings_are_those_of_the_help():
    check_table("settings")


@case
def metrics_are_those_that_are_printed():
    check_table("metrics")
    check_table("relay-metrics")
    check_table("replica-metrics")


@case
def the_table_of_the_rendezvous_has_each_file():
    """A reader finds the file that decides by this table."""
    rows = re.findall(r"^\| (`[^|]*`) \|", read("rdzv/rendezvous/POLICY.md").partition("| file in `rendezvous/`")[2], re.M)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    folder = os.path.join(ROOT, "rdzv", "rendezvous")
    same(named, {name[:-2] for name in os.listdir(folder) if name.endswith(".c")}, "files of rdzv/rendezvous")


UNLISTED = {"exit-with-stdin", "disable", "node-label"}  # for programs that start rdzvd, for support, for manifests


@case
def options_that_are_named_exist():
    known = {name for _, name, *_ in options()} | UNLISTED | {option.name for option in commands.OPTIONS}
    for path in ["README.md", *documents("rdzv", "store")]:
        for flag in re.findall(r"`(--[a-z0-9_-]+)", read(path)):
            check(flag[2:] in known or FOREIGN.match(flag), "%s names %s" % (path, flag))
    for page in ("deploy/man/rdzvd.8.in", "deploy/man/rdzvd.yaml.5.in"):
        for flag in re.findall(r"--[a-z0-9-]+", read(page).replace("\\-", "-")):
            check(flag[2:] in known or FOREIGN.match(flag), "%s names %s" % (page, flag))


@case
def the_fuzzer_of_settings_files_knows_their_names():
    words = re.findall(r'^"(.*)"$', read(os.path.join("tests", "fuzz", "config.dict")), re.M)
    lacks = sorted({name for _, name, *_ in options()} - set(words))
    check(not lacks, "tests/fuzz/config.dict lacks %s" % ", ".join(lacks))


# ------------------------------------------------------------ names in the source


def source():
    return {path: read(os.path.relpath(path, ROOT))
            for path in sorted(glob.glob(os.path.join(ROOT, "rdzv", "**", "*.c"), recursive=True))}


def arguments(text, at):
    """The arguments of the call whose bracket is open before `at`."""
    found, depth, start, quoted = [], 1, at, False
    while depth:
        c = text[at]
        if quoted:
            at += c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        else:
            depth += (c == "(") - (c == ")")
            if depth == 0 or (depth == 1 and c == ","):
                found.append(text[start:at])
                start = at + 1
        at += 1
    return found


def events():
    """The names of the events in the log: the first text in a call, and the other one of `? :`."""
    found = set()
    for path, text in source().items():
        for call in re.finditer(r"\b(log_event|log_limited|log_limited_as|write_event_line)\(", text):
            name = 2 if call.group(1) == "log_limited_as" else 1
            names = [re.findall(r'"(\w+)"', a) for a in arguments(text, call.end())[name:3]]
            names = next((n for n in names if n), [])
            check(names or call.group(1) == "write_event_line", path + ": a log call without a name")
            found.update(names)
        found.update(re.findall(r'\{LOG_\w+,\s*"(\w+)"', text))  # rows of a table
    return found


@case
def log_events_are_those_of_the_source():
    table = rows(read(EVENTS))
    same([name for row in table for name in re.findall(r"`(\w+)`", row[0])], events(), "events")


@case
def log_fields_are_those_of_the_source():
    real = {name for text in source().values()
            for name in re.findall(r'\b(?:log_(?:str|bytes|u64|i64|bool|errno)\(|FIELD\(\w+,)\s*"(\w+)"', text)}
    text = read(EVENTS)
    table = [name for row in rows(text) for name in re.findall(r"`(\w+)`", row[3])]
    every = {name for name in re.findall(r"`(\w+)[`=]", text) if name in real}
    same(every.union(table), real, "fields")


@case
def http_paths_are_those_of_the_routes():
    routes = re.findall(r'\{"(/[^"]*)", ROUTE_', read(os.path.join("rdzv", "routes.c")))
    check(routes, "rdzv/routes.c has no route")
    paths = [path for row in rows(read(API).split("\n## ")[0])
             for path in re.findall(r"`(?:[A-Z]+ )?(/[^`?]*)", row[0])]
    for path in paths:
        check(any(path == r or path.startswith(r + "/") for r in routes), "no route: " + path)
    for route in routes:
        check(any(p == route or p.startswith(route + "/") for p in paths), "not told of: " + route)


@case
def reasons_are_those_of_the_source():
    for source_file, table in (("net/refusal.c", "rdzvd_refused_total"),
                               ("admin/metrics_daemon.c", "rdzvd_connections_dropped_total")):
        text = read(os.path.join("rdzv", source_file))
        real = re.findall(r"\[(?:REFUSAL|DROP)_\w+\] = \{?(?:REASON\()?\"(\w+)\"", text)
        below = read(METRICS).split("The `reason` of `%s`" % table)[1]
        same(re.findall(r"^\| `(\w+)` \|", below.split("\n\nThe `reason`")[0], re.M), real, "reasons")


# ------------------------------------------------------------ tests, links


def steps(*words):
    return subprocess.run([os.path.join(ROOT, "tests", "run.sh"), *words, "--list"],
                          capture_output=True, text=True, check=True, timeout=60).stdout.split()


@case
def each_step_of_run_sh_has_its_line():
    with open(os.path.join(ROOT, "tests", "support", "steps.txt"), encoding="utf-8") as f:
        lines = [line.split("\t") for line in f.read().splitlines() if not line.startswith("#")]
    same([name for name, _ in lines], steps("--all"), "steps")
    same(steps("-v")[0], "monitoring", "the first word of --list -v")
    for name in re.findall(r"run\.sh.* --only ([\w,-]+)", read(TESTS)):
        check(set(name.split(",")) <= set(steps("--all")), "no such step: %s" % name)


def anchors(path):
    text = re.sub(r"^```.*?^```$", "", read(path), flags=re.M | re.S)
    heads = re.findall(r"^#+ (.*)$", text, re.M)
    slugs = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


@case
def links_lead_somewhere():
    for path in documents():
        for link in re.findall(r"\]\(([^)\s]+)\)", read(path)):
            if re.match(r"\w+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            check(os.path.exists(os.path.join(ROOT, target)), "%s: no file %s" % (path, link))
            check(not anchor or anchor in anchors(target), "%s: no heading %s" % (path, link))


@case
def each_alert_leads_to_its_section():
    rules = read(os.path.join("deploy", "monitoring", "rules.yaml"))
    alerts = re.findall(r"- alert: (\w+)$", rules, re.M)
    path = os.path.join("deploy", "monitoring", "README.md")
    same(re.findall(r"runbook: (.*)$", rules, re.M), ["%s#%s" % (path, name.lower()) for name in alerts], "runbooks")
    check(alerts and {name.lower() for name in alerts} <= anchors(path), "alerts without a section in " + path)


# Files of torch, of users and of systemd, which documents name as well.
FOREIGN_FILES = re.compile(r"(/etc/|\.|.*[*<{$…]|.*[A-Z]{3}|(.*/)?(api|local_elastic_agent|dynamic_rendezvous|"
                           r"c10d_rendezvous_backend)\.py$)")


@case
def files_that_are_named_exist():
    """As a path from the root, from the document or its top folder, from tests/, or by the end of its path."""
    listed = ["git", "-c", "safe.directory=" + ROOT, "ls-files", "--cached", "--others", "--exclude-standard"]
    known = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not known:
        return "this is no checkout"
    ends = {"/" + path for path in known}
    for path in documents():
        text = re.sub(r"^```.*?^```$", "", read(path), flags=re.M | re.S)
        for name in re.findall(r"`([^`\s]+\.(?:c|h|py|sh|proto|md|yaml|json|build|wire))(?::\w+)?`", text):
            check(FOREIGN_FILES.match(name) or any(e.endswith("/" + name) for e in ends),
                  "%s: no file %s" % (path, name))
    return None


@case
def functions_and_types_that_are_named_exist():
    """Those of torch stand in the tests as well."""
    files = [path for folder in ("client", "deploy", "proto", "rdzv", "store", "tests") for ending in ("c", "h", "py")
             for path in glob.glob(os.path.join(ROOT, folder, "**", "*." + ending), recursive=True)]
    text = "\n".join(read(os.path.relpath(path, ROOT)) for path in files)
    for path in documents("client", "rdzv", "store"):
        for name in set(re.findall(r"`(\w+)\(\)`", read(path))):
            check(re.search(r"\b%s\s*\(" % name, text), "%s: no function %s()" % (path, name))
        for kind, name in set(re.findall(r"`(struct|enum) (\w+)`", read(path))):
            check(re.search(r"\b%s %s\b" % (kind, name), text), "%s: no %s %s" % (path, kind, name))


@case
def pictures_are_those_of_their_script():
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "pictures.py")], capture_output=True, text=True,
                          check=False, timeout=60)
    check(done.returncode == 0, done.stdout + done.stderr)


@case
def documents_of_the_daemon_are_short():
    for path in ["README.md", *documents("rdzv", "store", "client")]:
        most = 12 if path == "README.md" else 20
        check(len(read(path).encode()) <= most << 10, "%s has more than %d KiB: split it, or shorten it" % (path, most))
        for line in re.sub(r"^```.*?^```$", "", read(path), flags=re.M | re.S).splitlines():
            check(len(line) <= 140 or line.startswith("|"), "%s: a line of more than 140: %s" % (path, line))


@case
def documents_that_the_source_names_exist():
    known = documents()
    name = re.compile(r"(?<![\w/.-])((?:client|deploy|proto|rdzv|store|tests)/[\w/.-]*\.md)(?:#([\w-]+))?")
    files = [path for folder in ("client", "deploy", "proto", "rdzv", "store", "tests")
             for path in glob.glob(os.path.join(ROOT, folder, "**", "*.*"), recursive=True)
             if re.search(r"\.(c|h|py|sh|in|html|js|ya?ml|build)$", path)]
    for path in sorted(os.path.relpath(f, ROOT) for f in files):
        for document, anchor in name.findall(read(path)):
            check(document in known, "%s: no document %s" % (path, document))
            check(not anchor or anchor in anchors(document), "%s: no heading %s#%s" % (path, document, anchor))


if __name__ == "__main__":
    if "--update" in sys.argv:
        sys.argv.remove("--update")
        update()
    sys.exit(cases.run("tests/process/documents.py"))
