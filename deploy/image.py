#!/usr/bin/env python3
"""Writes an OCI image of rdzvd, or of rdzv-manifest as a KRM function, from nothing but the static program, for one or more
architectures:

    image.py LAYOUT VERSION LICENSE ARCHITECTURE=PROGRAM...     LAYOUT is made, an OCI image layout

The name of the file PROGRAM decides which of the two images it is.
The index of LAYOUT has one tag, VERSION, an index of an image per architecture. The same programs
give the same bytes: times are $SOURCE_DATE_EPOCH, else 0, and files have an order. `skopeo copy
--all oci:LAYOUT:VERSION docker://REGISTRY/rdzvd:VERSION` publishes it.
"""
import datetime
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile

USER = 65532
PASSWD = "root:x:0:0:root:/:\nnobody:x:65534:65534:nobody:/:\n"  # kustomize and kpt run functions as nobody
GROUP = "root:x:0:\nnogroup:x:65534:\n"
TIME = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
CREATED = datetime.datetime.fromtimestamp(TIME, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


DESCRIPTIONS = {
    "rdzvd": "A rendezvous store for distributed PyTorch: torch's TCPStore and etcd's v2 API on one port",
    "rdzv-manifest": "A KRM function that moves PyTorch jobs in Kubernetes manifests to rdzvd",
}


def labels(name, version, licence):
    return {
        "org.opencontainers.image.title": name,
        "org.opencontainers.image.description": DESCRIPTIONS[name],
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": licence,
        "org.opencontainers.image.created": CREATED,
    }


def layer(name, program):
    """The whole file system: the program and users; for rdzvd also a folder for --data-dir."""
    with open(program, "rb") as f:
        binary = f.read()
    group, passwd = GROUP + "rdzvd:x:%d:\n" % USER, PASSWD + "rdzvd:x:%d:%d:rdzvd:/var/lib/rdzvd:\n" % (USER, USER)
    entries = [  # name, mode, owner, bytes; None: a folder
        ("etc", 0o755, 0, None),
        ("etc/group", 0o644, 0, group.encode()),
        ("etc/passwd", 0o644, 0, passwd.encode()),
        ("usr", 0o755, 0, None),
        ("usr/local", 0o755, 0, None),
        ("usr/local/bin", 0o755, 0, None),
        ("usr/local/bin/" + name, 0o755, 0, binary),
    ]
    if name == "rdzvd":
        entries += [("var", 0o755, 0, None), ("var/lib", 0o755, 0, None), ("var/lib/rdzvd", 0o700, USER, None)]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, mode, owner, data in entries:
            info = tarfile.TarInfo(path)
            info.mode, info.uid, info.gid, info.mtime = mode, owner, owner, TIME
            info.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
            info.size = len(data or b"")
            tar.addfile(info, io.BytesIO(data or b""))
    return out.getvalue()


def compress(data):
    """As gzip, which every runtime reads, and 4 % smaller than gzip makes it."""
    with tempfile.NamedTemporaryFile() as f:
        f.write(data)
        f.flush()
        return subprocess.run(["zopfli", "--gzip", "--i5", "-c", f.name], stdout=subprocess.PIPE, check=True).stdout


class Layout:
    def __init__(self, folder):
        self.blobs = os.path.join(folder, "blobs", "sha256")
        os.makedirs(self.blobs)
        with open(os.path.join(folder, "oci-layout"), "w", encoding="ascii") as f:
            json.dump({"imageLayoutVersion": "1.0.0"}, f)
        self.folder = folder

    def add(self, kind, data, **more):
        """Its descriptor."""
        digest = hashlib.sha256(data).hexdigest()
        with open(os.path.join(self.blobs, digest), "wb") as f:
            f.write(data)
        return {"mediaType": kind, "digest": "sha256:" + digest, "size": len(data), **more}

    def add_json(self, kind, value, **more):
        return self.add(kind, json.dumps(value, sort_keys=True, separators=(",", ":")).encode(), **more)

    def finish(self, descriptor):
        with open(os.path.join(self.folder, "index.json"), "w", encoding="ascii") as f:
            json.dump({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor]}, f, sort_keys=True)


def run_config(name, described):
    """What a runtime does with the image."""
    config = {"User": "%d:%d" % (USER, USER), "Env": ["PATH=/usr/local/bin"], "Labels": described}
    if name == "rdzvd":
        return dict(config, Entrypoint=["/usr/local/bin/rdzvd"], ExposedPorts={"29400/tcp": {}, "2379/tcp": {}},
                    WorkingDir="/var/lib/rdzvd")
    return dict(config, Entrypoint=["/usr/local/bin/rdzv-manifest", "rewrite"], WorkingDir="/")


def add_image(layout, described, architecture, program):
    name = os.path.basename(program)
    files = layer(name, program)
    config = {
        "architecture": architecture, "os": "linux", "created": CREATED,
        "config": run_config(name, described),
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(files).hexdigest()]},
        "history": [{"created": CREATED, "created_by": "deploy/image.py"}],
    }
    manifest = {
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": layout.add_json(CONFIG, config),
        "layers": [layout.add(LAYER, compress(files))],
        "annotations": described,
    }
    return layout.add_json(MANIFEST, manifest, platform={"architecture": architecture, "os": "linux"})


def main():
    if len(sys.argv) < 5 or not all("=" in word for word in sys.argv[4:]):
        sys.exit(__doc__.strip())
    folder, version, licence = sys.argv[1:4]
    layout, described = Layout(folder), labels(os.path.basename(sys.argv[4]), version, licence)
    images = [add_image(layout, described, *word.split("=", 1)) for word in sys.argv[4:]]
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": images, "annotations": described}
    layout.finish(layout.add_json(INDEX, index, annotations={"org.opencontainers.image.ref.name": version}))


if __name__ == "__main__":
    main()
