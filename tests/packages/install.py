"""What `meson install` puts on a machine: every file at its place, manual pages and completions that say
what the programs say, and units that systemd takes and that keep rdzvd in.

    install.py [NAME...]     all cases, or the cases whose name contains a NAME

The build is that of $RDZVD, else build/; it has to be complete.
"""

import functools
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.path.insert(0, os.path.join(HERE, "..", "elastic"))
import cases  # noqa: E402
from c10d import Peer  # noqa: E402
from cases import case, check  # noqa: E402
from servers import Rdzvd, free_port, rdzvd_binary  # noqa: E402

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary())))
FOLDER = tempfile.TemporaryDirectory()
PROGRAMS = ("rdzvd", "rdzv-manifest", "rdzvctl")  # those with completions
PAGES = ("rdzvd.8", "rdzvd.yaml.5", "rdzv-manifest.1", "rdzvctl.1", "rdzv-bench.1")
SECURITY_MOST = "20"  # of systemd's 0 to 100: 2.0


def run(*argv, **more):
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, **more)


@functools.cache
def installed():
    """The folder with everything in it, and where the prefix is in there."""
    done = run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", FOLDER.name)
    check(done.returncode == 0, done.stdout + done.stderr)
    (bin_folder,) = [os.path.join(at, "bin") for at, folders, _ in os.walk(FOLDER.name) if "bin" in folders]
    return os.path.dirname(bin_folder)


def at(*path):
    return os.path.join(installed(), *path)


def read(*path):
    with open(at(*path), encoding="utf-8") as f:
        return f.read()


def page(name):
    return at("share", "man", "man" + name[-1], name)


def shown_page(name):
    """As a terminal shows it, without emphasis and on very long lines."""
    done = run("groff", "-man", "-Tutf8", "-P-cbou", "-rLL=9000n", "-ww", page(name))
    check(done.returncode == 0 and done.stderr == "", name + ": " + done.stderr)
    return re.sub("[\u2010\u2212]", "-", done.stdout).replace("\u2019", "'")


# ---- files


@case
def everything_is_where_distributions_expect_it():
    for program in PROGRAMS:
        check(os.access(at("bin", program), os.X_OK), program)
        for path in ("bash-completion/completions/" + program, "zsh/site-functions/_" + program,
                     "fish/vendor_completions.d/%s.fish" % program):
            check(os.path.exists(at("share", path)), path)
    check(run(at("bin", "kubectl-rdzv"), "--help").stdout.startswith("usage: kubectl rdzv "), "kubectl-rdzv")
    check(run(at("bin", "rdzv-bench"), "--version").stdout.startswith("rdzv-bench "), "rdzv-bench")
    for name in (*PAGES, "kubectl-rdzv.1"):
        check(os.path.exists(page(name)), name)
    for path in ("include/rdzv_client.h", "lib/systemd/system/rdzvd.service",
                 "lib/systemd/system/rdzvd.socket", "share/doc/rdzv/README.md",
                 "share/doc/rdzv/rdzv/README.md", "share/doc/rdzv/client/examples/hello.c"):
        check(os.path.exists(at(path)), path)
    found = {os.path.basename(p) for at_, _, names in os.walk(FOLDER.name) for p in names}
    check({"rdzv.pc", "librdzv.so", "librdzv.a", "rdzvd.yaml"} <= found, str(found))
    strange = [n for n in found - {"dashboard.json", "topology.py", "drain.py"} if n.endswith((".json", "-describe", ".in", ".py"))]
    check(not strange, "installed, but for the build alone: %s" % strange)


@case
def one_line_changes_the_licence():
    """Packages, SBOM, image and chart ask deploy/license.sh, and only meson.build knows."""
    root = os.path.join(HERE, "..", "..")
    now = run(os.path.join(root, "deploy", "license.sh")).stdout.strip()
    with open(os.path.join(root, "README.md"), encoding="utf-8") as f:
        readme = f.read()
    check(("**No licence.**" in readme) == (now == "NONE") and (now == "NONE" or now in readme), "README.md and " + now)
    with tempfile.TemporaryDirectory() as tree:
        run(os.path.join(root, "deploy", "source.sh"), tree)
        with open(tree + "/meson.build", encoding="utf-8") as f:
            text = f.read()
        with open(tree + "/meson.build", "w", encoding="utf-8") as f:
            f.write(text.replace("license: '%s'" % now, "license: 'ISC'"))
        with open(tree + "/LICENSE", "w", encoding="utf-8") as f:
            f.write("Permission is granted.\n\nNo warranty.\n")
        said = run(tree + "/deploy/license.sh", "debian").stdout
        check(said == "License: ISC\n Permission is granted.\n .\n No warranty.\n", said)
        done = run(tree + "/deploy/release.sh", tree + "/made", "chart", env=dict(os.environ, SOURCE_DATE_EPOCH="1"))
        check(done.returncode == 0, done.stderr)
        with tarfile.open(glob.glob(tree + "/made/rdzv-chart-*.tgz")[0]) as tar:
            chart = tar.extractfile("rdzv/Chart.yaml").read().decode()
        check('artifacthub.io/license: "ISC"' in chart, chart)


