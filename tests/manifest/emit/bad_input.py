"""Wrong files and arguments: each error has its place and a remedy; exit code 2, no output."""

import os
import re
import tempfile

import tool

GOOD = "jobName: a\ncontainerImage: b\n"

# Text behind GOOD (or with None first: instead of it), line:column, and a part of the error message.
CASES = [
    ("numPod: 4", "3:1", "numPod: did you mean numPods?"),
    ("numpods: 4", "3:1", "numpods: did you mean numPods?"),
    ("platfrom: volcano", "3:1", "did you mean platform?"),
    ("zzz: 4", "3:1", "there is no such setting"),
    ("nodes: {mn: 2}", "3:9", "mn: did you mean min?"),
    ("rdzv: {placemnt: service}", "3:8", "did you mean placement?"),
    ("numPods: 0", "3:10", "too small"),
    ("numPods: -3", "3:10", "too small"),
    ("numPods: 1000000", "3:10", "too large"),
    ("numPods: 99999999999999999999", "3:10", "is not a whole number"),
    ("numPods: four", "3:10", "is not a whole number"),
    ("numPods: 1.5", "3:10", "is not a whole number"),
    ("numPods: '4'", "3:10", "is not a whole number"),
    ("numPods: [4]", "3:10", "a list is not a whole number"),
    ("numPods: {a: 4}", "3:10", "a mapping is not a whole number"),
    ("hostNetwork: maybe", "3:14", "is not true or false"),
    ("hostNetwork: 'true'", "3:14", "is not true or false"),
    ("imagePullPolicy: Sometimes", "3:18", "write Always, IfNotPresent or Never"),
    ("restartPolicy: never", "3:16", "write Always, OnFailure or Never"),
    ("totalMemoryPerPod: 64GB", "3:20", "is not a quantity"),
    ("numCpusPerPod: -1", "3:16", "is not a quantity"),
    ("numCpusPerPod: ''", "3:16", "is not a quantity"),
    ("resources: {limits: {memory: lots}}", "3:30", "resources.limits.memory"),
    ("resources: {limits: {'a b': 1}}", "3:22", "is not the name of a label"),
    ("environmentVariables: {A: b}", "3:23", "a mapping is not a list"),
    ("environmentVariables:\n- name: A", "4:3", "A has no value"),
    ("environmentVariables:\n- name: 1A\n  value: x", "4:9", "is not the name of a variable"),
    ("environmentVariables:\n- value: x", "4:3", "environmentVariables[0].name is missing"),
    ("environmentVariables:\n- {name: A, value: x, secret: {name: s, key: k}}", "4:3", "more than one"),
    ("environmentVariables:\n- {name: A, secret: {name: s}}", "4:21", "secret.key is missing"),
    ("environmentVariables:\n-", "4:2", "is empty"),
    ("environmentVariables: [{name: A, value: 1}, {name: A, value: 2}]", "3:52", "A occurs twice"),
    ("environmentVariables: [{name: PET_RDZV_ID, value: x}]", "3:24", "itself: remove it here"),
    ("topologyFileConfigMap: t\nenvironmentVariables: [{name: NCCL_TOPO_FILE, value: x}]", "4:24",
     "itself: remove it here"),
    ("volumes: [{name: a}]", "3:11", "has no source"),
    ("volumes: [{name: a, claimName: b, hostPath: /c}]", "3:11", "more than one"),
    ("volumes: [{name: a, hostPath: c}]", "3:31", "is not an absolute path"),
    ("volumes: [{name: dshm, claimName: b}]", "3:18", "the job already has a volume"),
    ("volumes: [{name: a, claimName: b}, {name: a, claimName: c}]", "3:43", "a occurs twice"),
    ("addCapabilities: [CAP_SYS_ADMIN]", "3:19", "without CAP_"),
    ("rdzv: {placement: service, topologyLabel: a/b}", "3:43", "only relays tell"),
    ("rdzv: {placement: relay, drainSeconds: 60}", "3:40", "rdzv.adminToken is missing"),
    ("rdzv: {placement: sidecar, drainSeconds: 60, adminToken: {name: s, key: t}}", "3:42", "has no operators"),
    ("rdzv: {placement: relay, protocol: etcd-v2, drainSeconds: 60, adminToken: {name: s, key: t}}", "3:59",
     "over c10d obey"),
    ("platform: job\nnumPods: 2\nrdzv: {placement: relay, restart: in-place, drainSeconds: 9, adminToken: {name: s, key: t}}",
     "5:59", "remove one of the two"),
    ("rdzv: {placement: relay, drainSeconds: 60, adminToken: {name: s, key: t}}\nterminationGracePeriodSeconds: 60",
     "4:32", "write more than rdzv.drainSeconds"),
    ("nodes: {min: 4, max: 2}", "3:14", "more than nodes.max"),
    ("numPods: 2\nnodes: {min: 1, max: 2}", "3:10", "remove one of them"),
    ("numRoceGdr: 2", "3:13", "no other pod to talk to"),
    ("mainProgram: python train.py", "3:14", "remove python in front"),
    ("mainProgram: t.py && cp -r /out /pvc/", "3:14", "what follows && would never run: write"),
    ("mainProgram: t.py || true", "3:14", "what follows || would"),
    ("mainProgram: t.py; sync", "3:14", "what follows ; would"),
    ("mainProgram: t.py $(nproc; true) & sync", "3:14", "what follows & would"),
    ("mainProgram: t.py &>log", "3:14", "what follows & would"),
    ("mainProgram: t.py 2>&1 | tee log", "3:14", "the exit code of what follows the |"),
    ("setupCommands: [cd /w]\nmainProgram: |\n  t.py\n  --lr 0.1", "4:14", "the second line would never run: write mainProgram: >-"),
    ("mainProgram: t.py 'a", "3:14", "' does not end: close it, or write \\' for the character itself"),
    ("mainProgram: t.py it's && sync", "3:14", "' does not end"),
    ("mainProgram: t.py $(nproc", "3:14", "$( does not end"),
    ("mainProgram: t.py \"a${B", "3:14", "\" does not end"),
    ("mainProgram: t.py `nproc", "3:14", "` does not end"),
    ("setupCommands: [cd /w]\nmainProgram: t.py \"a", "4:14", "does not end"),
    ("setupCommands: [cd /w, \"echo it's\"]\nmainProgram: t.py", "3:16", "' does not end, and what follows would belong to it: close it, or write \\' for"),
    ("setupCommands: ['echo $(nproc', true]\nmainProgram: t.py", "3:16", "$( does not end"),
    ("setupCommands: ['cp a b; cp \\']\nmainProgram: t.py", "3:16", "\\ does not end"),
    ("setupCommands: [cd /w, export PET_RDZV_ID=1]\nmainProgram: t.py", "3:16", "setupCommands: emit sets PET_RDZV_ID itself: remove it"),
    ("setupCommands: ['PET_RDZV_CONF=a=1']\nmainProgram: t.py", "3:16", "emit sets PET_RDZV_CONF itself"),
    ("command: [a]\nmainProgram: b", "4:14", "remove one of them"),
    ("rdzv: {placement: relay, relayPort: 80}", "3:37", "too small"),
    ("rdzv: {metrics: yes}", "3:17", "metrics"),
    ("rdzv: {placement: service, metrics: prom}", "3:37", "write annotations or servicemonitor"),
    ("platform: pytorchjob\nrdzv: {placement: sidecar, metrics: annotations}", "4:37", "use placement relay, service or replicas"),
    ("rdzv: {placement: relay, endpoint: \"a:1\", metrics: annotations}", "3:52", "made here"),
    ("rdzv: {placement: service, etcdPort: 29401, metrics: annotations}", "3:54", "choose another"),
    ("rdzv: {placement: service, metricsFrom: a}", "3:41", "nothing to scrape"),
    ("hostNetwork: true\nrdzv: {placement: relay, networkPolicy: true}", "4:41", "a policy cannot select"),
    ("rdzv: {placement: relay, endpoint: 'a:1', durable: 1Gi}", "3:52", "is not made here"),
    ("rdzv: {placement: relay, wiring: agent-store}", "3:34", "use placement sidecar"),
    ("rdzv: {placement: replicas}", "3:19", "rdzv.journal is missing"),
    ("rdzv: {placement: replicas, journal: {}}", "3:38", "rdzv.journal.endpoints is missing"),
    ("rdzv: {placement: replicas, journal: {endpoints: []}}", "3:38", "endpoints is empty"),
    ("rdzv: {placement: replicas, journal: {endpoints: ['http://a:1']}}", "3:51", "is not host:port"),
    ("rdzv: {placement: replicas, journal: {endpoints: ['a:1'], user: u}}", "3:65", "a key of a Secret"),
    ("rdzv: {placement: replicas, journal: {endpoints: ['a:1'], prefix: %s}}" % ".".join(["x" * 40] * 3), "3:67",
     "more than 100"),
    ("rdzv: {placement: replicas, replicas: 1, journal: {endpoints: ['a:1']}}", "3:39", "too small"),
    ("rdzv: {placement: replicas, durable: 1Gi, journal: {endpoints: ['a:1']}}", "3:38", "cannot have a volume"),
    ("rdzv: {placement: replicas, relays: false, relayPort: 2000, journal: {endpoints: ['a:1']}}", "3:55",
     "remove one of them"),
    ("hostNetwork: true\nrdzv: {placement: replicas, networkPolicy: true, journal: {endpoints: ['a:1']}}", "4:44",
     "a policy cannot select"),
    ("rdzv: {placement: relay, journal: {endpoints: ['a:1']}}", "3:47", "use placement replicas"),
    ("rdzv: {placement: relay, relays: true}", "3:34", "use placement replicas"),
    ("rdzv: {placement: sidecar, tls: {secret: a}}", "3:19", "rdzv.tls: placement sidecar has none"),
    ("rdzv: {placement: service, tls: {secret: a}}", "3:19", "torch's c10d clients have no TLS"),
    ("rdzv: {placement: replicas, relays: false, journal: {endpoints: ['a:1']}, tls: {secret: a}}", "3:37",
     "remove `relays: false`, or rdzv.tls; or use --backend etcd-v2"),
    ("rdzv: {placement: relay, tls: {}}", "3:19", "rdzv.tls.secret is missing"),
    ("rdzv: {placement: relay, tls: {secret: a, clientCertificates: true}}", "3:63", "clientSecret is missing"),
    ("rdzv: {placement: relay, tls: {secret: a, clientName: b}}", "3:55", "asks for no certificate"),
    ("rdzv: {placement: relay, tls: {secret: a, serverName: b}}", "3:55", "relays to a store at rdzv.endpoint"),
    ("rdzv: {placement: relay, endpoint: 'a:1', tls: {secret: b}}", "3:57", "has its certificate already"),
    ("rdzv: {placement: relay, metrics: annotations, tls: {issuer: {name: ca}}}", "3:35", "use servicemonitor"),
    ("rdzv: {placement: relay, metrics: servicemonitor, tls: {secret: a, clientSecret: b}}", "3:35",
     "metricsSecret is missing"),
    ("rdzv: {placement: relay, tls: {issuer: {name: ca}, metricsSecret: a}}", "3:67", "nothing is scraped"),
    ("rdzv: {placement: relay, tls: {issuer: {name: ca, kind: Role}}}", "3:57", "write Issuer or ClusterIssuer"),
    ("rdzv: {placement: sidecar, adminToken: {name: a, key: b}}", "3:47", "made here"),
    ("rdzv: {placement: nowhere}", "3:19", "there is no placement nowhere"),
    ("rdzv: {placement: task}", "3:19", "cannot be on appwrapper-v1beta2"),
    ("rdzv: {placement: external}", "3:19", "rdzv.endpoint is missing"),
    ("rdzv: {placement: external, endpoint: 'a:1'}", "3:39", "rdzv.id is missing"),
    ("rdzv: {endpoint: nowhere}", "3:18", "is not host:port"),
    ("rdzv: {endpoint: 'a:29400'}", "3:18", "`placement: relay` or"),
    ("rdzv: {protocol: etcd}", "3:18", "write c10d or etcd-v2"),
    ("rdzv: {port: 80}", "3:14", "too small"),
    ("rdzv: {port: 2379}", "3:14", "the port of both"),
    ("rdzv: {conf: {is_host: 1}}", "3:24", "it is always 0"),
    ("rdzv: {conf: {a: 'b,c=d'}}", "3:18", "one word"),
    ("rdzv: {id: 'a b'}", "3:12", "is not the id of a run"),
    ("rdzv: {durable: 1Gi}", "3:17", "cannot have a volume"),
    ("rdzv: {spaceIdleTimeout: 30x}", "3:26", "is not a duration"),
    ("rdzv: {expect: 0}", "3:16", "too small"),
    ("numPods: 4\nrdzv: {expect: 5}", "4:16", "5 is more than the number of pods, so the first round would wait for nodes that do not exist: write 4 or less"),
    ("rdzv: {expect: 1, protocol: etcd-v2}", "3:16", "a store that no other job uses"),
    ("rdzv: {expect: true, placement: external, endpoint: 'a:1', id: a}", "3:16", "a store that no other job uses"),
    ("hostNetwork: true\nrdzv: {placement: sidecar}", "3:14", "use placement relay or service"),
    ("hostNetwork: true\nrdzv: {networkPolicy: true}", "4:23", "a policy cannot select"),
    ("nodes: {min: 1, max: 2}\nrdzv: {placement: sidecar}", "4:19", "no Master"),
    ("tolerateAll: true\ntolerations: [{key: a}]", "4:14", "remove one of the two"),
    ("pod: 5", "3:6", "a mapping is expected"),
    ("proxies: {http_proxy: x}", "3:10", "add proxyConfigMap"),
    ("containerName: trainer", "3:16", "called pytorch"),
    ("platform: volcan", "3:11", "there is no platform volcan"),
    ("profile: [oke]", "3:11", "there is no profile oke"),
    ("platform: appwrapper-v1beta1", "1:10", "namespace is missing"),
    ("platform: appwrapper-v1beta1\nnamespace: n\nrdzv: {placement: relay, port: 23456}", "5:32",
     "where worker 0 listens"),
    ("platform: job\nrestartPolicy: Always", "4:16", "OnFailure or Never"),
    ("platform: trainjob\nenvironmentVariables: [{name: PET_NNODES, value: 1}]", "4:31", "Trainer sets"),
    ("platform: volcano\njobName2: x", "4:1", "did you mean jobName?"),
    ("platform: pytorchjob\nrdzv: {wiring: agent-store, placement: service}", "4:16", "use placement sidecar"),
    ("a: &a [x]\nb: *a", "3:1", "there is no such setting"),
    ("jobName: b", "3:1", "occurs twice"),
    ("\tnumPods: 4", "3:1", "indent with spaces"),
    ("mainProgram: a: b", "3:15", "quote a value"),
    ("mainProgram: \"a", "4:1", "end the quotes"),
    ("mainProgram: ''", "3:14", "one or more characters"),
    ("mainProgram: \"a\\0b\"", "3:14", "NUL"),
    ("mainProgram: \x01", "3:14", "control characters"),
    ("--- \nnumPods: 4", "4:1", "second document"),
    (None, "jobName: My_Job\ncontainerImage: b", "1:10", "is not a DNS-1123 label"),
    (None, "jobName: %s\ncontainerImage: b" % ("a" * 64), "1:10", "is not a DNS-1123 label"),
    (None, "jobName: %s\ncontainerImage: b" % ("a" * 51), "1:10", "make it shorter"),
    (None, "jobName: %s\ncontainerImage: b\nplatform: volcano\nnumPods: 1000" % ("a" * 53), "1:10",
     "make it shorter"),
    (None, "jobName: 1a\ncontainerImage: b", "1:10", "put one in front"),
    (None, "jobName: a", "1:1", "containerImage is missing"),
    (None, "containerImage: b", "1:1", "jobName is missing"),
    (None, "", "1:1", "jobName is missing"),
    (None, "- a", "1:1", "lines of `key: value`"),
    (None, "just words", "1:1", "lines of `key: value`"),
    (None, "jobName: a\ncontainerImage: 'b c'", "2:17", "is not the name of an image"),
    (None, "cluster: {nNodes: 8, nodePool: np1}\nworkload: {image: i, dataDir: d}", "1:1", "--release"),
    (None, "jobname: a\ncontainerimage: b:1", "1:1", "did you mean jobName?"),
    (None, "queue: a\ngcsMounts: []\nstorage: {}", "1:1", "of no format that emit knows"),
    (None, "cluster: {nNodes: 0, nodePool: np1}\nworkload: {image: i, dataDir: d}\nrelease: r", "1:19",
     "too small"),
    (None, "cluster: {nNode: 8, nodePool: np1}\nworkload: {image: i, dataDir: d}\nrelease: r", "1:11",
     "nNode: did you mean nNodes?"),
    (None, "imageName: a\nworkers: -1", "2:10", "too small"),
    (None, "imageName: a\nworker: 1", "2:1", "did you mean workers?"),
    (None, "imageName: a\npvcResources: much", "2:15", "is not a quantity"),
]

