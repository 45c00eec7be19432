/* The rules of the verb check, as data: for each rule its fault, the consequence, the remedy, and
 * the objects that it examines. This file is included several times, each time with another meaning
 * of RULE().
 *
 * To add a rule: write its function into the check_*.c of its subject, and add its row here. PER()
 * names what the engine calls the function for: see struct check_rule. Put a
 * manifest with the fault and its mended twin into tests/manifest/check. The rule must find nothing
 * in any other file there, nor in what emit prints. `tests/manifest/check.py --update` then writes
 * its row into deploy/README.md. */
#ifndef RULE
#define RULE(id, severity, title, why, remedy, functions)
#endif

/* --- The run id. --- */
RULE("rdzv-id-missing", ERROR, "no rendezvous id on a store that the job does not own",
     "Without an id, torch uses the word `none`. All jobs without an id then meet in one run, and "
     "a run that has ended stays closed: the next job ends with RendezvousClosedError, or finds "
     "the nodes of another job.",
     "Set --rdzv_id, PET_RDZV_ID or elasticPolicy.rdzvId to a text that contains the job's name or "
     "uid.",
     PER(run, id_missing))
RULE("rdzv-id-fixed", ERROR, "a constant rendezvous id on a store that the job does not own",
     "Every job that is made from this file gets the same id. If two of them run at once, the "
     "second joins the run of the first. If they run one after the other, the second finds the run "
     "closed.",
     "Put the job's name into the id, or better its uid: a Volcano Job offers "
     "metadata.annotations['scheduling.k8s.io/group-name'] and ['volcano.sh/job-version'], a "
     "JobSet metadata.labels['jobset.sigs.k8s.io/jobset-uid'].",
     PER(run, id_fixed))
RULE("rdzv-id-shared", ERROR, "two jobs with one rendezvous id at one store",
     "The agents of both jobs join one run. The run has too many nodes, and ranks of one job go to "
     "the other.",
     "Give each job an id of its own, with its name in it.", PER(run, id_shared))
RULE("rdzv-id-differs", ERROR, "nodes of one job with different ids, or at different ports",
     "Only agents with one id at one port meet. Each group waits for the others until join_timeout "
     "(600 s).",
     "Give all pods of the job the same id: the job's name, or a uid that all of them have.",
     PER(run, id_of_pod))
RULE("volcano-restart-job-id", ERROR, "RestartJob with an id that stays the same",
     "The attempt that failed has closed the run under this id, and an etcd keeps that for hours. "
     "Each new attempt ends with RendezvousClosedError until maxRetry is used up. (Over c10d, "
     "rdzvd forgets closed runs.)",
     "Add metadata.annotations['volcano.sh/job-version'] to the id. Or restart containers in "
     "place: restartPolicy: OnFailure and no RestartJob.",
     PER(policy, volcano_restart_job_id))

/* --- The backend and its conf. --- */
RULE("rdzv-backend-missing", ERROR,
     "torchrun has no backend, though there is a store or a range of nodes",
     "Without a backend, torchrun uses `static`: node rank 0 serves the store and no other store "
     "is used. A range of nodes counts as its maximum.",
     "Set --rdzv_backend=c10d (or PET_RDZV_BACKEND), and the store as --rdzv_endpoint.",
     PER(bundle, find_idle_store) PER(run, backend_missing))
RULE("rdzv-backend-unknown", ERROR, "a backend that torch does not have",
     "torchrun ends at once. The rendezvous backends are static, c10d, etcd and etcd-v2. nccl and "
     "gloo are backends of process groups, which the training script chooses.",
     "Set --rdzv_backend=c10d.", PER(run, backend_unknown))
RULE("rdzv-is-host", ERROR, "`is_host` is absent or not 0, though the job has a store of its own",
     "Without is_host=0, an agent compares its host names and addresses with the endpoint. If one "
     "matches, the agent serves a store itself: some nodes meet there, and the others at the real "
     "store.",
     "Set --rdzv_conf=is_host=0 or PET_RDZV_CONF=is_host=0, or in elasticPolicy rdzvConf: [{key: "
     "is_host, value: \"0\"}].",
     PER(run, is_host))
RULE(
    "rdzv-host-no-pod", ERROR, "an endpoint that is meant to be a pod of the job, and is none",
    "The name never resolves, so no agent reaches a store. (A JobSet calls its pods "
    "JOBSET-REPLICATEDJOB-INDEX-INDEX, a Volcano Job JOB-TASK-INDEX. The pods of a StatefulSet and "
    "of an Indexed Job with a subdomain have names behind a headless Service.)",
    "Do what the message says; better, give the job a store of its own, as "
    "`rdzv-manifest rewrite` does.",
    PER(run, host_no_pod))
RULE("rdzv-hosted-by-worker", WARNING, "a training pod serves the store",
     "torch's TCPStore client never reconnects. When this one pod is evicted, preempted or "
     "restarted, every agent of the job ends, and the state of the rendezvous is lost.",
     "Run the store outside of the training pods: `rdzv-manifest rewrite` moves the job to rdzvd.",
     PER(run, hosted_by_worker))
