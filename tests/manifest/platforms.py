"""What a platform makes of a manifest: the pods, their names, and the variables that it adds.

Pure: reads documents, starts nothing. The sources of a platform's controllers show the fields that it sets; this module
models only fields that a pod can see. Standard library only.
"""

import re

UID = "6f1d0c2a-3b4e-4f5a-8c7d-9e0f1a2b3c4d"


class Unknown(Exception):
    """The manifest asks for something that this platform, as we know it, does not give."""


class Pod:
    def __init__(self, name, template, host=None, labels=None, annotations=None, names=(),
                 before=None, after=None):
        meta = template.get("metadata") or {}
        self.name, self.spec = name, template["spec"]
        self.labels = dict(meta.get("labels") or {}, **(labels or {}))
        self.annotations = dict(meta.get("annotations") or {}, **(annotations or {}))
        self.namespace = "default"
        self.host = host or name
        self.names = list(names)  # that resolve to its address
        # Variables the platform adds to regular containers: in front of the user's own, and behind.
        self.before, self.after = dict(before or {}), dict(after or {})
        self.files = {}  # that the platform puts there: their text by path
        self.serves = False  # its containers go on as long as the job

    @property
    def on_host_network(self):
        return bool(self.spec.get("hostNetwork"))

    def _rdzvds(self):
        return [c for c in (self.spec.get("initContainers") or []) + self.spec["containers"]
                if image_name(c) == "rdzvd"]

    def stores(self):
        """The containers that run rdzvd, native sidecars among them."""
        return [c for c in self._rdzvds() if not is_relay(c)]

    def relays(self):
        """The containers that run rdzvd as a relay."""
        return [c for c in self._rdzvds() if is_relay(c)]

    def etcds(self):
        """The containers that run an etcd, where the job met before it was rewritten."""
        return [c for c in self.spec["containers"] if image_name(c) == "etcd"]

    def training(self):
        """The containers that are the job's own."""
        return [c for c in self.spec["containers"] if image_name(c) not in ("rdzvd", "etcd")]


def is_relay(container):
    return any(str(a).startswith("--upstream=") for a in container.get("args") or [])


def image_name(container):
    return container.get("image", "").split("@")[0].rsplit("/", 1)[-1].split(":")[0]


# ------------------------------------------------------------ platforms


def _workload(doc):
    """A StatefulSet or Deployment of one, or a Pod."""
    name = doc["metadata"]["name"]
    if doc["kind"] == "Pod":
        return [Pod(name, doc)]
    count = doc["spec"].get("replicas", 1)
    if doc["kind"] == "StatefulSet":
        service = doc["spec"]["serviceName"]
        return [Pod("%s-%d" % (name, i), doc["spec"]["template"], labels={
            "apps.kubernetes.io/pod-index": str(i), "statefulset.kubernetes.io/pod-name": "%s-%d" % (name, i)},
                    names=["%s-%d.%s" % (name, i, service)]) for i in range(count)]
    return [Pod("%s-7d9c5b6f4-%05d" % (name, i), doc["spec"]["template"]) for i in range(count)]