ARGUMENTS = [
    ([], "there are no settings"),
    (["-f"], "-f needs a value"),
    (["-f", "no-such-file.yaml"], "cannot be read: No such file"),
    (["-f", "."], "cannot be read: Is a directory"),
    (["--nope"], "--nope is no option of emit"),
    (["-o", "xml", "--set", "a=1"], "write yaml or json"),
    (["--input-format", "helm", "--set", "a=1"], "there is no format helm"),
    (["--set", "numPods"], "there is no value"),
    (["--set", "=1"], "a key is empty"),
    (["--set", "a[x]=1"], "not an index"),
    (["--set", "a[99999999]=1"], "not an index"),
    (["--set", "a={1,2"], "a list does not end"),
    (["--set", "numPods=x"], "is not a whole number"),
    (["--platform", "./no-such.yaml", "--set", "jobName=a,containerImage=b"], "cannot be read"),
]


def refused(check, what, args, stdin, place, part):
    code, out, err = tool.run("emit", *args, stdin=stdin)
    told = err.decode(errors="replace")
    first = told.split("\n")[0]
    at = re.match(r"<stdin>:%s: .+: ." % place, first) if place else True
    check(code == 2 and out == b"" and part in told and at,
          "%s: exit %d, %d bytes of output, expected <stdin>:%s: ...%s...: %s"
          % (what, code, len(out), place, part, told[:300]))