RULE("rdzv-conf-unknown", WARNING, "a conf key that torch, or this backend, does not know",
     "torch ignores unknown keys and gives no warning, so the default stays in force.",
     "For c10d: is_host, store_type, read_timeout, join_timeout, last_call_timeout, close_timeout, "
     "heartbeat_timeout, keep_alive_interval, keep_alive_max_attempt. For etcd-v2: the same "
     "without is_host and store_type, and TLS keys. For etcd: timeout, last_call_timeout, "
     "etcd_prefix, and TLS keys.",
     PER(run, conf_unknown))
RULE("rdzv-conf-syntax", ERROR, "a conf key without a value",
     "torchrun ends at once: a conf is a list of key=value, separated by commas.",
     "Write --rdzv_conf=key=value,key=value.", PER(run, conf_syntax))
RULE("rdzv-flag-unknown", ERROR, "a command line that torchrun refuses",
     "torchrun prints its usage or an error and ends: it does not have the option, there is no "
     "script, or a number is none.",
     "Use an option that `torchrun --help` lists. Write options of the training script behind the "
     "script.",
     PER(run, flag_unknown))

/* --- The endpoint. --- */
RULE("rdzv-endpoint-form", ERROR, "an endpoint that torch does not accept",
     "torch accepts one host and one port: no scheme, no list, no path. It ends at once, or asks "
     "DNS for the whole text.",
     "Write --rdzv_endpoint=HOST:PORT.", PER(run, endpoint_form))
RULE("rdzv-endpoint-localhost", ERROR, "several pods, and each of them meets at itself",
     "Every pod looks for the store in itself: at its loopback, by its own name or address, or "
     "behind a Service of all pods. Each pod starts a store alone and waits for the others until "
     "the join timeout.",
     "Write the name of a Service that selects the store.", PER(run, endpoint_localhost))
RULE("rdzv-endpoint-port", ERROR, "an endpoint whose port does not exist",
     "Connections are refused or get no answer, and after read_timeout (60 s) each agent ends with "
     "RendezvousConnectionError.",
     "Write the port of the Service on which the store listens: 29400 for c10d, 2379 for etcd.",
     PER(run, endpoint_port))
RULE("rdzv-endpoint-namespace", ERROR, "an endpoint whose Service is in another namespace",
     "DNS looks up a name without a namespace in the pod's own namespace, and this Service is not "
     "there.",
     "Give both the same metadata.namespace, or write SERVICE.NAMESPACE.svc as the host.",
     PER(run, endpoint_namespace))
RULE(
    "rdzv-endpoint-unknown", WARNING, "an endpoint whose name has no address",
    "The name resolves only if something outside of these files has it. If not, each agent tries "
    "for read_timeout (60 s) and ends with RendezvousConnectionError.",
    "Write the name of a Service of the store. A pod has an address only as POD.SERVICE, where its "
    "subdomain names a headless Service.",
    PER(bundle, find_unused_stores) PER(run, endpoint_unknown))
RULE("service-selects-nothing", ERROR, "the endpoint's Service selects no pod",
     "The name of the Service resolves to no address, and each agent ends with "
     "RendezvousConnectionError.",
     "Write the labels of the store's pod template into spec.selector.",
     PER(object, service_selects_nothing))
RULE("service-target-port", ERROR, "a Service that leads to a port where nothing listens",
     "The pod refuses connections to this port.",
     "Set targetPort to the number or the name of a port of the store's container.",
     PER(object, service_target_port))
RULE("headless-port-mapping", ERROR, "a headless Service that is expected to map ports",
     "A headless Service gives clients the pod's address and maps nothing: a client dials the port "
     "number that it was given, on the pod.",
     "Set port and targetPort to the same number, and let the store listen there.",
     PER(object, headless_port_mapping))
RULE("not-ready-addresses", WARNING, "a store whose name resolves only while its pod is Ready",
     "Agents that start before the store is Ready do not find the name, and try for read_timeout "
     "(60 s) only. A store that restarts, or fails one probe, loses its name while a job runs.",
     "Set publishNotReadyAddresses: true. For Volcano: svc: "
     "[\"--publish-not-ready-addresses=true\"].",
     PER(bundle, find_name_givers) PER(object, not_ready_service) PER(run, not_ready_pod))
RULE("service-name-taken", ERROR,
     "a Service with the name that a controller gives to its own Service",
     "The controller finds a Service that it did not make, and either fails or changes it.",
     "Use another name, such as JOB-rdzv.",
     PER(bundle, find_made_services) PER(object, service_name_taken))
RULE("enable-service-links", ERROR,
     "a Service whose links set a variable that torch or rdzvd may read",
     "Kubernetes writes NAME_PORT=tcp://ADDRESS:PORT into every container of the namespace. A "
     "program that expects a number there ends.",
     "Set enableServiceLinks: false in the pods, or give the Service another name.",
     PER(object, enable_service_links))
