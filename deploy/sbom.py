#!/usr/bin/env python3
"""Says what static programs consist of, as an SBOM: SPDX 2.3 in JSON, on standard output.

    sbom.py NAME VERSION LICENSE PACKAGES PROGRAM...

PACKAGES has a line per library package that was linked: its name, its version, its source package.
libgcc is that of this machine's compiler, as dpkg knows it. The time is
$SOURCE_DATE_EPOCH, and the document's name space comes from the programs' bytes.
"""
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys


def identifier(text):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def machine(path):
    """The architecture of an ELF program."""
    with open(path, "rb") as f:
        return {62: "amd64", 183: "arm64"}[int.from_bytes(f.read(20)[18:20], "little")]


def compiler_packages(arch):
    """What the compiler itself links in, native or for another architecture: (name, version, source)."""
    release = subprocess.run(["gcc", "-dumpversion"], capture_output=True, text=True, check=True).stdout.strip()
    native = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True,
                            check=True).stdout.strip()
    name = "libgcc-%s-dev" % release + ("" if arch == native else "-%s-cross" % arch)
    out = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version} ${source:Package}\n", name],
                         capture_output=True, text=True, check=True).stdout
    return [line.split() for line in out.splitlines()]


def package(name, version, source, arch):
    return {
        "SPDXID": identifier("Package-" + name),
        "name": name,
        "versionInfo": version,
        "supplier": "Organization: Debian",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "sourceInfo": "built from the Debian source package " + source,
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
            "referenceLocator": "pkg:deb/debian/%s@%s?arch=%s" % (name, version.replace("+", "%2B"), arch),
        }],
    }


def main():
    name, version, licence, packages, *programs = sys.argv[1:]
    arch = machine(programs[0])
    with open(packages, encoding="utf-8") as f:
        linked = [line.split() for line in f] + compiler_packages(arch)
    when = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    files = [(os.path.basename(p), digest(p)) for p in programs]
    own = {
        "SPDXID": identifier("Package-rdzv"), "name": "rdzv", "versionInfo": version,
        "supplier": "NOASSERTION", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION", "licenseDeclared": licence, "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "APPLICATION",
    }

    def relation(a, kind, b):
        return {"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}

    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        "documentNamespace": "urn:rdzv:sbom:%s:%s" % (
            name, hashlib.sha256("".join(d for _, d in files).encode()).hexdigest()),
        "creationInfo": {"created": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": ["Tool: rdzv-deploy-sbom-" + version]},
        "packages": [own] + [package(*p, arch) for p in linked],
        "files": [{"SPDXID": identifier("File-" + n), "fileName": "./" + n, "fileTypes": ["BINARY"],
                   "checksums": [{"algorithm": "SHA256", "checksumValue": d}],
                   "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"} for n, d in files],
        "relationships":
            [relation("SPDXRef-DOCUMENT", "DESCRIBES", own["SPDXID"])] +
            [relation(own["SPDXID"], "CONTAINS", identifier("File-" + n)) for n, _ in files] +
            [relation(identifier("File-" + n), "STATIC_LINK", identifier("Package-" + p[0]))
             for n, _ in files for p in linked],
    }
    json.dump(document, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
