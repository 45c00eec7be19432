"""The Secrets of a manifest, as cert-manager and whoever wrote it would make them: each Certificate is issued by
the CA of the test, and files are laid out as a kubelet mounts them."""

import os
import shutil

import certs


class Secrets:
    def __init__(self, documents):
        self.ca = certs.Ca("internal-ca")
        self.made = {}
        for doc in documents:
            if doc["kind"] == "Certificate":
                spec = doc["spec"]
                names = ["DNS:" + n for n in spec.get("dnsNames") or []] + ["URI:" + u for u in spec.get("uris") or []]
                self.issue(doc["metadata"].get("namespace"), spec["secretName"], ",".join(names))

    def issue(self, namespace, name, san):
        """A Secret of type kubernetes.io/tls, with the CA beside."""
        cert, key = self.ca.issue(name, san)
        self.made[namespace, name] = {"tls.crt": cert, "tls.key": key, "ca.crt": self.ca.pem}

    def mount(self, folder, namespace, source):
        """The files of a volume's `secret`. A missing Secret leaves its pod waiting: KeyError."""
        files = self.made[namespace, source["secretName"]]
        items = source.get("items") or [{"key": key, "path": key} for key in files]
        for item in items:
            path = os.path.join(folder, item["path"])
            shutil.copy(files[item["key"]], path)
            os.chmod(path, 0o644)  # as a kubelet's defaultMode has it
