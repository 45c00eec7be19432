"""Makes the wheel `rdzvd` from the programs under test, and environments with it. Python's standard library only."""

import glob
import os
import shutil
import subprocess
import sys

from servers import ROOT, rdzvd_binary


def check_output(*argv, code=0, timeout=600, **more):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, **more)
    if done.returncode != code:
        raise AssertionError("%s: exit %d\n%s" % (" ".join(argv), done.returncode, done.stdout[-4000:]))
    return done.stdout


def tools_folder():
    """Where `tests/support/install.sh wheel` has put programs and packages."""
    return os.path.join(os.environ.get("RDZV_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "rdzv"), "wheel-tools")


def tool(name):
    """A program that is on PATH, or one of tools_folder(); None if there is none."""
    return shutil.which(name) or shutil.which(name, path=os.path.join(tools_folder(), "bin"))


def version():
    with open(os.path.join(ROOT, "meson.build"), encoding="utf-8") as f:
        return next(line.split("'")[1] for line in f if line.startswith("  version:"))


def build_static(folder):
    """Programs of this checkout that need no library, for this machine; the libraries in them are compiled once."""
    architecture = check_output("dpkg", "--print-architecture").strip()
    # A test must not depend on a mirror that has all sources already.
    check_output(os.path.join(ROOT, "deploy", "static.sh"), architecture, folder, timeout=3600,
                 env=dict(os.environ, RDZV_OLDER_SOURCES="yes"))


def make_wheel(folder, static=False):
    """The path of the wheel: $RDZV_WHEEL, which deploy/release.sh has made; else a new wheel, in `folder`, of the
    programs in the build of rdzvd_binary(), or of build_static()."""
    if os.environ.get("RDZV_WHEEL"):
        return os.environ["RDZV_WHEEL"]
    build = os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary())))
    programs = os.path.join(folder, "programs")
    if static:
        build_static(programs)
    else:
        os.makedirs(programs, exist_ok=True)
        for name in ("rdzv/rdzvd", "client/rdzvctl", "deploy/rdzv-manifest", "tests/bench/rdzv-bench"):
            shutil.copy(os.path.join(build, name), programs)
        check_output("strip", *glob.glob(programs + "/*"))
    licence = check_output(os.path.join(ROOT, "deploy", "license.sh")).strip()
    sbom = os.path.join(folder, "sbom.json")
    with open(sbom, "w", encoding="utf-8") as f:
        subprocess.run([os.path.join(ROOT, "deploy", "sbom.py"), "rdzvd", version(), licence, os.devnull,
                        os.path.join(programs, "rdzvd")], stdout=f, check=True)
    return check_output(sys.executable, os.path.join(ROOT, "deploy", "wheel.py"), folder, version(), licence, programs,
                        sbom).strip()


def make_environment(folder, python=sys.executable, wheel=None):
    """A new environment with pip; returns its Python."""
    check_output(python, "-m", "venv", folder)
    inside = os.path.join(folder, "bin", "python")
    if wheel:
        check_output(inside, "-m", "pip", "install", "--no-index", "--quiet", wheel)
    return inside