@case
def documents_link_to_what_is_there():
    top = at("share", "doc", "rdzv")
    for folder, _, names in os.walk(top):
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                links = re.findall(r"\]\(([^)#:]+\.md)(?:#[\w-]*)?\)", f.read())
            for link in links:
                target = os.path.normpath(os.path.join(folder, link))
                if not os.path.relpath(target, top).startswith("tests"):  # not a part of what is installed
                    check(os.path.exists(target), "%s in %s" % (link, os.path.join(folder, name)))


# ---- manual pages


@case
def manual_pages_are_well_formed():
    if not shutil.which("groff"):
        return "there is no groff"
    for name in PAGES:
        text = shown_page(name)
        check("@" not in re.sub(r"\S+@\S+", "", text), name + " has a placeholder")
        if shutil.which("man"):
            done = run("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page(name),
                       env=dict(os.environ, LC_ALL="C.UTF-8", MANWIDTH="80", MANROFFSEQ=""))
            check(done.returncode == 0 and done.stderr == "", name + ": " + done.stderr)


@case
def the_page_of_the_benchmark_has_each_option_and_work():
    if not shutil.which("groff"):
        return "there is no groff"
    said, text = run(at("bin", "rdzv-bench"), "--help").stdout, shown_page("rdzv-bench.1")
    options, _, works = said.partition("works:")
    words = set(re.findall(r"--[a-z-]+", options) + works.split())
    check(len(words) > 40, said)
    shown = set(re.findall(r"[a-z0-9-]+", text))
    check(words <= shown, "the page lacks %s" % sorted(words - shown))


@case
def the_benchmark_takes_works_in_any_order_and_refuses_wrong_words():
    program = at("bin", "rdzv-bench")
    with Rdzvd() as server:
        to = "--connect=localhost:%d" % server.port
        done = run(program, to, "--seconds=0.05", "--warmup=0", "--clients=8", "set", "add", "get", "wake", "add")
        check(done.returncode == 0 and done.stdout.count("work=") == 6, done.stdout + done.stderr)
        done = run(program, to, "--clients=64", "--relays=8", "--agents=8", "--seconds=0.05", "join", "init", "barrier")
        check(done.returncode == 0, done.stdout + done.stderr)
        for words, sentence in [(["add", "bogus"], "bogus: no work"), (["idle"], "needs --server-pid"),
                                (["--clients=0", "add"], "give clients or agents"),
                                (["--relays=3", "--agents=4", "join"], "a relay has at most one agent"),
                                (["--server-pid=4194304", "add"], "No such process")]:
            done = run(program, to, *words)
            check(done.returncode == 2 and done.stdout == "" and sentence in done.stderr, done.stdout + done.stderr)
        done = run(program, to, "--clients=4000000000", "add")
        check(done.returncode == 2, done.stderr)
    done = run(program, "--connect=127.0.0.1:%d" % free_port(), "add")
    check(done.returncode == 1 and "Connection refused" in done.stderr, done.stderr)


def help_settings():
    """What --help has, as {name: the rest of its line}."""
    lines = run(at("bin", "rdzvd"), "--help").stdout
    return dict(re.findall(r"^  --([a-z0-9-]+)((?:=\S+)? +.*)$", lines, re.M))


def has_words(text, words, what):
    check(" ".join(words.split()) in text, "%s: no %r" % (what, words))


@case
def the_page_of_rdzvd_says_what_help_says():
    if not shutil.which("groff"):
        return "there is no groff"
    text = " ".join(shown_page("rdzvd.8").split())
    settings = help_settings()
    check(len(settings) > 40, str(settings))
    for name, rest in settings.items():
        has_words(text, "--%s%s" % (name, rest), name)


