"""The wheel `rdzvd`: what is in it; pip and uv install it into new environments, its programs run, and nothing of it
is left when it goes.

    wheel.py [NAME...]     cases with one of these words in their name, or all

The programs are those of the build of $RDZVD, else of build/; $RDZV_WHEEL names a wheel of deploy/release.sh instead.
"""

import ast
import base64
import csv
import glob
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import cases  # noqa: E402
from c10d import Peer  # noqa: E402
from cases import case, check  # noqa: E402
from servers import ROOT, Rdzvd  # noqa: E402
from wheels import check_output, make_environment, make_wheel, tool, version  # noqa: E402

MOST = 6_000_000  # bytes
PROGRAMS = ("rdzvd", "rdzvctl", "rdzv-manifest", "rdzv-bench")
OLDEST = (3, 8)  # Python
SCRATCH = tempfile.mkdtemp(prefix="rdzv-wheel-")
WHEEL = {}


def wheel():
    if not WHEEL:
        WHEEL["path"] = make_wheel(SCRATCH)
    return WHEEL["path"]


def is_released():
    return "musllinux" in wheel()


def files_below(folder):
    return sorted(os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names)


@case
def the_record_names_every_file_and_its_digest():
    with zipfile.ZipFile(wheel()) as z:
        names = z.namelist()
        check(len(set(names)) == len(names), str(names))
        record = "rdzvd-%s.dist-info/RECORD" % version()
        rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(z.read(record).decode()))}
        check(set(rows) == set(names) and names[-1] == record and rows.pop(record) == ["", ""], str(rows))
        for name, (digest, size) in rows.items():
            data = z.read(name)
            wanted = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            check((digest, size) == ("sha256=" + wanted, str(len(data))), name)
        programs = [i for i in z.infolist() if "/scripts/" in i.filename]
        check([os.path.basename(i.filename) for i in programs] == list(PROGRAMS), str(names))
        check(all(i.external_attr >> 16 == 0o100755 for i in programs), "programs that are not executable")
        check(not any(n.endswith((".so", ".pyd")) for n in names), "a compiled extension")


@case
def it_is_small_and_needs_no_other_package():
    size = os.path.getsize(wheel())
    print("%s: %d bytes" % (os.path.basename(wheel()), size))
    check(size <= MOST, "%d bytes" % size)
    with zipfile.ZipFile(wheel()) as z:
        metadata = z.read("rdzvd-%s.dist-info/METADATA" % version()).decode()
        check("Requires-Dist" not in metadata, metadata)
        tags = [line[5:] for line in z.read("rdzvd-%s.dist-info/WHEEL" % version()).decode().splitlines()
                if line.startswith("Tag: ")]
        check(all(tag.startswith("py3-none-") and tag[9:] in wheel() for tag in tags) and tags, str(tags))
        sbom = json.loads(z.read("rdzvd-%s.dist-info/sboms/rdzvd.spdx.json" % version()))
        check(sbom["spdxVersion"] == "SPDX-2.3", str(sbom))


@case
def the_same_programs_make_the_same_bytes():
    if os.environ.get("RDZV_WHEEL"):
        return "release.py compares whole releases"
    with tempfile.TemporaryDirectory(prefix="rdzv-another-") as folder:
        with open(make_wheel(folder), "rb") as second, open(wheel(), "rb") as first:
            check(first.read() == second.read(), "two wheels of the same programs differ")
    return None


@case
def its_python_is_that_of_the_oldest_release():
    for path in glob.glob(os.path.join(ROOT, "client", "python", "rdzvd", "*.py")):
        with open(path, encoding="utf-8") as f:
            ast.parse(f.read(), path, feature_version=OLDEST)


def use(python, folder):
    """Runs the programs of an environment, by their names and by that of the package."""
    for program in PROGRAMS:
        check(version() in check_output(os.path.join(folder, "bin", program), "--version"), program)
    check(check_output(python, "-m", "rdzvd", "--version") == "rdzvd %s\n" % version(), "--version")
    check("etcd Version: 3.4" in check_output(python, "-m", "rdzvd", "etcd", "--version"), "as etcd")
    check(version() in check_output(python, "-m", "rdzvd", "ctl", "--version"), "ctl")
    check("emit" in check_output(python, "-m", "rdzvd", "manifest", "--help"), "manifest")
    check(version() in check_output(os.path.join(folder, "bin", "kubectl-rdzv"), "--version"), "kubectl-rdzv")
    with Rdzvd(wrapper=[python, "-m"], binary="rdzvd") as server:
        with open("/proc/%d/cmdline" % server.pid, "rb") as f:
            check(f.read().startswith(b"rdzvd\0--listen\0"), "the package runs beside the program")
        check(Peer(server.port).add(b"/n", 2) == 2, "c10d")
        check_output(os.path.join(folder, "bin", "rdzvctl"), "-s", "127.0.0.1:%d" % server.port, "preflight")


@case
def pip_installs_it_and_removes_all_of_it():
    folder = os.path.join(SCRATCH, "pip")
    python = make_environment(folder)
    before = files_below(folder)
    check_output(python, "-m", "pip", "install", "--no-index", wheel())
    use(python, folder)
    check_output(python, "-m", "pip", "check")
    check_output(python, "-m", "pip", "uninstall", "--yes", "rdzvd")
    left = [path for path in files_below(folder) if path not in before and "/pip/" not in path]
    check(not left, "left behind: %s" % left)