RULE("local-addr-missing", WARNING, "torch has to guess the pod's own address",
     "Agent 0 gives its host name to all workers. On the host network, or if no Service makes that "
     "name resolve, the workers wait in vain (up to 300 s) or use the wrong network.",
     "Set PET_LOCAL_ADDR from fieldRef status.podIP.", PER(run, local_addr_missing))

/* --- Nodes. --- */
RULE("nnodes-missing", ERROR, "several pods, and torchrun has no number of nodes",
     "Without --nnodes, torchrun assumes one node. Each pod trains alone, or finds the run of "
     "another pod complete.",
     "Set --nnodes=N or --nnodes=MIN:MAX.", PER(run, nodes_missing))
RULE("gang-alone", ERROR, "a gang of pods, and torchrun knows of no other node",
     "The scheduler waits until all pods of the gang have a place, but without --nnodes and a "
     "backend or a master each pod trains alone: the work is done as often as there are pods.",
     "Set --nnodes=N, --rdzv_backend=c10d and --rdzv_endpoint, or run one pod.",
     PER(run, gang_alone))
RULE("nnodes-too-many", ERROR, "more nodes than pods",
     "The rendezvous never completes, and each agent ends after join_timeout (600 s).",
     "Run as many pods as the minimum of --nnodes, or lower --nnodes.", PER(run, nodes_too_many))
RULE("nnodes-too-few", WARNING, "more pods than nodes",
     "The pods above the maximum hold their GPUs, wait until join_timeout (600 s), fail, and "
     "restart for nothing.",
     "Raise --nnodes, or run as many pods as its maximum.", PER(object, nodes_too_few))
RULE("nnodes-world-size", ERROR, "WORLD_SIZE used as the number of nodes",
     "The Training Operator's WORLD_SIZE is the number of pods times nprocPerNode, so the "
     "rendezvous waits for nodes that do not exist.",
     "Write --nnodes=N with a number, or no --nnodes at all: the operator sets PET_NNODES.",
     PER(run, nodes_world_size))
RULE("elastic-range", ERROR, "a range of nodes that the pods cannot meet",
     "With fewer pods than the minimum, the rendezvous never completes. Pods above the maximum "
     "wait, time out, and restart for nothing.",
     "Make sure that minimum <= pods <= maximum.",
     PER(object, elastic_policy_range) PER(run, elastic_range))
RULE("elastic-policy-field", ERROR, "an elasticPolicy that means something else than it says",
     "The API server drops a field that the operator does not have, and the default stays in "
     "force.",
     "Remove the field, or write the one that is meant; name the port as rdzvPort.",
     PER(object, elastic_policy_field))
RULE("elastic-gang", WARNING, "a gang that is larger than the elastic minimum",
     "The scheduler starts no pod until the whole gang fits at once. The job cannot start, or "
     "start again, with the smaller number of nodes that elasticPolicy allows.",
     "Set schedulingPolicy.minAvailable to minReplicas.", PER(object, elastic_gang))
RULE("gang-above", ERROR, "a PyTorchJob with a gang that is larger than the job",
     "The scheduler starts no pod until there are as many as minAvailable says. The job has fewer, "
     "so it stays Pending for ever.",
     "Lower schedulingPolicy.minAvailable to the number of pods, or remove it: the Training "
     "Operator then takes that number.",
     PER(object, gang_above))
RULE("elastic-restart-never", WARNING, "an elastic job whose pods do not restart",
     "A pod that fails stays failed, and no other pod takes its place.",
     "Set restartPolicy: OnFailure.", PER(run, elastic_restart_never))
RULE(
    "restarts-none", WARNING,
    "torchrun without restarts, in a job whose containers or pods start again one by one",
    "Without restarts (torch's default is 0), torchrun ends when one of its workers fails, and "
    "closes the run. Its container starts again, and the closed run rejects it. The other nodes "
    "hang until their collective times out (10 to 30 min). rdzvd ends the other nodes of a c10d "
    "run within seconds, and all containers start again together; over etcd and etcd-v2 the other "
    "nodes hang with rdzvd as well. In an elastic job over etcd, each node that joins also uses up "
    "restarts of the others.",
    "Set --max-restarts=100, PET_MAX_RESTARTS or elasticPolicy.maxRestarts: torchrun then starts "
    "the workers again in the same container, within seconds.",
    PER(run, restarts_none))

/* --- Variables. --- */
RULE("option-env-conflict", WARNING, "an option and its variable have different values",
     "torchrun uses the command line and gives no warning. A person who reads or changes the "
     "variable is misled.",
     "Keep one of the two. With the variable, the command can stay unchanged.",
     PER(run, option_env_conflict))
RULE("env-overwritten", WARNING, "a variable that the Training Operator sets after the user",
     "The operator appends its own value to the container's env, and the last value wins.",
     "Write rendezvous settings into elasticPolicy. The operator derives the other variables from "
     "replicas and nprocPerNode.",
     PER(container, env_overwritten))
RULE("env-reserved", ERROR, "a variable that Trainer reserves for itself",
     "The webhook of Trainer v2 refuses a TrainJob that sets it.",
     "Set numNodes and numProcPerNode instead. PET_RDZV_* and PET_LOCAL_ADDR are free to use.",
     PER(object, env_reserved_in_job) PER(container, env_reserved))
