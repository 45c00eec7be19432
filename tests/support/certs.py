"""Certificates for tests, made when they run: a CA in a folder of its own, and what it signs, by the
openssl command.

A `Ca` gives (cert, key) pairs of paths: right ones, expired ones, ones of another name; and its CRL.
"""

import os
import subprocess
import tempfile
import threading

SERVER = "DNS:localhost,IP:127.0.0.1"
_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*args, **kwargs):
    ran = subprocess.run(["openssl", *args], capture_output=True, text=True, **kwargs)
    if ran.returncode != 0:
        raise AssertionError("openssl %s: %s" % (" ".join(args), ran.stderr))
    return ran.stdout


class Ca:
    def __init__(self, name="the-ca"):
        self.folder = tempfile.TemporaryDirectory(prefix="rdzv-certs-")
        self.lock = threading.Lock()
        self.count = 0
        self.pem, self.key, self.crl = self.path("ca.pem"), self.path("ca.key"), self.path("ca.crl")
        openssl("req", "-x509", *_KEY, "-keyout", self.key, "-out", self.pem, "-subj", "/CN=" + name,
                "-days", "30", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        self.write("index.txt", "")
        self.write("index.txt.attr", "unique_subject = no\n")
        self.write("number", "1000\n")
        self.config = self.write("ca.cnf", """
[ca]
default_ca = own
[own]
database = %s
serial = %s
new_certs_dir = %s
certificate = %s
private_key = %s
default_md = sha256
default_days = 10
default_crl_days = 10
policy = any
copy_extensions = copy
[any]
commonName = supplied
""" % (self.path("index.txt"), self.path("number"), self.folder.name, self.pem, self.key))

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="ascii") as f:
            f.write(text)
        return self.path(name)

    def issue(self, name="server", san=SERVER, dates=(), kind=_KEY):
        """A certificate and its key. `dates`: (begin, end), as YYYYMMDDHHMMSSZ; `kind`: what `openssl req` makes."""
        with self.lock:
            self.count += 1
            cert, key = self.path("%d.pem" % self.count), self.path("%d.key" % self.count)
            request = self.path("request")
            openssl("req", *kind, "-keyout", key, "-out", request, "-subj", "/CN=" + name,
                    *(("-addext", "subjectAltName=" + san) if san else ()))
            openssl("ca", "-batch", "-notext", "-config", self.config, "-in", request, "-out", cert,
                    *(("-startdate", dates[0], "-enddate", dates[1]) if dates else ()))
        return cert, key

    def expired(self, name="server", san=SERVER):
        return self.issue(name, san, ("20200101000000Z", "20200102000000Z"))

    def early(self, name="server", san=SERVER):
        return self.issue(name, san, ("20900101000000Z", "20900102000000Z"))

    def revoke(self, *pairs):
        """Writes the list of all that are revoked, and returns its path."""
        for cert, _ in pairs:
            openssl("ca", "-config", self.config, "-revoke", cert)
        openssl("ca", "-config", self.config, "-gencrl", "-out", self.crl)
        return self.crl


def self_signed(ca, name="alone"):
    cert, key = ca.path(name + ".pem"), ca.path(name + ".key")
    openssl("req", "-x509", *_KEY, "-keyout", key, "-out", cert, "-subj", "/CN=" + name, "-days", "10",
            "-addext", "subjectAltName=" + SERVER)
    return cert, key