@case
def uv_installs_it_and_removes_all_of_it():
    uv = tool("uv")
    if uv is None:
        return "there is no uv: tests/support/install.sh wheel"
    folder = os.path.join(SCRATCH, "uv")
    check_output(uv, "venv", "--offline", "--python", sys.executable, folder)
    before = files_below(folder)
    env = dict(os.environ, VIRTUAL_ENV=folder, UV_CACHE_DIR=os.path.join(SCRATCH, "uv-cache"), UV_OFFLINE="1")
    check_output(uv, "pip", "install", wheel(), env=env)
    use(os.path.join(folder, "bin", "python"), folder)
    check_output(uv, "pip", "uninstall", "rdzvd", env=env)
    left = set(files_below(folder)) - set(before) - {os.path.join(folder, ".lock")}  # uv's own
    check(not left, "left behind: %s" % left)
    return None


def interpreters():
    """The Pythons of this machine from 3.8 on: on PATH, of uv or of pyenv."""
    for minor in range(OLDEST[1], 16):
        name = "python3.%d" % minor
        places = [shutil.which(name), *glob.glob(os.path.expanduser("~/.pyenv/versions/3.%d.*/bin/%s" % (minor, name))),
                  *glob.glob(os.path.expanduser("~/.local/share/uv/python/cpython-3.%d.*/bin/%s" % (minor, name)))]
        for path in filter(None, places):
            if subprocess.run([path, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
                yield name, path
                break


RELAY = """
import rdzvd.kubectl, rdzvd.run
from rdzvd.relay import Relay
store = Relay([], "store")
store.wait_ready(60)
print("ready at", store.port)
store.stop()
"""


@case
def every_python_of_this_machine_runs_it():
    uv = tool("uv")
    if uv is None:
        return "there is no uv: tests/support/install.sh wheel"
    found = list(interpreters())
    for name, path in found:
        folder = os.path.join(SCRATCH, name)
        env = dict(os.environ, VIRTUAL_ENV=folder, UV_CACHE_DIR=os.path.join(SCRATCH, "uv-cache"), UV_OFFLINE="1")
        check_output(uv, "venv", "--python", path, folder, env=env)
        check_output(uv, "pip", "install", wheel(), env=env)
        python = os.path.join(folder, "bin", "python")
        check(version() in check_output(python, "-m", "rdzvd", "--version"), name)
        check(version() in check_output(os.path.join(folder, "bin", "kubectl-rdzv"), "--version"), name)
        check("ready at" in check_output(python, "-c", RELAY), name)
    check(found, "there is no Python")
    print("  " + ", ".join(name for name, _ in found))
    return None


@case
def its_programs_are_found_below_a_target_and_in_a_user_folder():
    python = make_environment(os.path.join(SCRATCH, "places"))
    target, user = os.path.join(SCRATCH, "target"), os.path.join(SCRATCH, "user")
    check_output(python, "-m", "pip", "install", "--no-index", "--target", target, wheel())
    out = check_output(python, "-m", "rdzvd", "--version", env=dict(os.environ, PYTHONPATH=target))
    check(version() in out, out)
    os.unlink(os.path.join(target, "bin", "rdzvd"))
    out = check_output(python, "-m", "rdzvd", "--version", env=dict(os.environ, PYTHONPATH=target), code=1)
    check("install the wheel again" in out, out)
    env = dict(os.environ, PYTHONUSERBASE=user)
    done = subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--user", "--break-system-packages",
                           wheel()], env=env, capture_output=True, text=True)
    check(done.returncode == 0, done.stderr)
    out = check_output(sys.executable, "-m", "rdzvd", "--version", env=env)
    check(version() in out, out)


@case
def twine_finds_nothing_wrong():
    twine = tool("twine")
    if twine is None:
        return "there is no twine: tests/support/install.sh wheel"
    out = check_output(twine, "check", "--strict", wheel())
    check("PASSED" in out, out)
    return None


@case
def it_fits_machines_with_musl_and_old_glibc():
    uv = tool("uv")
    if not is_released() or uv is None:
        return "only a wheel of deploy/release.sh runs on other machines, and uv chooses it"
    env = dict(os.environ, UV_CACHE_DIR=os.path.join(SCRATCH, "uv-cache"), UV_OFFLINE="1")
    machine = "aarch64" if "aarch64" in wheel() else "x86_64"
    for platform in ("unknown-linux-musl", "manylinux_2_17", "manylinux_2_28"):
        for python in ("3.8", "3.13"):
            folder = os.path.join(SCRATCH, platform, python)
            check_output(uv, "pip", "install", "--no-index", "--find-links", os.path.dirname(wheel()), "--target", folder,
                         "--python-version", python, "--python-platform", "%s-%s" % (machine, platform), "rdzvd", env=env)
            check(os.path.exists(os.path.join(folder, "bin", "rdzvd")), folder)
    return None


@case
def its_programs_need_no_libc():
    """In a root with nothing else, so they run on Alpine as well."""
    if not is_released() or os.getuid() != 0:
        return "only a wheel of deploy/release.sh has static programs, and chroot needs root"
    root = os.path.join(SCRATCH, "root")
    with zipfile.ZipFile(wheel()) as z:
        for entry in z.infolist():
            if "/scripts/" in entry.filename:
                path = z.extract(entry, root)
                os.chmod(path, 0o755)
                out = check_output("chroot", root, "/" + os.path.relpath(path, root), "--version")
                check(version() in out, out)
    return None


if __name__ == "__main__":
    try:
        sys.exit(cases.run(os.path.join("tests", "packages", "wheel.py")))
    finally:
        shutil.rmtree(SCRATCH)