def _volcano(doc):
    job, tasks = doc["metadata"]["name"], doc["spec"]["tasks"]
    plugins = doc["spec"].get("plugins") or {}
    variables, ranks, files = {}, [], {}
    # The plugin pytorch brings svc, and counts the master first.
    pytorch = dict(re.match(r"--(\w+)=(.*)", word).groups() for word in plugins.get("pytorch", []))
    if "pytorch" in plugins:
        plugins = dict(plugins, svc=[])
        roles = [pytorch.get("master", "master"), pytorch.get("worker", "worker")]
        ranks = [(t["name"], i) for role in roles for t in tasks if t["name"] == role for i in range(t.get("replicas", 1))]
    if "svc" in plugins:
        for task in tasks:
            prefix = "VC_" + task["name"].replace("-", "_").upper()
            hosts = ["%s-%s-%d.%s" % (job, task["name"], i, job)
                     for i in range(task.get("replicas", 1))]
            variables[prefix + "_HOSTS"] = ",".join(hosts)
            variables[prefix + "_NUM"] = str(len(hosts))
            files["/etc/volcano/%s.host" % task["name"]] = "".join(h + "\n" for h in hosts)
    pods = []
    for task in tasks:
        for i in range(task.get("replicas", 1)):
            name = "%s-%s-%d" % (job, task["name"], i)
            own = {"VC_TASK_INDEX": str(i), "VK_TASK_INDEX": str(i)} if "env" in plugins else {}
            if (task["name"], i) in ranks:
                own.update({"MASTER_ADDR": "%s-%s-0.%s" % (job, ranks[0][0], job), "MASTER_PORT": pytorch.get("port", "23456"),
                            "WORLD_SIZE": str(len(ranks)), "RANK": str(ranks.index((task["name"], i)))})
            pods.append(Pod(
                name, task["template"],
                names=["%s.%s" % (name, job)] if "svc" in plugins else [],
                labels={"volcano.sh/job-name": job, "volcano.sh/task-spec": task["name"],
                        "volcano.sh/task-index": str(i), "volcano.sh/queue-name": "default"},
                annotations={"scheduling.k8s.io/group-name": "%s-%s" % (job, UID),
                             "volcano.sh/job-version": "0", "volcano.sh/job-retry-count": "0",
                             "volcano.sh/task-spec": task["name"]},
                after=dict(own, **variables)))
            pods[-1].files = files
    return pods


def _pytorch_job(doc):
    job, spec = doc["metadata"]["name"], doc["spec"]
    replicas, policy = spec["pytorchReplicaSpecs"], spec.get("elasticPolicy")
    counts = {kind: r.get("replicas", 1) for kind, r in replicas.items()}
    procs = str(spec.get("nprocPerNode") or "auto")
    pods = []
    for kind, replica in replicas.items():
        for i in range(counts[kind]):
            name = "%s-%s-%d" % (job, kind.lower(), i)
            env = {"PYTHONUNBUFFERED": "1"}
            if "Master" in replicas:
                ports = [p for c in replicas["Master"]["template"]["spec"]["containers"]
                         if c["name"] == "pytorch" for p in c.get("ports") or []
                         if p.get("name") == "pytorchjob-port"]
                port = str(ports[0]["containerPort"] if ports else 23456)
                host = job + "-master-0"
                rank = str(i + 1 if kind == "Worker" else i)
                each = int(procs) if procs.isdigit() else 1
                env.update({"MASTER_ADDR": host, "PET_MASTER_ADDR": host, "MASTER_PORT": port,
                            "PET_MASTER_PORT": port, "RANK": rank, "PET_NODE_RANK": rank,
                            "WORLD_SIZE": str(each * sum(counts.values()))})
            if spec.get("nprocPerNode"):
                env["PET_NPROC_PER_NODE"] = procs
            if policy is None:
                env["PET_NNODES"] = str(sum(counts.values()))
            else:
                env.update(_policy(policy, job, counts["Worker"]))
            pods.append(Pod(
                name, replica["template"], names=[name], after=env,
                labels={"training.kubeflow.org/job-name": job,
                        "training.kubeflow.org/replica-type": kind.lower(),
                        "training.kubeflow.org/replica-index": str(i),
                        "training.kubeflow.org/operator-name": "pytorchjob-controller"}))
    return pods


def _policy(policy, job, workers):
    low = policy.get("minReplicas", policy.get("maxReplicas", workers))
    high = policy.get("maxReplicas", policy.get("minReplicas", workers))
    env = {"PET_NNODES": "%d:%d" % (low, high),
           "PET_RDZV_BACKEND": policy.get("rdzvBackend", "c10d"),
           "PET_RDZV_ENDPOINT": "%s:%s" % (policy.get("rdzvHost", job + "-worker-0"),
                                           policy.get("rdzvPort", 23456))}
    if "rdzvId" in policy:
        env["PET_RDZV_ID"] = policy["rdzvId"]
    if policy.get("rdzvConf"):
        env["PET_RDZV_CONF"] = ",".join("%s=%s" % (c["key"], c["value"]) for c in policy["rdzvConf"])
    if "maxRestarts" in policy:
        env["PET_MAX_RESTARTS"] = str(policy["maxRestarts"])
    if policy.get("nProcPerNode"):
        env["PET_NPROC_PER_NODE"] = str(policy["nProcPerNode"])
    return env


