"""The findings of testssl.sh at a listener with TLS: only findings that a test's certificate cannot avoid. Its checks
are of protocols, ciphers, curves, renegotiation and known attacks.

    tls_scan.py [NAME...]     all cases, or the cases whose name contains a NAME

It takes minutes, and is skipped where testssl.sh is not installed (support/install.sh scan).
"""

import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support")]
import cases  # noqa: E402
import certs  # noqa: E402
from cases import case, check  # noqa: E402
from servers import Rdzvd  # noqa: E402

BAD = ("MEDIUM", "HIGH", "CRITICAL", "FATAL")

# Findings about the test's certificate, which expires after 10 days and whose CA publishes no revocations.
OF_THE_TEST = {"cert_expirationStatus", "cert_notAfter", "cert_revocation"}

# Looked at in any case: else a scan that stops early would find nothing.
WANTED = {"SSLv2": "not offered", "SSLv3": "not offered", "TLS1": "not offered", "TLS1_1": "not offered",
          "TLS1_2": "offered", "TLS1_3": "offered", "heartbleed": "not vulnerable", "CRIME_TLS": "not vulnerable",
          "SWEET32": "not vulnerable", "RC4": "not vulnerable", "LUCKY13": "not vulnerable"}

CA = certs.Ca()


def scan(daemon):
    """Its findings, by their names."""
    path = CA.path("scan-%d.json" % daemon.port)
    argv = ["testssl", "--quiet", "--color", "0", "--warnings", "batch", "--ip", "one", "--nodns", "min",
            "--add-ca", CA.pem, "--protocols", "--std", "--fs", "--server-preference", "--server-defaults",
            "--vulnerable", "--jsonfile", path, "localhost:%d" % daemon.port]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=1800, check=False)
    check(os.path.exists(path), "testssl.sh has written nothing:\n%s%s" % (ran.stdout[-2000:], ran.stderr[-2000:]))
    with open(path, encoding="utf-8") as f:
        return {found["id"]: found for found in json.load(f)}


def finds_nothing(wanted, *flags):
    if shutil.which("testssl") is None:
        return "there is no testssl.sh"
    cert, key = CA.issue()
    with Rdzvd("--cert=" + cert, "--key=" + key, *flags) as daemon:
        found = scan(daemon)
        for name, says in wanted.items():
            check(name in found and found[name]["finding"].startswith(says),
                  "%s: %r, not %r" % (name, found.get(name, {}).get("finding"), says))
        bad = ["%(severity)s %(id)s: %(finding)s" % f for f in found.values()
               if f["severity"] in BAD and f["id"] not in OF_THE_TEST]
        check(not bad, "testssl.sh finds:\n" + "\n".join(bad))
    return None


@case
def a_listener():
    return finds_nothing(dict(WANTED, secure_client_renego="not vulnerable"))


@case
def a_listener_that_wants_certificates():
    return finds_nothing(WANTED, "--client-ca=" + CA.pem)


if __name__ == "__main__":
    sys.exit(cases.run(os.path.relpath(__file__)))