def hostile(check):
    """Bytes that no person wrote."""
    good = GOOD.encode()
    bomb = b"".join(b"a%d: &a%d [%s]\n" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 9 if i else [b"x"]))
                    for i in range(12))
    cases = [
        ("an anchor bomb", good + bomb, "", "stand for more than"),
        ("broken UTF-8", good + b"mainProgram: \xff\xfe\n", "3:14", "UTF-8"),
        ("UTF-16", (GOOD + "numPods: 4\n").encode("utf-16"), "1:1", "UTF-8"),
        ("a NUL", good + b"mainProgram: a\0b\n", "3:15", "control characters"),
        ("10,000 levels", good + b"pod: " + b"[" * 10000 + b"]" * 10000, "", "levels of nesting"),
        ("1,000 block levels", good + b"pod:\n" + b"".join(b" " * i + b"a:\n" for i in range(1, 1000)),
         "", "levels of nesting"),
        ("100 MB", good + b"mainProgram: " + b"x" * 100_000_000, "", "MiB"),
        ("many settings", b"".join(b"a%d: 1\n" % i for i in range(100_000)), "", "more than 10000 entries"),
        ("a wide mapping", good + b"nodeSelector:\n" + b"".join(b"  a%d: x\n" % i for i in range(50_000)),
         "", "more than 10000 entries"),
        ("a key of a megabyte", good + b"a" * 1_000_000 + b": 1\n", "", ":"),
        ("only quotes", b"'" * 100_001, "", ":"),
    ]
    for what, data, place, part in cases:
        refused(check, what, ["-f", "-"], data, place, part)