def _job(doc, host=None, subdomain=None, labels=None):
    """A batch Job. Indexed ones know their place."""
    name, spec = doc["metadata"]["name"], doc["spec"]
    count = min(spec.get("parallelism", 1), spec.get("completions", spec.get("parallelism", 1)))
    pods = []
    for i in range(count):
        own, annotations, env = dict(labels or {}), {}, {}
        own.update({"batch.kubernetes.io/job-name": name, "job-name": name,
                    "batch.kubernetes.io/controller-uid": UID, "controller-uid": UID})
        pod_host = "%s-%d" % (host or name, i)
        if spec.get("completionMode") == "Indexed":
            key = "batch.kubernetes.io/job-completion-index"
            own[key] = annotations[key] = env["JOB_COMPLETION_INDEX"] = str(i)
        subs = subdomain or spec["template"]["spec"].get("subdomain")
        pods.append(Pod("%s-%d-x7k2p" % (name, i), spec["template"], host=pod_host, labels=own,
                        annotations=annotations, after=env,
                        names=["%s.%s" % (pod_host, subs)] if subs else []))
    return pods


def _job_set(doc, name=None, labels=None, variables=None):
    name, spec, pods = name or doc["metadata"]["name"], doc["spec"], []
    subdomain = (spec.get("network") or {}).get("subdomain") or name
    for part in spec["replicatedJobs"]:
        for i in range(part.get("replicas", 1)):
            job = "%s-%s-%d" % (name, part["name"], i)
            template = dict(part["template"], metadata=dict(
                part["template"].get("metadata") or {}, name=job))
            template["spec"] = dict(template["spec"], completionMode="Indexed")
            keys = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/jobset-uid": UID,
                    "jobset.sigs.k8s.io/replicatedjob-name": part["name"],
                    "jobset.sigs.k8s.io/job-index": str(i),
                    "jobset.sigs.k8s.io/restart-attempt": "0"}
            if "coordinator" in spec:
                head = spec["coordinator"]
                keys["jobset.sigs.k8s.io/coordinator"] = "%s-%s-%d-%d.%s" % (
                    name, head["replicatedJob"], head.get("jobIndex", 0), head.get("podIndex", 0), subdomain)
            for pod in _job(template, host=job, subdomain=subdomain, labels=dict(keys, **(labels or {}))):
                pod.annotations.update(keys)
                if variables:
                    variables(part, pod)
                pods.append(pod)
    return pods


def _worker_set(doc):
    """Each group of a LeaderWorkerSet: a leader, and the workers that it names itself to."""
    name, spec, pods = doc["metadata"]["name"], doc["spec"], []
    parts = spec["leaderWorkerTemplate"]
    for group in range(spec.get("replicas", 1)):
        for i in range(parts.get("size", 1)):
            template = parts.get("leaderTemplate", parts["workerTemplate"]) if i == 0 else parts["workerTemplate"]
            pod = "%s-%d" % (name, group) + ("-%d" % i if i else "")
            env = {"LWS_LEADER_ADDRESS": "%s-%d.%s" % (name, group, name), "LWS_GROUP_SIZE": str(parts.get("size", 1)),
                   "LWS_WORKER_INDEX": str(i)}
            pods.append(Pod(pod, template, before=env, names=["%s.%s" % (pod, name)], labels={
                "leaderworkerset.sigs.k8s.io/name": name, "leaderworkerset.sigs.k8s.io/group-index": str(group),
                "leaderworkerset.sigs.k8s.io/worker-index": str(i)}))
    return pods


def _mpi_job(doc):
    """A launcher, whose mpirun reaches the workers by the names in a file."""
    job, roles, pods, hosts = doc["metadata"]["name"], doc["spec"]["mpiReplicaSpecs"], [], ""
    for role in ("Worker", "Launcher"):
        for i in range(roles[role].get("replicas", 1)):
            name = "%s-%s" % (job, role.lower()) + ("-%d" % i if role == "Worker" else "")
            pod = Pod(name, roles[role]["template"], names=["%s.%s" % (name, job)] if role == "Worker" else [], labels={
                "training.kubeflow.org/job-name": job, "training.kubeflow.org/job-role": role.lower()})
            hosts += "%s.%s slots=%d\n" % (name, job, doc["spec"].get("slotsPerWorker", 1)) if role == "Worker" else ""
            pod.serves = role == "Worker"
            pods.append(pod)
    pods[-1].files["/etc/mpi/hostfile"] = hosts
    return pods