@case
def the_page_of_settings_has_those_of_a_file():
    if not shutil.which("groff"):
        return "there is no groff"
    text = shown_page("rdzvd.yaml.5")
    names = set(re.findall(r"^ +([a-z0-9-]+): \S.*$", text.split("SETTINGS")[1].split("EXAMPLES")[0], re.M))
    for name in help_settings():
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write("%s: \n" % name)
            f.flush()
            err = run(at("bin", "rdzvd"), "--check-config", "--config=" + f.name).stderr
        check(("belongs on the command line" in err or name.startswith("check-")) == (name not in names),
              "%s: %s" % (name, err))


@case
def the_page_of_rdzv_manifest_says_what_help_says():
    if not shutil.which("groff"):
        return "there is no groff"
    text = " ".join(shown_page("rdzv-manifest.1").split())
    verbs = re.findall(r"^  (\w+)  +\w", run(at("bin", "rdzv-manifest"), "--help").stdout, re.M)
    check({"emit", "import", "rewrite", "check", "list"} <= set(verbs), str(verbs))
    for verb in verbs:
        for paragraph in run(at("bin", "rdzv-manifest"), verb, "--help").stdout.split("\n\n"):
            for part in re.split(r"^ {2,6}(?=-)", paragraph, flags=re.M):
                words = part.replace("`", "").replace("rdzv-manifest %s " % verb, "%s " % verb, 1) \
                    if part.startswith("rdzv-manifest") else part.replace("`", "")
                has_words(text, words, verb)


# ---- completions


