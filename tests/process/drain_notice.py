"""deploy/drain/notice.sh against a metadata server of its own, whose answers are those that the clouds document.

Each cloud says nothing at first, and then that the machine goes. The script must call rdzvctl once, with the node.
"""

import http.server
import os
import subprocess
import sys
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "deploy", "drain", "notice.sh")

# Path -> answers, of which the last one is repeated; None: 404. Header that the cloud wants.
CLOUDS = {
    "ec2": ({"/latest/api/token": ["TOKEN"],
             "/latest/meta-data/spot/instance-action":
                 [None, '{"action": "terminate", "time": "2026-09-18T08:22:00Z"}']},
            ("X-aws-ec2-metadata-token", "TOKEN"), "110s"),
    "gce": ({"/computeMetadata/v1/instance/preempted": ["FALSE", "FALSE", "TRUE"],
             "/computeMetadata/v1/instance/maintenance-event": ["NONE"]},
            ("Metadata-Flavor", "Google"), "25s"),
    "azure": ({"/metadata/scheduledevents?api-version=2020-07-01":
               ['{"DocumentIncarnation":1,"Events":[]}',
                '{"DocumentIncarnation":2,"Events":[{"EventId":"1","EventType":"Freeze","ResourceType":"VirtualMachine"}]}',
                '{"DocumentIncarnation":3,"Events":[{"EventId":"2","EventType":"Preempt","Resources":["vm-1"]}]}']},
              ("Metadata", "true"), "25s"),
}


class Metadata(http.server.BaseHTTPRequestHandler):
    def answer(self):
        answers, (name, value), _ = CLOUDS[self.server.cloud]
        texts = answers.get(self.path)
        if texts is None or (self.path != "/latest/api/token" and self.headers.get(name) != value):
            self.send_error(401)
            return
        asked = self.server.asked
        asked[self.path] = asked.get(self.path, 0) + 1
        text = texts[min(asked[self.path], len(texts)) - 1]
        if text is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_PUT = answer

    def log_message(self, *_):
        pass


def check(cloud, folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    server.cloud, server.asked = cloud, {}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    env = dict(os.environ, PATH=folder + os.pathsep + os.environ["PATH"], NODE="node-7", EVERY="0.01",
               METADATA="http://127.0.0.1:%d" % server.server_port)
    done = subprocess.run([SCRIPT, cloud, "-s", "store:29400"], env=env, capture_output=True, text=True, timeout=60)
    server.shutdown()
    wanted = "-s store:29400 drain node-7 --in=%s --until=gone --reason=notice of %s\n" % (CLOUDS[cloud][2], cloud)
    most = max(len(texts) for texts in CLOUDS[cloud][0].values())
    if done.returncode != 0 or done.stdout != wanted or max(server.asked.values()) < most:
        raise AssertionError("%s: exit %d, %r, not %r, after %s\n%s" % (
            cloud, done.returncode, done.stdout, wanted, server.asked, done.stderr))


def main():
    with tempfile.TemporaryDirectory() as folder:
        fake = os.path.join(folder, "rdzvctl")
        with open(fake, "w") as f:
            f.write('#!/bin/sh\necho "$*"\n')
        os.chmod(fake, 0o755)
        for cloud in CLOUDS:
            check(cloud, folder)
        wrong = subprocess.run([SCRIPT, "moon"], capture_output=True, text=True, timeout=60)
        if wrong.returncode != 2 or "there are ec2, gce and azure" not in wrong.stderr:
            raise AssertionError("an unknown cloud: exit %d, %s" % (wrong.returncode, wrong.stderr))
    print("%d passed, 0 failed" % (len(CLOUDS) + 1))


if __name__ == "__main__":
    sys.exit(main())
