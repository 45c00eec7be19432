#!/usr/bin/env python3
"""Writes the wheel `rdzvd`, which brings the programs to every Python environment:

    wheel.py FOLDER VERSION LICENSE PROGRAMS SBOM     PROGRAMS: a folder with the programs that are listed below

The wheel has the programs as scripts, which installers put on PATH, and the Python files of client/python/rdzvd. Its
name says where it runs: programs without shared libraries run with each libc (manylinux and musllinux); other programs
run only on a machine like this one (linux), which tests use. The same programs give the same bytes: the time of each
file is $SOURCE_DATE_EPOCH, and the files have an order.
"""
import base64
import hashlib
import os
import struct
import sys
import time
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = os.path.join(ROOT, "client", "python")
PROGRAMS = ("rdzvd", "rdzvctl", "rdzv-manifest", "rdzv-bench")
MACHINES = {62: "x86_64", 183: "aarch64"}
PT_INTERP = 3
METADATA = """\
Metadata-Version: 2.1
Name: rdzvd
Version: %s
Summary: A rendezvous store for distributed PyTorch that outlives its pods, with a rendezvous backend for torchrun
Keywords: pytorch,torchrun,rendezvous,tcpstore,etcd
%sRequires-Python: >=3.8
Classifier: Environment :: Console
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3 :: Only
Classifier: Topic :: System :: Distributed Computing
Description-Content-Type: text/markdown

"""
ENTRY_POINTS = """\
[console_scripts]
kubectl-rdzv = rdzvd.kubectl:main

[torchrun.handlers]
rdzvd = rdzvd.backend:get_handler
"""


def read(path):
    with open(path, "rb") as f:
        return f.read()


def tag_of(program):
    """The tags of a 64-bit ELF program, by its machine and by whether it names a loader of shared libraries."""
    machine = MACHINES[struct.unpack_from("<H", program, 18)[0]]
    table, = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    if any(struct.unpack_from("<I", program, table + i * size)[0] == PT_INTERP for i in range(count)):
        return ["py3-none-linux_" + machine]
    return ["py3-none-%s_%s" % (libc, machine) for libc in ("manylinux_2_17", "manylinux2014", "musllinux_1_1")]


def license_lines(licence):
    if licence == "NONE":
        return "License: none has been chosen; only the authors may distribute this\n"
    return "License: %s\n" % licence


def list_files(version, licence, programs, sbom):
    """Yields name, mode and bytes of each file, except RECORD."""
    info = "rdzvd-%s.dist-info/" % version
    package = os.path.join(PYTHON, "rdzvd")
    for name in sorted(os.listdir(package)):
        if name.endswith(".py"):
            yield "rdzvd/" + name, 0o644, read(os.path.join(package, name))
    for name in PROGRAMS:
        yield "rdzvd-%s.data/scripts/%s" % (version, name), 0o755, programs[name]
    metadata = METADATA % (version, license_lines(licence))
    tags = "".join("Tag: %s\n" % tag for tag in tag_of(programs["rdzvd"]))
    yield info + "METADATA", 0o644, metadata.encode() + read(os.path.join(PYTHON, "README.md"))
    yield info + "WHEEL", 0o644, ("Wheel-Version: 1.0\nGenerator: rdzv (%s)\nRoot-Is-Purelib: false\n%s" % (
        version, tags)).encode()
    yield info + "entry_points.txt", 0o644, ENTRY_POINTS.encode()
    if licence != "NONE":
        yield info + "licenses/LICENSE", 0o644, read(os.path.join(ROOT, "LICENSE"))
    yield info + "sboms/rdzvd.spdx.json", 0o644, read(sbom)


def main():
    folder, version, licence, source, sbom = sys.argv[1:]
    programs = {name: read(os.path.join(source, name)) for name in PROGRAMS}
    tags = tag_of(programs["rdzvd"])
    platforms = ".".join(tag.split("-")[2] for tag in tags)
    path = os.path.join(folder, "rdzvd-%s-py3-none-%s.whl" % (version, platforms))
    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6]  # zip begins in 1980
    record_name, record = "rdzvd-%s.dist-info/RECORD" % version, ""

    with zipfile.ZipFile(path, "w") as wheel:
        def add(name, mode, data):
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100000 | mode) << 16
            entry.create_system = 3  # Unix, so that installers see the mode
            wheel.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)

        for name, mode, data in list_files(version, licence, programs, sbom):
            add(name, mode, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += "%s,sha256=%s,%d\n" % (name, digest, len(data))
        add(record_name, 0o644, (record + record_name + ",,\n").encode())
    print(path)


if __name__ == "__main__":
    main()