RULE("env-not-expanded", ERROR, "a reference to a variable that nothing replaces",
     "Without a shell, $NAME stays as it is. So does $(NAME) if the container has no "
     "variable NAME. All jobs then share a run with a dollar sign in its id, or DNS is asked for a "
     "host of that name.",
     "Write $(NAME), and set NAME in the container's env.", PER(run, env_not_expanded))
RULE("env-order", ERROR, "$(NAME) of a variable that is set further down",
     "Kubernetes replaces a reference only if the list sets the variable before it. It leaves "
     "other references as they are.",
     "Move the variable above the reference.", PER(container, env_order))
RULE("env-value-not-string", ERROR,
     "a bare yes, number or boolean where Kubernetes expects a string",
     "The API server refuses the object: YAML reads yes, no, on, off, y, n, 010 and 1e3 as "
     "booleans or numbers.",
     "Put quotes around the value.",
     PER(object, object_value_not_string) PER(pods, pods_value_not_string)
         PER(container, env_value_not_string))
RULE("agent-store-restart", ERROR, "an external store without torchrun, and pods that restart",
     "torchrun puts a fresh prefix before the keys of each attempt. Without torchrun, a second "
     "attempt reads the addresses of the first.",
     "Set restartPolicy: Never, or use torchrun.", PER(pods, agent_store_restart))

/* --- The store. --- */
RULE("etcd-no-v2", ERROR, "an etcd that has no v2 API",
     "torch uses no other API. etcd 3.4 and 3.5 serve it only with --enable-v2, and 3.6 removed "
     "it. Such an etcd answers 404, or ends because it does not know --enable-v2.",
     "Run rdzvd instead (`rdzv-manifest rewrite --etcd=NAME`), or etcd 3.5 with --enable-v2.",
     PER(store, etcd_no_v2))
RULE("etcd-advertise", WARNING, "an etcd that advertises addresses which clients cannot use",
     "python-etcd asks etcd for its members and then uses the addresses that etcd advertises. An "
     "etcd with --listen-client-urls and without --advertise-client-urls does not even start.",
     "Set --advertise-client-urls=http://SERVICE:2379.", PER(store, etcd_advertise))
RULE("store-listens-locally", ERROR, "a store that other pods cannot reach",
     "By default etcd and rdzvd listen on loopback only, and connections from other pods are "
     "refused.",
     "Set --listen=0.0.0.0:29400 for rdzvd, --listen-client-urls=http://0.0.0.0:2379 for etcd.",
     PER(store, store_listens_locally))
RULE("store-port-clash", ERROR, "a store on a port that its pod already uses",
     "The containers of a pod share its ports: the second one that listens ends with `address "
     "already in use`.",
     "Give the store another port, such as 29400 or 2379.", PER(store, store_port_clash))
RULE("store-no-probe", WARNING, "a store without any probe",
     "Kubernetes does not notice when the store hangs, a rollout does not wait for it, and a "
     "ClusterIP Service sends agents to it before it listens.",
     "For rdzvd, set startupProbe and readinessProbe on /readyz and livenessProbe on /livez. For "
     "etcd, probe /health.",
     PER(store, store_no_probe))
RULE("store-no-startup-probe", WARNING, "a sidecar store without a startup probe",
     "Without a startup probe, Kubernetes starts the next container as soon as the process of the "
     "sidecar exists. With one, it waits until the store answers.",
     "Set startupProbe: {httpGet: {path: /readyz, port: etcd}, periodSeconds: 1, failureThreshold: "
     "60}.",
     PER(store, store_no_startup_probe))
RULE("store-probe-tcp", NOTE, "a probe of the store that only opens a connection",
     "The kernel accepts connections even if the process hangs, and the store logs a connection "
     "for each probe.",
     "Probe with httpGet: /readyz and /livez for rdzvd, /health for etcd.",
     PER(probe, store_probe_tcp))
RULE("store-probe-loopback", ERROR, "a probe of a port that the store opens on loopback only",
     "The kubelet dials the pod's address. The probe always fails, and Kubernetes restarts the "
     "container again and again.",
     "Use an exec probe, or let the store listen on 0.0.0.0.", PER(probe, store_probe_loopback))
RULE("store-probe-port", ERROR, "a probe of a port at which the store does not listen",
     "The probe always fails. Without a successful startup probe, and after failures of the "
     "liveness probe, Kubernetes restarts the container again and again; without a successful "
     "readiness probe, Services leave the pod out.",
     "Probe a port that a flag such as --listen names, or list the port's name among the ports of "
     "the container.",
     PER(probe, store_probe_port))
RULE("store-probe-path", ERROR, "a probe of a path that rdzvd does not have",
     "rdzvd answers 404, so the probe always fails, and Kubernetes restarts the container again "
     "and again, or leaves the pod out of its Services.",
     "Probe with /readyz and /livez, or with /health as for etcd. The addresses of "
     "--listen-metrics-urls have only /metrics and, except those of a relay, /health.",
     PER(probe, store_probe_path))