def _train_job(doc, documents):
    """Trainer v2: the runtime's JobSet under the job's name, with the trainer's fields in it."""
    name, ref = doc["metadata"]["name"], doc["spec"]["runtimeRef"]
    runtime = [d for d in documents if d["kind"] == ref.get("kind", "ClusterTrainingRuntime")
               and d["metadata"]["name"] == ref["name"]]
    if not runtime:
        raise Unknown("runtime %s is not in the manifest" % ref["name"])
    spec, trainer = runtime[0]["spec"], doc["spec"].get("trainer") or {}
    nodes = trainer.get("numNodes") or spec["mlPolicy"].get("numNodes", 1)

    def is_trainer(part):
        labels = (part["template"].get("metadata") or {}).get("labels") or {}
        return labels.get("trainer.kubeflow.org/trainjob-ancestor-step") == "trainer"

    parts = []
    for part in spec["template"]["spec"]["replicatedJobs"]:
        if is_trainer(part):
            job = dict(part["template"]["spec"], parallelism=nodes, completions=nodes)
            pod = dict(job["template"], spec=dict(job["template"]["spec"]))
            pod["spec"]["containers"] = [
                dict(c, **{k: trainer[k] for k in ("image", "command", "args") if k in trainer},
                     env=(c.get("env") or []) + (trainer.get("env") or []))
                if c["name"] == "node" else c for c in pod["spec"]["containers"]]
            part = dict(part, template=dict(part["template"], spec=dict(job, template=pod)))
        parts.append(part)

    def variables(part, pod):
        if not is_trainer(part):
            return
        pod.after.update({
            "PET_NNODES": str(nodes), "PET_NODE_RANK": pod.after["JOB_COMPLETION_INDEX"],
            "PET_NPROC_PER_NODE": str(trainer.get("numProcPerNode", "auto")),
            "PET_MASTER_ADDR": "%s-node-0-0.%s" % (name, name), "PET_MASTER_PORT": "29500"})
        clash = {e["name"] for c in pod.spec["containers"] for e in c.get("env") or []}
        if clash & {"PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR",
                    "PET_MASTER_PORT"}:
            raise Unknown("a TrainJob that sets the trainer's own variables is refused")
    return _job_set({"metadata": {"name": name}, "spec": {
        "replicatedJobs": parts, "network": spec["template"]["spec"].get("network")}},
        labels={}, variables=variables)


# ------------------------------------------------------------ manifests


def flatten(documents):
    """The objects of a manifest, those inside of Lists and AppWrappers too."""
    out = []
    for doc in documents:
        if not doc:
            continue
        spec = doc.get("spec") or {}
        if doc.get("kind", "").endswith("List") and "items" in doc:
            out += flatten(doc["items"])
        elif doc.get("kind") == "AppWrapper":
            out += flatten([c["template"] for c in spec.get("components") or []])
            items = (spec.get("resources") or {}).get("GenericItems") or []
            out += flatten([i["generictemplate"] for i in items])
        else:
            out.append(doc)
    return out


def pods_of(documents):
    """The pods of all objects, as they would run."""
    pods = []
    for doc in documents:
        kind, api = doc["kind"], doc["apiVersion"]
        if kind in ("Pod", "StatefulSet", "Deployment"):
            new = _workload(doc)
        elif kind == "Job" and api.startswith("batch.volcano.sh/"):
            new = _volcano(doc)
        elif kind == "PyTorchJob":
            new = _pytorch_job(doc)
        elif kind == "JobSet":
            new = _job_set(doc)
        elif kind == "Job":
            new = _job(doc)
        elif kind == "CronJob":  # the Job of one of its times
            new = _job(dict(doc["spec"]["jobTemplate"], metadata={"name": doc["metadata"]["name"] + "-29000000"}))
        elif kind == "LeaderWorkerSet":
            new = _worker_set(doc)
        elif kind == "MPIJob":
            new = _mpi_job(doc)
        elif kind == "TrainJob":
            new = _train_job(doc, documents)
        else:
            continue
        for pod in new:
            pod.namespace = doc["metadata"].get("namespace") or "default"
        pods += new
    return pods


