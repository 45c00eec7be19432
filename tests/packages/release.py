"""What deploy/release.sh makes, each part put to the use that it is for: static programs in an empty root,
the image under its own entry point on two architectures, Debian packages in a clean Debian, the SBOM, the
chart; and everything made twice, in different folders, and compared.

    release.py [--parts PART,...] [--made FOLDER] [--once] [NAME...]     cases with one of these words, or all

--made: what an earlier run made, with --once or not. --once: do not make it a second time. Needs root,
since programs run as the image's user in roots of their own.
"""

import argparse
import contextlib
import functools
import glob
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import urllib.request

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.path.insert(0, os.path.join(HERE, "..", "elastic"))
import cases  # noqa: E402
import clean_debian  # noqa: E402
from c10d import Peer  # noqa: E402
from cases import case, check  # noqa: E402
from servers import ROOT, Rdzvd, free_port  # noqa: E402

ARCHITECTURES = ("amd64", "arm64")
FETCHED_MOST = 2_000_000  # bytes of an image that a registry keeps and a machine fetches
WHEEL_MOST = 6_000_000
IMAGE_MOST = 4_600_000  # bytes of its files, half of them OpenSSL's
IMAGES = ("rdzvd", "rdzv-manifest")
USER = 65532
EMULATOR = "/usr/bin/qemu-aarch64-static"
RDZVD = "/usr/local/bin/rdzvd"
MADE = {}  # folder: of the first run; second: of the second


def run(*argv, code=0, **more):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=3600, **more)
    check(done.returncode == code, "%s: exit %d\n%s%s" % (
        " ".join(argv), done.returncode, done.stdout[-4000:], done.stderr[-4000:]))
    return done.stdout


def made(pattern):
    found = glob.glob(os.path.join(MADE["folder"], pattern))
    check(len(found) == 1, "%s: %s" % (pattern, found))
    return found[0]


def has(pattern):
    return bool(glob.glob(os.path.join(MADE["folder"], pattern)))


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


# ---- all of it


@case
def two_folders_make_the_same_bytes():
    if "second" not in MADE:
        return "made once"
    first, second = (open(os.path.join(MADE[k], "SHA256SUMS"), encoding="ascii").read() for k in ("folder", "second"))
    check(first == second, "%s\n-- and the second time\n%s" % (first, second))
    check(len(first.splitlines()) >= 1, first)