RULE("store-replicas", ERROR, "several stores behind one name",
     "Each agent reaches one of the stores at random. The stores share nothing, so the rendezvous "
     "never completes.",
     "Set replicas: 1, or let them share their state in an etcd v3 cluster: "
     "--journal=etcd://HOST:2379,.../NAME.",
     PER(store, store_replicas))
RULE("replicas-probe", ERROR, "replicas whose probes succeed only at the leader",
     "Without --upstream, only the replica that leads answers /readyz with 200. A startup or "
     "liveness probe restarts the others again and again, and a rolling update waits for them "
     "without end.",
     "Probe with /livez at the start. As the readiness probe, take /readyz?exclude=leader where "
     "relays find the leader; where the Service has to lead to it, leave /readyz, and set "
     "strategy: {type: Recreate}, or podManagementPolicy: Parallel. Or give all replicas "
     "--upstream, with the addresses of all: then each replica forwards clients to the leader, and "
     "is ready.",
     PER(probe, replicas_probe))
RULE("replicas-one-node", NOTE, "replicas that may share a node",
     "If this node is lost, every replica is lost, and the job waits until Kubernetes starts them "
     "elsewhere.",
     "Set affinity.podAntiAffinity with topologyKey: kubernetes.io/hostname and the labels of the "
     "pods, or topologySpreadConstraints.",
     PER(store, replicas_one_node))
RULE(
    "replicas-no-budget", NOTE, "replicas without a PodDisruptionBudget",
    "A drain of several nodes, as an update of the cluster is, may take all of them at once.",
    "Add a PodDisruptionBudget with maxUnavailable: 1 and unhealthyPodEvictionPolicy: AlwaysAllow.",
    PER(bundle, find_budgets) PER(store, replicas_no_budget))
RULE("journal-files", ERROR, "an rdzvd with a journal in etcd and one in files",
     "rdzvd ends at once: with --journal=etcd://... all its state is in etcd.",
     "Leave out --data-dir and --sync, and the volume.", PER(store, journal_files))
RULE("journal-blocked", ERROR, "a NetworkPolicy that keeps replicas from etcd",
     "No replica reaches etcd, so none leads: /readyz is 503, and agents wait without end.",
     "Admit the endpoints of --journal in spec.egress, with their ports, beside DNS.",
     PER(store, journal_blocked))
RULE("journal-shared", ERROR, "the stores of two jobs on one journal",
     "Stores with the same journal elect one leader among them, so only one of the two stores "
     "serves. The clients of the other job reach a replica that never leads.",
     "Give each job a NAME of its own in --journal=etcd://HOSTS/NAME, or lead both through one "
     "Service.",
     PER(store, journal_shared))
RULE("tls-relay", ERROR, "a relay and a store that do not agree about TLS",
     "The store refuses the relay (event `refused`), or the relay the store (`upstream_failed`). "
     "It tries again without end, and the agents wait.",
     "With --cert of the store, give the relay --upstream-ca; with its --client-ca, "
     "--upstream-cert and --upstream-key as well.",
     PER(upstream, tls_relay))
RULE("tls-c10d", ERROR, "agents without TLS at a store that wants it",
     "rdzvd with --cert takes plain text only from its own pod, and torch's c10d clients speak "
     "nothing else. They are refused, and try until join_timeout.",
     "Put a relay with --upstream-ca into each pod. With etcd's backends, set "
     "--rdzv-conf=protocol=https and the files. Or start rdzvd with --plaintext=on.",
     PER(run, tls_c10d))
RULE("tls-name", ERROR, "a certificate without the name by which clients come",
     "Each client refuses the store, since its certificate is that of another host.",
     "Add the name to dnsNames, or give relays --upstream-name.",
     PER(bundle, find_certificates) PER(upstream, tls_name_of_relay) PER(run, tls_name))
RULE("tls-secret", ERROR, "a certificate from a Secret that nothing makes",
     "The pod waits in ContainerCreating until the Secret is made.",
     "Give the Certificate that Secret as secretName, in the namespace of the pod.",
     PER(bundle, tls_secret))
RULE("tls-probe", ERROR, "a probe whose scheme differs from its port's",
     "The kubelet comes from the node, with plain text unless scheme is HTTPS, and never has a "
     "certificate. The probe always fails, and Kubernetes restarts the container again and again.",
     "Set scheme: HTTPS. With --client-ca, use exec probes: rdzvd "
     "--check-health=localhost:PORT/readyz, and /livez.",
     PER(probe, tls_probe))
RULE("store-rolling-update", WARNING, "a store that an update replaces under running jobs",
     "A second `kubectl apply` with any change restarts the store, or runs two stores at once. "
     "torch's clients do not reconnect.",
     "For a StatefulSet, set updateStrategy: {type: OnDelete}. For a Deployment, set strategy: "
     "{type: Recreate}. Or put a relay into each pod, and the store's --data-dir on a volume.",
     PER(store, store_rolling_update))
RULE("store-bare-pod", WARNING, "a store in a bare Pod",
     "When its node fails or is drained, the Pod is gone, and every job that meets there ends.",
     "Use a StatefulSet with replicas: 1.", PER(store, store_bare_pod))