def service_names(documents, pods):
    """{pod: names by which Services lead to it}, as a DNS server of the cluster answers."""
    out = {pod: [] for pod in pods}
    for doc in documents:
        if doc["kind"] != "Service":
            continue
        name, space = doc["metadata"]["name"], doc["metadata"].get("namespace") or "default"
        selector = doc["spec"].get("selector") or {}
        for pod in pods:
            if pod.namespace == space and selector and selector.items() <= pod.labels.items():
                out[pod] += [name, "%s.%s" % (name, space), "%s.%s.svc" % (name, space),
                             "%s.%s.svc.cluster.local" % (name, space)]
    return out


# ------------------------------------------------------------ containers


def mounted(pod, container, documents):
    """{path: text} of the ConfigMaps that the container mounts."""
    maps = {d["metadata"]["name"]: d.get("data") or {} for d in documents if d["kind"] == "ConfigMap"}
    volumes, found = {v["name"]: v for v in pod.spec.get("volumes") or []}, dict(pod.files)
    for mount in container.get("volumeMounts") or []:
        volume, keys = volumes.get(mount["name"], {}), {}
        sources = volume.get("projected", {}).get("sources") or [volume]
        for source in [s["configMap"] for s in sources if "configMap" in s]:
            data = maps.get(source["name"], {})
            items = source.get("items") or [{"key": k, "path": k} for k in data]
            keys.update({i["path"]: data[i["key"]] for i in items if i["key"] in data})
        if "subPath" in mount:
            found.update({mount["mountPath"]: text for path, text in keys.items() if path == mount["subPath"]})
        else:
            found.update({mount["mountPath"].rstrip("/") + "/" + path: text for path, text in keys.items()})
    return found


def _expand(text, known):
    """$(NAME), as the kubelet has it: $$ is a $, and what is not known stays."""
    return re.sub(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)",
                  lambda m: "$" if m.group(0) == "$$" else known.get(m.group(1), m.group(0)),
                  str(text))


def _field(pod, path, address, strict):
    simple = {"metadata.name": pod.name, "metadata.namespace": pod.namespace,
              "metadata.uid": UID, "status.podIP": address, "status.hostIP": address,
              "spec.nodeName": "node-of-" + pod.name,
              "spec.serviceAccountName": pod.spec.get("serviceAccountName", "default")}
    if path in simple:
        return simple[path]
    match = re.match(r"metadata\.(labels|annotations)\['(.+)'\]$", path)
    if not match:
        raise Unknown("fieldPath " + path)
    kept = getattr(pod, match.group(1))
    if strict and match.group(2) not in kept:
        raise Unknown("pod %s has no %s, which a variable is made of" % (pod.name, path))
    return kept.get(match.group(2), "")  # as the kubelet


def environment(pod, container, address, documents, regular=True, strict=False):
    """The container's variables, in the order in which the kubelet expands them. `strict`: a pod must have
    each label from which a variable is made."""
    maps = {d["metadata"]["name"]: d.get("data") or {} for d in documents if d["kind"] == "ConfigMap"}
    env = {}
    for source in container.get("envFrom") or []:
        env.update(maps.get((source.get("configMapRef") or {}).get("name"), {}))
    if regular:
        env.update(pod.before)
    for entry in container.get("env") or []:
        source = entry.get("valueFrom") or {}
        if "fieldRef" in source:
            env[entry["name"]] = _field(pod, source["fieldRef"]["fieldPath"], address, strict)
        elif "configMapKeyRef" in source:
            ref = source["configMapKeyRef"]
            env[entry["name"]] = maps.get(ref["name"], {}).get(ref["key"], "")
        elif source:
            env[entry["name"]] = "not-known-here"
        else:
            env[entry["name"]] = _expand(entry.get("value") or "", env)
    if regular:
        env.update(pod.after)
    return {name: str(value) for name, value in env.items()}


def command_line(container, env, entrypoint):
    """What is executed: command and args, or the image's entrypoint and args."""
    words = container.get("command") or list(entrypoint)
    return [_expand(w, env) for w in words + (container.get("args") or [])]