def bash_completes(program, line):
    script = """
        source "$1"
        COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDS=() COMPREPLY=()
        compopt() { [ "$1" != -o ] || [ "$2" != default ] || echo FILES; }
        # as readline splits it: at blanks, and at = and : alone
        read -ra COMP_WORDS <<<"$(sed 's/[=:]/ & /g' <<<"$2")"
        [[ $2 != *' ' ]] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        "$3"
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = run("bash", "-c", script, "bash", at("share/bash-completion/completions", program), line,
               "_" + program.replace("-", "_"))
    check(done.stderr == "", done.stderr)
    return done.stdout.split()


@case
def bash_completes_rdzvd():
    settings = help_settings()
    for name, rest in settings.items():
        found = bash_completes("rdzvd", "rdzvd --" + name)
        check("--" + name + "=" * rest.startswith("=") in found, "%s: %s" % (name, found))
        choices = re.match(r"=([a-z0-9]+(?:\|[a-z0-9]+)+) ", rest)
        for form in ("rdzvd --%s=", "rdzvd --%s "):
            if choices:
                found = bash_completes("rdzvd", form % name)
                check(sorted(found) == sorted(choices.group(1).split("|")), "%s: %s" % (name, found))
    check(bash_completes("rdzvd", "rdzvd --sync=al") == ["always"], "the rest of a value")
    check(bash_completes("rdzvd", "rdzvd --data-dir=/v") == ["FILES"], "folders")


@case
def bash_completes_rdzv_manifest():
    def completes(line):
        return bash_completes("rdzv-manifest", "rdzv-manifest " + line)

    check("rewrite" in completes("") and completes("rew") == ["rewrite"], "verbs")
    check(completes("emit --platform volc") == ["volcano"], "platforms")
    check(completes("emit --rdzv rel") == ["relay"], "placements")
    check("rdzv-id-fixed" in completes("check --ignore "), "rules")
    check(completes("check --target volc") == ["volcano="], "targets")
    check(completes("list set") == ["settings"], "what is listed")
    check("numPods" in completes("explain "), "settings")
    check(completes("check x") == ["FILES"] and completes("emit -f ") == ["FILES"], "files")
    for verb in ("emit", "rewrite", "check"):
        out = run(at("bin", "rdzv-manifest"), verb, "--help").stdout
        for name in re.findall(r"^ +(?:-\w, +)?(--[a-z-]+)", out, re.M):
            check(name in completes("%s --" % verb), "%s %s" % (verb, name))


@case
def fish_completes():
    if not shutil.which("fish"):
        return "there is no fish"
    for program, line, wanted in (("rdzvd", "--sync=a", "--sync=always"), ("rdzvd", "--restart-on", "--restart-on-loss"),
                                  ("rdzv-manifest", "rew", "rewrite"), ("rdzv-manifest", "emit --platform volc", "volcano"),
                                  ("rdzv-manifest", "list plat", "platforms")):
        with tempfile.TemporaryDirectory() as home:
            done = run("fish", "-c", "source %s; complete -C '%s %s'" % (
                at("share/fish/vendor_completions.d", program + ".fish"), program, line),
                env=dict(os.environ, HOME=home))
        check(done.stderr == "", done.stderr)
        check(wanted in [row.split("\t")[0] for row in done.stdout.splitlines()], line + ": " + done.stdout)


@case
def zsh_completes():
    if not shutil.which("zsh"):
        return "there is no zsh"
    for program, line, wanted in (("rdzvd", "--sync=al", "always"), ("rdzvd", "--end-fail", "--end-failed-runs="),
                                  ("rdzv-manifest", "rew", "rewrite"),
                                  ("rdzv-manifest", "check --severity err", "error")):
        # zsh completes on a terminal alone; TAB, then the line is printed and not run.
        script = """
            zmodload zsh/zpty
            zpty shell "HOME=$2 ZDOTDIR=$2 zsh -fi"
            zpty -w shell "PS1= PROMPT= RPROMPT=; fpath=($1 \\$fpath); autoload -U compinit; compinit -u; print rea''dy"
            zpty -r -m shell buffer '*ready*'
            zpty -w shell "finish() { zle kill-whole-line; print -r -- \\"<\\$BUFFER\\$CUTBUFFER>\\" }; zle -N finish; bindkey '^X' finish; print bou''nd"
            zpty -r -m shell buffer '*bound*'
            zpty -w -n shell "$3"$'\\t\\x18'
            zpty -r -m shell buffer '*<*>*'
            print -r -- $buffer
            zpty -d shell
        """
        with tempfile.TemporaryDirectory() as home:
            done = run("zsh", "-fc", script, "zsh", at("share/zsh/site-functions"), home, "%s %s" % (program, line))
        shown = re.findall(r"<([^<>]*)>", done.stdout)
        check(any(wanted in text for text in shown), "%s: %r %s" % (line, done.stdout, done.stderr))


# ---- systemd


def unit(name):
    return at("lib", "systemd", "system", name)


@case
def systemd_takes_the_units():
    if not shutil.which("systemd-analyze"):
        return "there is no systemd-analyze"
    with tempfile.TemporaryDirectory() as folder:
        for name in ("rdzvd.service", "rdzvd.socket"):
            with open(unit(name), encoding="utf-8") as f:
                text = f.read()
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                # The paths of the prefix are not there, but below the folder that all was put into.
                f.write(re.sub(r"^ExecStart=\S+", "ExecStart=" + at("bin", "rdzvd"), text, flags=re.M))
        done = run("systemd-analyze", "verify", "--man=no", *[os.path.join(folder, n) for n in os.listdir(folder)])
        mine = [line for line in done.stderr.splitlines() if "rdzvd" in line]
        check(not mine, "\n".join(mine))


@case
def the_service_is_kept_in():
    if not shutil.which("systemd-analyze"):
        return "there is no systemd-analyze"
    done = run("systemd-analyze", "security", "--offline=true", "--threshold=" + SECURITY_MOST, "--no-pager",
               unit("rdzvd.service"))
    check(done.returncode == 0, done.stdout[-400:] + done.stderr)


def system_calls(filters):
    """The names of what SystemCallFilter= lines admit, one after the other."""
    sets, name = {}, None
    for line in run("systemd-analyze", "syscall-filter", "--no-pager").stdout.splitlines():
        word = line.split("#")[0].strip()
        if line.startswith("@"):
            name = word
            sets[name] = []
        elif word and name:
            sets[name].append(word)

    def expand(word):
        return {word} if word[0] != "@" else set().union(*map(expand, sets[word]))

    admitted = set()
    for line in filters:
        words = set().union(*map(expand, line.lstrip("~").split()))
        admitted = admitted - words if line.startswith("~") else admitted | words
    return admitted


@case
def the_service_may_do_what_rdzvd_does():
    """Each system call of a store with a journal and a relay is one that the unit admits."""
    if not shutil.which("strace") or not shutil.which("systemd-analyze"):
        return "there is no strace, or no systemd-analyze"
    filters = re.findall(r"^SystemCallFilter=(.*)$", read("lib/systemd/system/rdzvd.service"), re.M)
    admitted = system_calls(filters)
    check("epoll_wait" in admitted and "fdatasync" in admitted and not {"mount", "ptrace", "sched_setscheduler"} & admitted, str(admitted))
    with tempfile.TemporaryDirectory() as folder:
        trace = ["strace", "-D", "-f", "-q", "--seccomp-bpf", "-e", "signal=none", "-o"]
        with Rdzvd("--data-dir=" + folder + "/data", "--sync=always", wrapper=trace + [folder + "/store"],
                   binary=at("bin", "rdzvd")) as store:
            with Rdzvd("--upstream=localhost:%d" % store.port, wrapper=trace + [folder + "/relay"],
                       binary=at("bin", "rdzvd")) as relay:
                check(Peer(relay.port).add(b"/n", 1) == 1, "served")
                done = run("curl", "-sf", "-X", "PUT", "-d", "value=1", store.url + "/v2/keys/a")
                check(done.returncode == 0, done.stdout)
                for path in ("/metrics", "/readyz", "/rdzv/v1/status"):
                    check(run("curl", "-sf", store.url + path).returncode == 0, path)
        for name in ("store", "relay"):
            while "+++ exited with 0 +++" not in read_file(os.path.join(folder, name)):
                pass  # strace writes it, and goes on a moment longer than rdzvd
            calls = set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)[( ]", read_file(os.path.join(folder, name)), re.M))
            check({"epoll_wait", "accept4"} <= calls, str(calls))
            # That of strace and of the kernel before rdzvd runs.
            check(calls - {"execve"} <= admitted, "%s: not admitted: %s" % (name, calls - admitted))


@case
def the_settings_of_the_service_are_right():
    installed()
    with open(os.path.join(HERE, "..", "..", "deploy", "systemd", "rdzvd.yaml"), encoding="utf-8") as f:
        settings = f.read()
    (config,) = [os.path.join(p, "rdzvd.yaml") for p, _, names in os.walk(FOLDER.name) if "rdzvd.yaml" in names]
    with open(config, encoding="utf-8") as f:
        check(f.read() == settings, "another file is installed")
    done = run(at("bin", "rdzvd"), "--check-config", "--config=" + config)
    check(done.returncode == 0 and "warning" not in done.stdout, done.stdout + done.stderr)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:  # the settings that its comments show
        f.write(re.sub(r"^#   ", "", settings, flags=re.M))
        f.flush()
        every = run(at("bin", "rdzvd"), "--check-config", "--config=" + f.name)
    check(every.returncode == 1 and "client-ca: \"/etc/rdzvd/ca.crt\"" in every.stdout and
          "event=certificate_failed" in every.stderr, every.stdout + every.stderr)
    sockets = re.findall(r"^ListenStream=(.*)$", read("lib/systemd/system/rdzvd.socket"), re.M)
    check(sockets == ["127.0.0.1:29400", "[::1]:29400"] and '"localhost:29400"' in done.stdout,
          "the socket unit and the settings name other addresses")


@case
def a_socket_unit_holds_the_port():
    """systemd listens, the first client starts rdzvd by the unit's command, and is served."""
    if not shutil.which("systemd-socket-activate"):
        return "there is no systemd-socket-activate"
    (words,) = re.findall(r"^ExecStart=(.*)$", read("lib/systemd/system/rdzvd.service"), re.M)
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "rdzvd.yaml")
        with open(config, "w", encoding="utf-8") as f:
            f.write('listen: ["127.0.0.1:%d", "unix:%s/rdzvd.sock"]\ndata-dir: %s/data\n' % (port, folder, folder))
        words = re.sub(r"--config=\S+", "--config=" + config, words).split()
        with open(os.path.join(folder, "log"), "w+", encoding="utf-8") as log:
            process = subprocess.Popen(["systemd-socket-activate", "-l", "127.0.0.1:%d" % port,
                                        at("bin", "rdzvd"), *words[1:]], stderr=log, stdout=log)
            try:
                while "Listening" not in read_file(log.name):
                    check(process.poll() is None, read_file(log.name))
                check(Peer(port).add(b"/n", 1) == 1, "a client is served")
                check(os.path.exists(os.path.join(folder, "rdzvd.sock")), "and operators")
            finally:
                process.send_signal(signal.SIGTERM)
                code = process.wait(60)
            check(code == 0, read_file(log.name))
            check("address=127.0.0.1:%d" % port in read_file(log.name), read_file(log.name))


def read_file(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


if __name__ == "__main__":
    try:
        sys.exit(cases.run(os.path.join("tests", "packages", "install.py")))
    finally:
        FOLDER.cleanup()