RULE("store-no-memory-request", WARNING, "a store that requests no memory",
     "When its node runs out of memory, the store is the first to be killed or evicted, and every "
     "job that meets there ends.",
     "Set resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 256Mi}}.",
     PER(store, store_no_memory_request))
RULE("store-in-memory", WARNING, "a store that forgets everything when it restarts",
     "When its container restarts, the connections of all agents end, and the run that they knew "
     "is gone: the job ends, or begins anew. A relay cannot hide that either.",
     "Set --data-dir to a folder on a volume. `rdzv-manifest emit --rdzv relay` writes that, and a "
     "relay in each pod, so that no agent notices the restart.",
     PER(store, store_in_memory))
RULE("store-data-lost", WARNING, "a --data-dir that does not last as long as the job",
     "Without a volume, the folder is in the container and lost when that restarts. An emptyDir is "
     "lost with its pod: relays then wait for a store that comes back without the run.",
     "Mount a volume there: for a StatefulSet one of volumeClaimTemplates; an emptyDir is enough "
     "for a store without relays.",
     PER(store, store_data_lost))
RULE("store-blocks-completion", ERROR,
     "a store that never ends inside a job that waits for its end",
     "A store runs until it is stopped. The training ends, but the job stays Running.",
     "For a JobSet, list only the training jobs in successPolicy.targetReplicatedJobs. For "
     "Volcano, set minSuccess. Or start rdzvd with --exit-when-idle.",
     PER(store, store_blocks_completion))

/* --- Volcano. --- */
RULE("volcano-min-available", ERROR, "a minAvailable that makes elasticity impossible",
     "Without a minAvailable of the job, or with 0, Volcano waits for the sum of those of the "
     "tasks, and the default of a task is all its pods. The job does not start, or start again, "
     "before that many nodes fit.",
     "Set minAvailable of the task to the minimum of --nnodes. Set minAvailable of the job to the "
     "same, plus the pods of the other tasks. (If it is less than the sum of the tasks, Volcano "
     "ignores those of the tasks.)",
     PER(object, volcano_minimum))
RULE("volcano-min-above", ERROR, "minAvailable above the number of pods",
     "Volcano's webhook refuses the job; without the webhook, its pods wait for ever.",
     "Lower minAvailable, or raise the replicas of the tasks.", PER(object, volcano_min_above))
RULE("volcano-min-zero", WARNING, "`minAvailable: 0`",
     "0 does not mean none: Volcano's webhook replaces it by the sum of the tasks' minAvailable, "
     "whose default is all pods.",
     "Write the number of pods that the job needs.", PER(object, volcano_min_zero))
RULE("volcano-min-success", ERROR, "an elastic job that waits until all its pods succeed",
     "A job that ran with fewer pods never succeeds: pods that come late find the rendezvous "
     "closed and fail.",
     "Set minSuccess to the minimum of --nnodes.", PER(object, volcano_min_success))
RULE("volcano-gang-too-small", WARNING, "a gang that is smaller than the rendezvous",
     "The first pods hold their GPUs, wait for the other pods until join_timeout (600 s), fail and "
     "restart. Two such jobs can block each other for ever.",
     "Set minAvailable of the task to the minimum of --nnodes, and minAvailable of the job to the "
     "sum of all tasks; if it is less, Volcano ignores those of the tasks.",
     PER(object, volcano_gang_too_small))
RULE("volcano-evicted-loop", WARNING, "RestartTask on PodEvicted",
     "RestartTask evicts pods, and that is the same event again. The loop continues until maxRetry "
     "is used up (volcano#4814).",
     "Remove the policy: the controller replaces evicted pods by itself.",
     PER(policy, volcano_evicted_loop))
RULE("volcano-pending-timeout", WARNING, "RestartPod or RestartTask on PodPending",
     "These actions do nothing for a pod that is pending (volcano#4743).",
     "Use AbortJob or RestartJob with the timeout, or no policy.",
     PER(policy, volcano_pending_timeout))
RULE("volcano-restart-pod", WARNING, "RestartPod on an old Volcano",
     "Volcano before 1.11 does not know RestartPod. Volcano before 1.16 deletes the PodGroup and "
     "makes it again (volcano#5385). This rule needs --target volcano=VERSION.",
     "Set restartPolicy: OnFailure, and remove the policy.", PER(policy, volcano_restart_pod))
RULE("volcano-max-retry", WARNING, "restarts of pods that use up maxRetry",
     "Each RestartPod and RestartTask counts towards maxRetry of the whole job (3 by default), and "
     "nothing resets the count. A long job fails when one of its nodes fails often enough.",
     "Set a high maxRetry (1000).", PER(policy, volcano_max_retry))
RULE("volcano-plugin-missing", ERROR, "a VC_ variable of a plugin that the job does not have",
     "The variable is empty: torchrun gets an empty host, or no number of nodes.",
     "Set plugins: {env: [], svc: [\"--publish-not-ready-addresses=true\"]}.",
     PER(container, volcano_plugin_missing))