def test(check, skip):
    for case in CASES:
        if case[0] is None:
            _, text, place, part = case
        else:
            text, place, part = case
            text = GOOD + text
        refused(check, repr(text), ["-f", "-"], (text + "\n").encode(), place, part)
    for args, part in ARGUMENTS:
        refused(check, " ".join(args), args, None, "", part)
    hostile(check)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a\x1b[31m.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write("\x01")
        code, out, err = tool.run("emit", "-f", path)
        check(code == 2 and b"\x1b" not in err, "a file's name reaches the terminal: %r" % err)
    for args, code, part in ((["explain", "numPod"], 2, "did you mean numPods?"),
                             (["explain"], 2, "one name is expected"),
                             (["list", "everything"], 2, "nothing to list"),
                             (["frobnicate"], 2, "there is no verb"),
                             (["explain", "numPods"], 0, "Pods of the job"),
                             (["explain", "rdzv.placement"], 0, "rdzv.placement"),
                             (["list", "platforms"], 0, "volcano"),
                             (["list", "settings"], 0, "mainProgram"),
                             (["emit", "--help"], 0, "--platform"),
                             (["--version"], 0, "rdzv-manifest ")):
        got, out, err = tool.run(*args)
        check(got == code and part in (out + err).decode(), "%s: exit %d: %s" % (args, got, err))