@case
def the_checksums_are_right():
    run("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=MADE["folder"])
    with open(os.path.join(MADE["folder"], "SHA256SUMS"), encoding="ascii") as f:
        named = {line.split()[1] for line in f}
    check(named == set(os.listdir(MADE["folder"])) - {"SHA256SUMS"}, str(named))


@case
def nothing_names_this_machine():
    words = [os.path.realpath(ROOT).encode(), os.path.expanduser("~/.cache").encode()]
    for name in os.listdir(MADE["folder"]):
        path = os.path.join(MADE["folder"], name)
        with open(path, "rb") as f:
            data = f.read()
        if name.endswith("gz"):
            data = gzip.decompress(data)
        for word in words if len(words[0]) > 8 else words[1:]:
            check(word not in data, "%s names %s" % (name, word.decode()))


# ---- static programs


@functools.cache
def static_folder(architecture):
    folder = tempfile.mkdtemp(dir=MADE["scratch"])
    with tarfile.open(made("rdzv-*-linux-%s.tar.gz" % architecture)) as tar:
        tar.extractall(folder)
    return os.path.join(folder, os.listdir(folder)[0])


@case
def programs_are_static():
    if not has("rdzv-*-linux-*.tar.gz"):
        return "not made"
    for architecture in ARCHITECTURES:
        for program in ("rdzvd", "rdzv-manifest"):
            path = os.path.join(static_folder(architecture), program)
            shown = run("readelf", "-dlW", path)
            check("NEEDED" not in shown and "INTERP" not in shown, "%s of %s wants libraries" % (program, architecture))
            check("GNU_RELRO" in shown and "PIE" in shown, "%s of %s is not hardened" % (program, architecture))
        size = os.path.getsize(os.path.join(static_folder(architecture), "rdzvd"))
        print("rdzvd for %s: %d bytes" % (architecture, size))


@case
def the_sbom_says_what_is_in_it():
    if not has("*.spdx.json"):
        return "not made"
    for architecture in ARCHITECTURES:
        with open(made("rdzv-*-linux-%s.spdx.json" % architecture), encoding="utf-8") as f:
            sbom = json.load(f)
        check(sbom["spdxVersion"] == "SPDX-2.3" and sbom["SPDXID"] == "SPDXRef-DOCUMENT", str(sbom)[:200])
        ids = {p["SPDXID"] for p in sbom["packages"]} | {f["SPDXID"] for f in sbom["files"]} | {"SPDXRef-DOCUMENT"}
        check(len(ids) == 1 + len(sbom["packages"]) + len(sbom["files"]), "an id is there twice")
        for r in sbom["relationships"]:
            check(r["spdxElementId"] in ids and r["relatedSpdxElement"] in ids, str(r))
        for f in sbom["files"]:
            with open(os.path.join(static_folder(architecture), f["fileName"]), "rb") as program:
                check(digest(program.read()) == "sha256:" + f["checksums"][0]["checksumValue"], str(f))
        names = " ".join(p["name"] for p in sbom["packages"])
        for library in ("libc6-dev", "libgcc", "libevent", "libnghttp2", "libcjson", "libyaml", "libprotobuf-c", "libssl"):
            check(library in names, "no %s among %s" % (library, names))
        check(all(re.fullmatch(r"[0-9][\w.+:~-]*", p["versionInfo"]) for p in sbom["packages"]), "a version")


@case
def the_static_program_speaks_tls():
    """Its OpenSSL has less in it than Debian's: all cases of TLS, with it."""
    if not has("rdzv-*-linux-*.tar.gz"):
        return "not made"
    with tempfile.TemporaryDirectory(prefix="rdzv-tls-") as folder:
        for architecture in filter(can_run, ARCHITECTURES):
            program = os.path.join(folder, architecture)
            with open(program, "w", encoding="utf-8") as f:
                f.write("#!/bin/sh\nexec %s %s/rdzvd \"$@\"\n" % (
                    "" if is_native(architecture) else EMULATOR, static_folder(architecture)))
            os.chmod(program, 0o755)
            print(architecture, run(sys.executable, os.path.join(ROOT, "tests", "process", "tls.py"),
                                    env=dict(os.environ, RDZVD=program)).splitlines()[-1])


@case
def the_licence_is_that_of_the_build_file():
    with open(os.path.join(ROOT, "meson.build"), encoding="utf-8") as f:
        (licence,) = re.findall(r"(?m)^  license: '([^']+)'", f.read())
    told = {}
    for path in glob.glob(MADE["folder"] + "/*.spdx.json"):
        with open(path, encoding="utf-8") as f:
            told[path] = next(p["licenseDeclared"] for p in json.load(f)["packages"] if p["name"] == "rdzv")
    if has("*.oci.tar"):
        for architecture in ARCHITECTURES:
            for name in IMAGES:
                told[name + " for " + architecture] = described(architecture, name)["org.opencontainers.image.licenses"]
    for path in glob.glob(MADE["folder"] + "/*.deb"):
        if "-dbgsym_" not in path:
            tree = tempfile.mkdtemp(dir=MADE["scratch"])
            run("dpkg-deb", "-x", path, tree)
            (about,) = glob.glob(tree + "/usr/share/doc/*/copyright")
            with open(about, encoding="utf-8") as f:
                (told[path],) = re.findall(r"(?m)^License: (.*)$", f.read())
    for path in glob.glob(MADE["folder"] + "/rdzv-chart-*.tgz"):
        with tarfile.open(path) as tar:
            (told[path],) = re.findall(r'artifacthub.io/license: "(.*)"', tar.extractfile("rdzv/Chart.yaml").read().decode())
    check(told and set(told.values()) == {licence}, "%s, not %s" % (told, licence))


# ---- the image


@functools.cache
def layout(name="rdzvd"):
    folder = tempfile.mkdtemp(dir=MADE["scratch"])
    with tarfile.open(made(name + "-[0-9]*.oci.tar")) as tar:
        tar.extractall(folder)
    return folder


def described(architecture, name="rdzvd"):
    """The labels of the image's manifest."""
    shown = run("skopeo", "--override-arch", architecture, "--override-os", "linux", "inspect",
                "oci:%s:%s" % (layout(name), version()))
    return json.loads(shown)["Labels"]


def version():
    return re.search(r"rdzvd-(.*)\.oci\.tar$", made("rdzvd-*.oci.tar")).group(1)


@functools.cache
def bundle(architecture, name="rdzvd"):
    """The image of one architecture as Debian's own tools take it apart: a root, and how to run it."""
    folder = tempfile.mkdtemp(dir=MADE["scratch"])
    one = os.path.join(folder, "image")
    run("skopeo", "--override-arch", architecture, "--override-os", "linux", "copy", "--quiet",
        "oci:%s:%s" % (layout(name), version()), "oci:%s:one" % one)
    run("umoci", "unpack", "--image", one + ":one", os.path.join(folder, "bundle"))
    with open(os.path.join(folder, "bundle", "config.json"), encoding="utf-8") as f:
        return os.path.join(folder, "bundle", "rootfs"), json.load(f)["process"]


IN_ROOT = """
    root=$1; emulator=$2; user=$3; shift 3
    mount --bind "$root" "$root"
    [ ! -d "$root/var" ] || mount -t tmpfs -o mode=700,uid=%d,gid=%d none "$root/var/lib/rdzvd"
    if [ -n "$emulator" ]; then set -- /.emulator "$@"; fi
    mount -o remount,bind,ro "$root"
    exec chroot --userspec="$user" "$root" "$@"
""" % (USER, USER)


def in_root(architecture, files, name="rdzvd", user="%d:%d" % (USER, USER)):
    """The words before a command that runs it in the image's root, read-only, as the image's user;
    `files` are those that a runtime would put there."""
    root, process = bundle(architecture, name)
    mine = tempfile.mkdtemp(dir=MADE["scratch"])
    shutil.copytree(root, mine, dirs_exist_ok=True)
    for name, text in files.items():
        with open(os.path.join(mine, name), "w", encoding="ascii") as f:
            f.write(text)
    os.chmod(mine, 0o755)
    emulator = ""
    if architecture != run("dpkg", "--print-architecture").strip():
        shutil.copy(EMULATOR, os.path.join(mine, ".emulator"))
        emulator = "yes"
    return ["env", "-i", *process["env"], "/usr/bin/unshare", "--mount", "/bin/sh", "-ec",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin;" + IN_ROOT, "sh", mine, emulator, user]


HOSTS = {"etc/hosts": "127.0.0.1 localhost\n::1 localhost\n"}


@contextlib.contextmanager
def image_runs(architecture, *args, files=None, **more):
    (entry,) = bundle(architecture)[1]["args"]
    with Rdzvd(*args, wrapper=in_root(architecture, files or HOSTS), binary=entry, **more) as daemon:
        yield daemon


def is_native(architecture):
    return architecture == run("dpkg", "--print-architecture").strip()


def can_run(architecture):
    return is_native(architecture) or os.path.exists(EMULATOR)


@case
def the_image_is_what_the_specification_says():
    if not has("*.oci.tar"):
        return "not made"

    def blob(descriptor):
        with open(os.path.join(layout(), "blobs", descriptor["digest"].replace(":", "/")), "rb") as f:
            data = f.read()
        check(len(data) == descriptor["size"] and digest(data) == descriptor["digest"], str(descriptor))
        return data

    with open(os.path.join(layout(), "index.json"), encoding="utf-8") as f:
        (tagged,) = json.load(f)["manifests"]
    images = json.loads(blob(tagged))["manifests"]
    check([i["platform"]["architecture"] for i in images] == list(ARCHITECTURES), str(images))
    for image in images:
        manifest = json.loads(blob(image))
        config = json.loads(blob(manifest["config"]))
        (layer,) = manifest["layers"]
        files = gzip.decompress(blob(layer))
        check(config["rootfs"]["diff_ids"] == [digest(files)], "the layer is another")
        check(config["config"]["User"] == "%d:%d" % (USER, USER), str(config))
        check(config["config"]["Labels"]["org.opencontainers.image.version"] == version(), str(config))
        size = image["size"] + manifest["config"]["size"] + layer["size"]
        entries = list(tarfile.open(fileobj=io.BytesIO(files)))
        unpacked = sum(entry.size for entry in entries)
        print("image for %s: %d bytes to fetch, %d unpacked" % (image["platform"]["architecture"], size, unpacked))
        check(size < FETCHED_MOST and unpacked < IMAGE_MOST, "%d bytes to fetch, %d unpacked" % (size, unpacked))
        for entry in entries:
            check(entry.uid == 0 or entry.name == "var/lib/rdzvd", "the user may change " + entry.name)
            check(entry.mode & 0o6022 == 0, "%s has mode %o" % (entry.name, entry.mode))


@case
def the_image_serves_under_its_own_entry_point():
    if not has("*.oci.tar"):
        return "not made"
    for architecture in ARCHITECTURES:
        if not can_run(architecture):
            return "no %s for %s" % (EMULATOR, architecture)
        with image_runs(architecture, "--data-dir=/var/lib/rdzvd", "--sync=always") as daemon:
            peer = Peer(daemon.port)
            check(peer.add(b"/n", 2) == 2 and peer.add(b"/n", 3) == 5, "c10d")
            with urllib.request.urlopen(daemon.url + "/readyz", timeout=60) as reply:
                check(reply.read() == b"ok\n", "/readyz")
            put = urllib.request.Request(daemon.url + "/v2/keys/a", data=b"value=1", method="PUT")
            with urllib.request.urlopen(put, timeout=60) as reply:
                check(json.load(reply)["node"]["value"] == "1", "etcd's API")
            out = run(*in_root(architecture, HOSTS), RDZVD, "--check-health=localhost:%d/livez" % daemon.port)
            check("answers 200" in out, "as a probe: " + out)
        run(*in_root(architecture, HOSTS), RDZVD, "--check-health=localhost:%d/livez" % daemon.port, code=1)


@case
def the_function_image_rewrites_a_resource_list():
    """As kustomize and kpt run it: the image's entry point, as the user nobody of the image, with the list as input."""
    if not has("*.oci.tar"):
        return "not made"
    folder = os.path.join(ROOT, "deploy", "kustomize")
    with open(os.path.join(folder, "job.yaml"), encoding="utf-8") as f, \
            open(os.path.join(folder, "rdzv.yaml"), encoding="utf-8") as config:
        given = yaml.safe_dump({"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList",
                                "items": list(yaml.safe_load_all(f)), "functionConfig": yaml.safe_load(config)})
    for architecture in ARCHITECTURES:
        if not can_run(architecture):
            return "no %s for %s" % (EMULATOR, architecture)
        root, process = bundle(architecture, "rdzv-manifest")
        with open(os.path.join(root, "etc/passwd"), encoding="ascii") as f:
            check("\nnobody:x:65534:65534:" in f.read(), "no user nobody")
        out = run(*in_root(architecture, {}, "rdzv-manifest", "65534:65534"), *process["args"], input=given)
        got = yaml.safe_load(out)
        kinds = [item["kind"] for item in got["items"]]
        check("StatefulSet" in kinds and "--upstream=train-rdzv:29400" in repr(got["items"]) and got["results"], out)
    return None


@contextlib.contextmanager
def name_server(address, answers):
    """Answers DNS questions for A records at 127.0.0.1:53 of this network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((address, 53))
        asked = []

        def serve():
            while True:
                question, peer = s.recvfrom(512)
                if question == b"end":
                    return
                end, names = 12, []
                while question[end]:
                    names.append(question[end + 1:end + 1 + question[end]].decode())
                    end += question[end] + 1
                name, (kind,) = ".".join(names), struct.unpack(">H", question[end + 1:end + 3])
                asked.append(name)
                found = kind == 1 and name in answers
                record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton(answers[name]) if found else b""
                s.sendto(question[:2] + struct.pack(">HHHHH", 0x8180, 1, found, 0, 0) + question[12:end + 5] + record, peer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield asked
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
                end.sendto(b"end", (address, 53))
            thread.join()


@case
def names_are_found_in_an_empty_root():
    """By /etc/hosts and by DNS, with nothing of glibc's plug-ins there."""
    if not has("*.oci.tar"):
        return "not made"
    if "RDZV_OWN_NETWORK" not in os.environ:
        run("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable,
            os.path.abspath(__file__), "--made", MADE["folder"], "names_are_found",
            env=dict(os.environ, RDZV_OWN_NETWORK="yes"))
        return None
    files = dict(HOSTS, **{"etc/resolv.conf": "nameserver 127.0.0.1\n"})
    files["etc/hosts"] += "127.0.0.1 by-file.example\n"
    for architecture in filter(can_run, ARCHITECTURES):
        with name_server("127.0.0.1", {"by-dns.example": "127.0.0.1"}) as asked:
            with image_runs(architecture) as store:
                for name in ("by-file.example", "by-dns.example"):
                    with image_runs(architecture, "--upstream=%s:%d" % (name, store.port), "--space=default",
                                    files=files) as relay:
                        check(Peer(relay.port).add(b"/" + name.encode(), 1) == 1, name)
            check(set(asked) == {"by-dns.example"}, str(asked))
    return None


# ---- Debian packages


@functools.cache
def debian():
    """A copy of the clean Debian."""
    tree = os.path.join(MADE["scratch"], "debian")
    run("cp", "-a", "--reflink=auto", clean_debian.tree(), tree)
    return tree


def in_debian(*argv, code=0):
    return run("chroot", debian(), "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8",
               "DEBIAN_FRONTEND=noninteractive", *argv, code=code)


@case
def lintian_finds_nothing():
    if not has("*.deb"):
        return "not made"
    out = run("lintian", "--fail-on=error,warning", "--tag-display-limit=0", *glob.glob(MADE["folder"] + "/*.deb"))
    check(not re.search(r"^[EW]:", out, re.M), out)


@case
def packages_install_run_and_go():
    if not has("*.deb"):
        return "not made"
    tree = debian()
    packages = [os.path.basename(p) for p in glob.glob(MADE["folder"] + "/*.deb") if "-dbgsym_" not in p]
    check(sorted(p.split("_")[0] for p in packages) == ["librdzv-dev", "librdzv0", "rdzv", "rdzvctl"], str(packages))
    before = in_debian("sh", "-c", "find / -xdev -path /var/lib/dpkg -prune -o -path /var/cache -prune -o "
                                   "-path /var/log -prune -o -print | sort")
    os.makedirs(tree + "/packages")
    for package in packages:
        shutil.copy(os.path.join(MADE["folder"], package), tree + "/packages")
    in_debian("sh", "-c", "dpkg --install /packages/*.deb")
    for page in ("rdzvd.8", "rdzvctl.1", "rdzv-manifest.1", "rdzvd.yaml.5"):
        check(os.path.exists("%s/usr/share/man/man%s/%s.gz" % (tree, page[-1], page)), page)
    check(in_debian("systemctl", "is-enabled", "rdzvd.service").strip() == "enabled", "the service")
    check(in_debian("systemctl", "is-enabled", "rdzvd.socket", code=1).strip() == "disabled", "the socket")
    runs_by_its_unit(tree)
    names = [p.split("_")[0] for p in packages]
    in_debian("dpkg", "--purge", *names)
    shutil.rmtree(tree + "/packages")
    after = in_debian("sh", "-c", "find / -xdev -path /var/lib/dpkg -prune -o -path /var/cache -prune -o "
                                  "-path /var/log -prune -o -print | sort")
    left = sorted(set(after.splitlines()) - set(before.splitlines()))
    check(not left, "left behind: %s" % left)


def runs_by_its_unit(tree):
    """The command of the installed unit, on a port that is free here, as a user without rights."""
    with open(tree + "/usr/lib/systemd/system/rdzvd.service" if os.path.exists(
            tree + "/usr/lib/systemd/system/rdzvd.service") else tree + "/lib/systemd/system/rdzvd.service",
            encoding="utf-8") as f:
        (command,) = re.findall(r"^ExecStart=(.*)$", f.read(), re.M)
    check(command == "/usr/bin/rdzvd --config=/etc/rdzvd.yaml", command)
    port = free_port()
    settings = tree + "/etc/rdzvd.yaml"
    with open(settings, encoding="utf-8") as f:
        text = f.read()
    with open(settings, "w", encoding="utf-8") as f:
        f.write(text.replace("localhost:29400", "localhost:%d" % port))
    for folder in ("/var/lib/rdzvd", "/run/rdzvd"):  # as StateDirectory= and RuntimeDirectory= do
        os.makedirs(tree + folder, 0o700)
        os.chown(tree + folder, USER, USER)
    with Rdzvd(command.split()[1], listen=(), binary="/usr/bin/rdzvd",
               wrapper=["chroot", "--userspec=%d:%d" % (USER, USER), tree]):
        check(Peer(port).add(b"/n", 1) == 1, "c10d")
        out = in_debian("rdzvctl", "-s", "127.0.0.1:%d" % port, "preflight", "-o", "json")
        check(json.loads(out), out)
        check("default" in in_debian("rdzvctl", "-s", "unix:/run/rdzvd/rdzvd.sock", "spaces"), "for operators")
    shutil.rmtree(tree + "/run/rdzvd")


# ---- the wheel


@case
def a_wheel_for_each_machine_installs():
    if not has("rdzvd-*.whl"):
        return "not made"
    check(os.path.getsize(made("rdzvd-*aarch64.whl")) <= WHEEL_MOST, "the wheel for arm64 is too large")
    run(sys.executable, os.path.join(HERE, "wheel.py"), env=dict(os.environ, RDZV_WHEEL=made("rdzvd-*x86_64.whl")))
    return None


# ---- the chart, and the sources


@case
def the_chart_is_whole():
    if not has("rdzv-chart-*.tgz"):
        return "not made"
    with tarfile.open(made("rdzv-chart-*.tgz")) as tar:
        names = set(tar.getnames())
    check({"rdzv/Chart.yaml", "rdzv/values.yaml", "rdzv/values.schema.json", "rdzv/templates/NOTES.txt"} <= names,
          str(names))


@case
def the_sources_are_those_of_the_checkout():
    if not has("rdzv-[0-9].[0-9].[0-9].tar.gz"):
        return "not made"
    with tarfile.open(made("rdzv-[0-9].[0-9].[0-9].tar.gz")) as tar:
        for name in ("README.md", "meson.build", "deploy/release.sh"):
            (prefix,) = {n.split("/")[0] for n in tar.getnames()}
            with open(os.path.join(ROOT, name), "rb") as f:
                check(tar.extractfile("%s/%s" % (prefix, name)).read() == f.read(), name)


def make(tree, folder, parts):
    # These tests must not depend on a mirror that has all sources already.
    run(os.path.join(tree, "deploy", "release.sh"), folder, *parts, env=dict(os.environ, RDZV_OLDER_SOURCES="yes"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="")
    parser.add_argument("--made")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("names", nargs="*")
    o = parser.parse_args()
    if os.getuid() != 0:
        print("skip: this needs root\n0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="rdzv-release-") as scratch:
        MADE.update(scratch=scratch, folder=o.made or os.path.join(scratch, "first"))
        parts = [p for p in o.parts.split(",") if p]
        if not o.made:
            make(ROOT, MADE["folder"], parts)
        if not o.once and not o.made:
            # Elsewhere, deeper, and with the time that the first run took from the checkout.
            tree = os.path.join(scratch, "a", "longer", "path", "of", "sources")
            os.makedirs(tree)
            run(os.path.join(ROOT, "deploy", "source.sh"), tree)
            os.environ.setdefault("SOURCE_DATE_EPOCH", epoch())
            MADE["second"] = os.path.join(scratch, "second")
            make(tree, MADE["second"], parts)
        sys.argv = [sys.argv[0], *o.names]
        return cases.run(os.path.join("tests", "packages", "release.py"))


def epoch():
    """What release.sh takes for $SOURCE_DATE_EPOCH in a checkout."""
    if not os.path.exists(os.path.join(ROOT, ".git")):
        return run("bash", "-c", "date --date=\"$(sed -nE 's/^ -- .*>  //p' \"$1\" | head -n 1)\" +%s", "bash",
                   os.path.join(ROOT, "deploy", "debian", "changelog")).strip()
    return run("git", "-C", ROOT, "-c", "safe.directory=" + ROOT, "log", "-1", "--format=%ct").strip()


if __name__ == "__main__":
    sys.exit(main())