/* --- Containers beside training, and wrappers. --- */
RULE("sidecar-blocks-completion", ERROR, "a regular container that keeps its pod from ending",
     "A pod ends when all its regular containers have ended. The training ends, but the job stays "
     "Running.",
     "Make it a native sidecar: move it to initContainers, and set restartPolicy: Always.",
     PER(container, sidecar_blocks_completion))
RULE("sidecar-never-ready", ERROR,
     "an rdzvd or etcd among the init containers, without restartPolicy: Always",
     "It is an init container then, and Kubernetes waits for its end before it starts the next "
     "container. It never ends, so the training never starts.",
     "Set restartPolicy: Always: that makes it a native sidecar.",
     PER(container, sidecar_never_ready))
RULE("sidecar-too-old", ERROR, "a native sidecar on a cluster or CRD that is too old for it",
     "The API server drops the field and gives no warning. What remains is an init container that "
     "never ends, and the pod hangs. This rule needs --target kubernetes=VERSION, "
     "training-operator=, volcano= or jobset=.",
     "Use Kubernetes 1.29, Training Operator 1.8, Volcano 1.9, JobSet 0.7 or later. Or run the "
     "store in a pod of its own.",
     PER(container, sidecar_too_old))
RULE("sidecar-not-guaranteed", WARNING, "a sidecar that takes the Guaranteed class from its pod",
     "A pod is Guaranteed only if every container has equal requests and limits for CPU and "
     "memory. Otherwise the training loses its exclusive CPUs.",
     "Give the sidecar equal requests and limits as well.", PER(container, sidecar_not_guaranteed))
RULE("rdzvd-as-root", ERROR, "an rdzvd that is root, though it must not be",
     "The container has runAsNonRoot: true and runAsUser: 0, each of its own or from its pod. The "
     "kubelet does not start it: the container stays in CreateContainerConfigError, and with a "
     "sidecar the whole pod waits.",
     "Set securityContext.runAsUser: 65532 in the container; rdzvd needs no root.",
     PER(store, rdzvd_as_root))
RULE("appwrapper-blocks-completion", ERROR, "a part that never ends, in an AppWrapper of a job",
     "The AppWrapper succeeds when all its pods have ended, and holds its quota until then.",
     "Run the store as a native sidecar of the Master, or outside of the AppWrapper. Or start "
     "rdzvd with --exit-when-idle and restartPolicy: OnFailure.",
     PER(bundle, find_ending_wrappers) PER(pods, appwrapper_blocks_completion))
RULE("mcad-namespace", ERROR, "an MCAD item without a namespace",
     "MCAD makes such an object in the namespace `default`, not in that of the AppWrapper.",
     "Set metadata.namespace on every item.", PER(object, mcad_namespace))
RULE("mcad-resources", WARNING, "an MCAD item whose resources MCAD cannot count",
     "MCAD looks for containers in spec and spec.template only. It dispatches the job even if "
     "there is no room for it.",
     "Set custompodresources: [{replicas, requests, limits}].", PER(object, mcad_resources))
RULE("mcad-labels", ERROR, "pods of an MCAD item without the label of MCAD",
     "MCAD counts pods by this label, and does not add it to nested templates. It counts fewer "
     "pods than minAvailable, deletes the job and queues it again.",
     "Set the label appwrapper.mcad.ibm.com: APPWRAPPER on the pod templates.",
     PER(pods, mcad_labels))

/* --- Relays. --- */
RULE("relay-upstream", ERROR, "a relay whose upstream is no store of these files",
     "The relay waits for its store without end, and the agents wait with it: nothing fails, and "
     "nothing starts.",
     "Set --upstream=SERVICE:29400, with the Service of the rdzvd that holds the state.",
     PER(bundle, find_rdzvds) PER(upstream, relay_upstream))
RULE("relay-without-store", WARNING, "a relay without a store",
     "A relay holds nothing itself. Unless the store is in another file, agents wait without end.",
     "Add the store with its Service (`rdzv-manifest emit --rdzv relay` writes both), or give "
     "check the file that has it.",
     PER(bundle, find_rdzvds) PER(upstream, relay_without_store))
RULE("relay-settings", ERROR, "settings of a relay and of a store in one rdzvd",
     "rdzvd exits at once: --upstream without --journal makes it a relay, "
     "which has no --data-dir, no --sync and no spaces in --listen. Only a relay has --space.",
     "For a relay, set --upstream, --space and --listen=localhost:29400; for a store, leave out "
     "--upstream and --space; for replicas that pass clients on, leave out --space.",
     PER(store, relay_settings))
RULE("relay-space", ERROR, "relays of one job that lead to different places",
     "Each space of each store is a world of its own. Agents in different ones do not meet, and "
     "wait until join_timeout.",
     "Give all relays of a job the same --upstream and the same --space. If a listener of the "
     "store has a space (--listen=ADDR:PORT/SPACE), use that one.",
     PER(store, relay_space))
RULE("relay-listens-outside", WARNING, "a relay that other pods can reach",
     "A NetworkPolicy of the store does not guard its relays. A peer that can write to the store "
     "can make agents run code.",
     "Set --listen=localhost:29400.", PER(store, relay_listens_outside))

/* --- The host network, and proxies. --- */
RULE("host-network-dns", ERROR, "the host network without cluster DNS",
     "Names of Services do not resolve in the pod.", "Set dnsPolicy: ClusterFirstWithHostNet.",
     PER(pods, host_network_dns))
RULE("host-network-port", WARNING, "container ports on the host network",
     "Each is a port of the node. A second such pod stays Pending on that node, and so does the "
     "first one if the node itself uses the port (as control planes use 2379).",
     "List no ports in pods that only connect. Run the store in a pod of its own, off the host "
     "network.",
     PER(container, host_network_port))
RULE("host-network-operator-port", WARNING, "a PyTorchJob on the host network with the port 23456",
     "The Training Operator adds the container port 23456 even on the host network, so pods of two "
     "jobs cannot share a node.",
     "Add a port named pytorchjob-port to the container pytorch, with a number that no other job "
     "uses.",
     PER(container, host_network_operator_port))
RULE("host-network-policy", ERROR, "a NetworkPolicy and pods on the host network",
     "Pod selectors never match pods on the host network. A policy does not protect these pods, "
     "and a policy that admits pods by label blocks them.",
     "Use an ipBlock with the addresses of the nodes, or no policy. For Volcano: svc: "
     "[\"--disable-network-policy=true\"].",
     PER(object, host_network_policy) PER(run, host_network_plugin))
RULE("host-network-store", ERROR, "a store or relay beside the training on the host network",
     "Its ports are ports of the node. Before Kubernetes 1.34 the scheduler ignores the ports of "
     "sidecars, so the second one on a node cannot listen.",
     "Run the store in a pod of its own, off the host network. Give the relays of each job a port "
     "of their own, and list it among the ports of the training container, so that no two such "
     "pods come to one node.",
     PER(store, host_network_store))
RULE("store-blocked", ERROR, "a NetworkPolicy that keeps agents from their store",
     "The agents try to connect until join_timeout (600 s) and fail. A pod that a policy selects "
     "has the traffic that some policy admits, and no other; `egress` without DNS leaves it "
     "without the address of any Service.",
     "Admit the pods of the job in spec.ingress of a policy of the store, at its port. Where a "
     "policy of the job has egress, admit the store's pods at that port (that of the pod, not of "
     "the Service), and port 53 over UDP and TCP to DNS.",
     PER(run, run_blocked) PER(upstream, relay_blocked))
RULE("scrape-blocked", WARNING, "a scrape that a NetworkPolicy keeps out",
     "Annotations or a ServiceMonitor tell Prometheus to scrape the store, and the store's "
     "NetworkPolicy admits only the pods of the job: there are no metrics, and an alert that the "
     "store is down.",
     "Admit the namespace of Prometheus to the port of the metrics: a rule in spec.ingress with "
     "from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]. Best "
     "give the metrics a port of their own (--listen-metrics-urls), where nothing can be written.",
     PER(bundle, find_services) PER(pods, scrape_of_pods) PER(object, scrape_of_monitor))
RULE("istio-injected", ERROR, "Istio's proxy between agents and their store",
     "The proxy holds connections back while it starts, closes idle connections, and takes an "
     "unknown protocol for HTTP. This rule looks at namespaces that the bundle labels for Istio; "
     "with --target istio, at all.",
     "Set the annotation sidecar.istio.io/inject: \"false\" on the pods.",
     PER(pods, istio_injected))

/* --- As Kubernetes wants it written. --- */
RULE("capability-prefix", WARNING, "a capability with CAP_ in front",
     "Kubernetes expects the name without CAP_. With it, the container does not start, or runs "
     "without the capability.",
     "Write SYS_ADMIN, IPC_LOCK and the like.", PER(container, capability_prefix))
RULE("quantity-fraction", ERROR, "a fraction as a quantity in a custom resource",
     "Custom resources accept integers or strings here. The API server refuses the object.",
     "Write \"0.5\" or 500m.",
     PER(object, object_quantity_fraction) PER(container, quantity_fraction))
RULE("pvc-access-mode", WARNING, "a claim for one node that several pods mount",
     "A ReadWriteOnce volume is attached to one node at a time. Pods on other nodes stay in "
     "ContainerCreating.",
     "Set accessModes: [ReadWriteMany], and a storage class that supports it.",
     PER(bundle, find_claims) PER(object, pvc_access_mode))
RULE("storage-class-nil", ERROR, "a storage class named nil",
     "No storage class has that name, and the claim stays Pending.",
     "Remove storageClassName: then the default class is used.", PER(object, storage_class_nil))
RULE("duplicate-key", WARNING, "a key that stands twice in one object",
     "kubectl and helm take the last one and drop the first without a word; strict readers refuse "
     "the file.",
     "Keep one of them.", PER(bundle, duplicate_key))
RULE("duplicate-object", ERROR, "the same object twice",
     "The later object replaces the earlier one.", "Rename one of the two objects, or remove it.",
     PER(bundle, duplicate_object))
