/* The rules of the verb check, as data: what each finds, why that breaks, and what to write
 * instead. */
#include "deploy/check/check.h"

#include <string.h>

#define ERROR   CHECK_ERROR
#define WARNING CHECK_WARNING
#define NOTE    CHECK_NOTE

const struct check_rule check_rules[] = {
    /* --- The run id. --- */
    {"rdzv-id-missing", ERROR, "no rendezvous id on a store that the job does not own",
     "torch's default id is the word `none`. All jobs without an id meet in one run, and a run "
     "that has ended stays closed: the next job ends with RendezvousClosedError, or finds another "
     "job's nodes.",
     "set --rdzv_id, PET_RDZV_ID or elasticPolicy.rdzvId to something with the job's name or uid "
     "in it",
     check_id_missing},
    {"rdzv-id-fixed", ERROR, "a constant rendezvous id on a store that the job does not own",
     "every job made from this file meets under the same id, at the same time or after another: "
     "the second one joins the first one's run, or finds it closed.",
     "put the job's name in the id, better its uid: a Volcano Job offers "
     "metadata.annotations['scheduling.k8s.io/group-name'] and ['volcano.sh/job-version'], a "
     "JobSet metadata.labels['jobset.sigs.k8s.io/jobset-uid']",
     check_id_fixed},
    {"rdzv-id-shared", ERROR, "two jobs with one rendezvous id at one store",
     "both jobs' agents join one run: it counts too many nodes, and hands ranks of one job to the "
     "other.",
     "an id for each job, with its name in it", check_id_shared},
    {"volcano-restart-job-id", ERROR, "RestartJob, and an id that stays the same",
     "the attempt that failed has closed the run under this id, and an etcd keeps that for hours: "
     "each new attempt ends with RendezvousClosedError until maxRetry is used up. (Over c10d rdzvd "
     "forgets closed runs.)",
     "add metadata.annotations['volcano.sh/job-version'] to the id, or restart in place: "
     "restartPolicy OnFailure and no RestartJob",
     check_volcano_restart_job_id},

    /* --- The backend and its conf. --- */
    {"rdzv-backend-missing", ERROR,
     "torchrun without a backend, where a store or a range of nodes is",
     "torchrun's default backend is static: node rank 0 serves the store, whatever else there is, "
     "and a range of nodes counts as its maximum.",
     "--rdzv_backend=c10d (or PET_RDZV_BACKEND), with the store as --rdzv_endpoint",
     check_backend_missing},
    {"rdzv-backend-unknown", ERROR, "a backend that torch does not have",
     "torchrun ends at once: the rendezvous backends are static, c10d, etcd and etcd-v2; nccl and "
     "gloo are process groups, which the script chooses.",
     "--rdzv_backend=c10d", check_backend_unknown},
    {"rdzv-is-host", ERROR, "is_host is left to guess, or not 0, beside a store of its own",
     "without is_host=0 an agent compares host names and addresses with the endpoint, and on a "
     "match serves a store itself: some nodes meet there and the others elsewhere.",
     "--rdzv_conf=is_host=0, PET_RDZV_CONF=is_host=0, or in elasticPolicy rdzvConf: [{key: "
     "is_host, value: \"0\"}]",
     check_is_host},
    {"rdzv-hosted-by-worker", WARNING, "a training pod is the store",
     "a TCPStore client never reconnects. When this one pod is evicted, preempted or restarted, "
     "every agent of the job ends, and what they had agreed on is gone.",
     "a store outside the training pods: `rdzv-manifest rewrite` moves the job to rdzvd",
     check_hosted_by_worker},
    {"rdzv-conf-unknown", WARNING, "a conf key that torch does not know",
     "torch ignores unknown keys without a word, so the default stays in force.",
     "the keys are is_host, store_type, read_timeout, join_timeout, last_call_timeout, "
     "close_timeout, heartbeat_timeout, keep_alive_interval, keep_alive_max_attempt, and those for "
     "TLS of etcd",
     check_conf_unknown},
    {"rdzv-conf-syntax", ERROR, "a conf key without a value",
     "torchrun ends at once: a conf is a list of key=value, with commas between.",
     "--rdzv_conf=key=value,key=value", check_conf_syntax},
    {"rdzv-flag-unknown", ERROR, "an option that torchrun does not have",
     "torchrun prints its usage and ends with exit code 2.",
     "torchrun --help lists its options; what is meant for the script goes behind the script",
     check_flag_unknown},

    /* --- The endpoint. --- */
    {"rdzv-endpoint-form", ERROR, "an endpoint that torch does not take",
     "torch takes one host and one port: no scheme, no list, no path. It ends at once, or looks up "
     "a host of that name.",
     "--rdzv_endpoint=HOST:PORT", check_endpoint_form},
    {"rdzv-endpoint-localhost", ERROR, "several pods, and each meets on its own loopback",
     "every pod looks for the store in itself. Each starts one, alone, and waits for the others "
     "until the join timeout.",
     "the name of a Service that selects the store, or a store (a relay) in each pod",
     check_endpoint_localhost},
    {"rdzv-endpoint-port", ERROR, "the endpoint's port is not there",
     "connections are refused or vanish, and after read_timeout (60 s) each agent ends with "
     "RendezvousConnectionError.",
     "the port of the Service on which the store listens: 29400 for c10d, 2379 for etcd",
     check_endpoint_port},
    {"rdzv-endpoint-namespace", ERROR, "the endpoint's Service is in another namespace",
     "a name without a namespace is looked up in the pod's own, where this Service is not.",
     "the same metadata.namespace on both, or SERVICE.NAMESPACE.svc as host",
     check_endpoint_namespace},
    {"service-selects-nothing", ERROR, "the endpoint's Service selects no pod",
     "the name resolves to nothing, and each agent ends with RendezvousConnectionError.",
     "the labels of the store's pod template in spec.selector", check_service_selects_nothing},
    {"service-target-port", ERROR, "a Service leads to a port on which nobody listens",
     "connections to this port are refused.",
     "targetPort: the number or the name of a port of the store's container",
     check_service_target_port},
    {"headless-port-mapping", ERROR, "a headless Service that is to map ports",
     "a headless Service gives the pod's address and nothing else; clients dial the number they "
     "were given, on the pod.",
     "port and targetPort the same, and the store listening there", check_headless_port_mapping},
    {"not-ready-addresses", WARNING, "a store's name that resolves only when the pod is Ready",
     "agents that start first find no such name, and look again for read_timeout (60 s) at most; "
     "and a store that replays, or fails one probe, loses its name under a running job.",
     "publishNotReadyAddresses: true (Volcano: svc: [\"--publish-not-ready-addresses=true\"])",
     check_not_ready_addresses},
    {"service-name-taken", ERROR, "a Service with the name that a controller gives to its own",
     "the controller finds a Service that is not its own, and either fails or changes it.",
     "another name, as JOB-rdzv", check_service_name_taken},
    {"enable-service-links", ERROR,
     "a Service whose links set a variable that torch or rdzvd could read",
     "Kubernetes writes NAME_PORT=tcp://ADDRESS:PORT into every container of the namespace; where "
     "a number is expected, the program ends.",
     "enableServiceLinks: false in the pods, or another name for the Service",
     check_enable_service_links},
    {"local-addr-missing", WARNING, "torch has to guess the pod's own address",
     "agent 0 gives its host name to all workers. On the host network, and where no Service makes "
     "the name resolve, they wait for it in vain (up to 300 s), or use the wrong network.",
     "PET_LOCAL_ADDR from fieldRef status.podIP", check_local_addr_missing},

    /* --- Nodes. --- */
    {"nnodes-missing", ERROR, "several pods, and torchrun is not told of them",
     "torchrun's default is one node: each pod trains alone, or finds the run of another one "
     "complete.",
     "--nnodes=N, or --nnodes=MIN:MAX", check_nodes_missing},
    {"nnodes-too-many", ERROR, "more nodes than pods",
     "the rendezvous is never complete; each agent ends after join_timeout (600 s).",
     "as many pods as --nnodes says, at least its minimum", check_nodes_too_many},
    {"nnodes-world-size", ERROR, "WORLD_SIZE as the number of nodes",
     "the Training Operator's WORLD_SIZE is pods times nprocPerNode, so the rendezvous waits for "
     "nodes that will never be.",
     "--nnodes=N as a number, or no --nnodes at all: the operator sets PET_NNODES",
     check_nodes_world_size},
    {"elastic-range", ERROR, "a range of nodes that cannot be met",
     "with fewer pods than the minimum the rendezvous is never complete; pods above the maximum "
     "wait, time out, and are restarted for nothing.",
     "minimum <= pods <= maximum", check_elastic_range},
    {"elastic-gang", WARNING, "a gang that is larger than the elastic minimum",
     "the scheduler places nothing until that many pods fit at once, so the job cannot start, or "
     "start again, with the nodes that elasticPolicy allows.",
     "schedulingPolicy.minAvailable: the same as minReplicas", check_elastic_gang},
    {"elastic-restart-never", WARNING, "an elastic job whose pods are not restarted",
     "a pod that fails stays failed: nobody joins in its place.", "restartPolicy: OnFailure",
     check_elastic_restart_never},

    /* --- Variables. --- */
    {"option-env-conflict", WARNING, "an option and its variable say different things",
     "the command line wins without a word, and whoever reads or changes the variable is misled.",
     "one of the two; variables reach torchrun without a change of the command",
     check_option_env_conflict},
    {"env-overwritten", WARNING, "a variable that the Training Operator sets after the user",
     "the operator puts its own value behind the user's, and the last one wins.",
     "in elasticPolicy what concerns the rendezvous; the rest follows from replicas and "
     "nprocPerNode",
     check_env_overwritten},
    {"env-reserved", ERROR, "a variable that Trainer keeps for itself",
     "Trainer v2's webhook refuses a TrainJob that sets it.",
     "numNodes and numProcPerNode; PET_RDZV_* and PET_LOCAL_ADDR are free", check_env_reserved},
    {"env-not-expanded", ERROR, "a variable that nobody replaces",
     "without a shell $NAME stays as it is, and so does $(NAME) of a variable that the container "
     "does not have: all jobs share a run with a dollar in its name, or a host of that name is "
     "looked up.",
     "$(NAME), with NAME in the container's env", check_env_not_expanded},
    {"env-order", ERROR, "$(NAME) of a variable that is set further down",
     "Kubernetes replaces only what was set earlier in the list, and leaves the rest as it is.",
     "the other order", check_env_order},
    {"env-value-not-string", ERROR, "a bare yes, number or boolean where a string is wanted",
     "the API server refuses the object: YAML takes yes, no, on, off, y, n, 010 and 1e3 for "
     "something else.",
     "quote it", check_env_value_not_string},
    {"agent-store-restart", ERROR,
     "an external store without torchrun, and pods that are restarted",
     "without torchrun nobody puts a fresh prefix before the keys of a second attempt: it reads "
     "the addresses of the first one.",
     "restartPolicy: Never, or torchrun", check_agent_store_restart},

    /* --- The store. --- */
    {"etcd-no-v2", ERROR, "an etcd that has no v2 API",
     "etcd 3.6 removed the v2 API, which is all that torch speaks: it does not know --enable-v2 "
     "and ends, or answers 404.",
     "rdzvd in its place (`rdzv-manifest rewrite`), or an image pinned to 3.5", check_etcd_no_v2},
    {"etcd-advertise", WARNING, "an etcd that sends its clients away",
     "python-etcd asks for the members and goes on with the addresses that etcd advertises. Told "
     "where to listen and not what to advertise, etcd does not even start.",
     "--advertise-client-urls=http://SERVICE:2379", check_etcd_advertise},
    {"store-listens-locally", ERROR, "a store that other pods cannot reach",
     "etcd and rdzvd listen on loopback unless told otherwise; connections from other pods are "
     "refused.",
     "rdzvd: --listen=0.0.0.0:29400; etcd: --listen-client-urls=http://0.0.0.0:2379",
     check_store_listens_locally},
    {"store-port-clash", ERROR, "a store on a port that its pod already uses",
     "containers of a pod share its ports: whoever comes second ends with `address already in "
     "use`.",
     "another port for the store: 29400, 2379", check_store_port_clash},
    {"store-no-probe", WARNING, "a store without any probe",
     "nobody sees when it hangs, a rollout does not wait for it, and a ClusterIP Service sends "
     "agents to it before it listens.",
     "for rdzvd startupProbe and readinessProbe on /readyz, livenessProbe on /livez; for etcd on "
     "/health",
     check_store_no_probe},
    {"store-no-startup-probe", WARNING, "a sidecar store without a startup probe",
     "the next container starts as soon as the sidecar's process exists. With a startup probe it "
     "waits until the store answers.",
     "startupProbe: {httpGet: {path: /readyz, port: etcd}, periodSeconds: 1, failureThreshold: 60}",
     check_store_no_startup_probe},
    {"store-probe-tcp", NOTE, "a store that is probed by opening a connection",
     "the kernel accepts connections for a process that hangs, and each probe leaves a connection "
     "behind in the log.",
     "httpGet /readyz and /livez (etcd: /health)", check_store_probe_tcp},
    {"store-probe-loopback", ERROR, "a probe of a listener on loopback",
     "the kubelet dials the pod's address: the probe always fails, and the container is restarted "
     "again and again.",
     "an exec probe, or a listener on 0.0.0.0", check_store_probe_loopback},
    {"store-replicas", ERROR, "several stores behind one name",
     "each agent reaches one of them at random; they share nothing, and the rendezvous is never "
     "complete.",
     "replicas: 1", check_store_replicas},
    {"store-rolling-update", WARNING, "a store that an update replaces under running jobs",
     "a second `kubectl apply` with any change restarts the store, or runs two at once; torch's "
     "clients do not reconnect.",
     "StatefulSet: updateStrategy: {type: OnDelete}; Deployment: strategy: {type: Recreate}",
     check_store_rolling_update},
    {"store-bare-pod", WARNING, "a store in a bare Pod",
     "when its node fails or is drained, the Pod is gone, and with it every job that meets there.",
     "a StatefulSet with replicas: 1", check_store_bare_pod},
    {"store-no-memory-request", WARNING, "a store that asks for no memory",
     "it is the first to be killed or evicted when its node runs short, and every job that meets "
     "there ends.",
     "resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 256Mi}}",
     check_store_no_memory_request},
    {"store-blocks-completion", ERROR, "a store whose end the job waits for",
     "a store runs until it is stopped; the job has done its work and stays Running.",
     "JobSet: successPolicy.targetReplicatedJobs with the training jobs alone; Volcano: "
     "minSuccess; or rdzvd's --exit-when-idle",
     check_store_blocks_completion},

    /* --- Volcano. --- */
    {"volcano-min-available", ERROR, "a minAvailable that makes elasticity impossible",
     "Volcano takes an absent or zero minAvailable for all pods, of the job and of each task: the "
     "job does not start, or start again, before the maximum fits.",
     "minAvailable: the minimum of --nnodes, on the task and on the job (there plus the other "
     "tasks)",
     check_volcano_minimum},
    {"volcano-min-zero", WARNING, "minAvailable: 0",
     "it does not mean none: Volcano's webhook replaces it by the sum of all tasks.",
     "the number that is wanted", check_volcano_min_zero},
    {"volcano-min-success", ERROR, "an elastic job that waits for all its pods to succeed",
     "a job that ran with fewer pods never gets there: the late pods start into a closed "
     "rendezvous, and fail.",
     "minSuccess: the minimum of --nnodes", check_volcano_min_success},
    {"volcano-gang-too-small", WARNING, "a gang that is smaller than the rendezvous",
     "the first pods hold their GPUs and wait for the rest until join_timeout (600 s), then fail "
     "and are restarted; two such jobs can block each other for ever.",
     "minAvailable of the task: the minimum of --nnodes", check_volcano_gang_too_small},
    {"volcano-evicted-loop", WARNING, "RestartTask on PodEvicted",
     "the action evicts pods, which is the event again, until maxRetry is used up (volcano#4814).",
     "no policy: the controller makes an evicted pod again by itself", check_volcano_evicted_loop},
    {"volcano-pending-timeout", WARNING, "RestartPod or RestartTask on PodPending",
     "these actions do nothing for a pod that is pending (volcano#4743).",
     "AbortJob or RestartJob with the timeout, or no policy", check_volcano_pending_timeout},
    {"volcano-restart-pod", WARNING, "RestartPod, and a Volcano that is too old for it",
     "before 1.11 there is no such action; before 1.16 it deletes the PodGroup and makes it anew "
     "(volcano#5385). Looked at with --target volcano=VERSION.",
     "restartPolicy: OnFailure, and no policy", check_volcano_restart_pod},
    {"volcano-max-retry", WARNING, "pod restarts that use up maxRetry",
     "every RestartPod and RestartTask counts towards the job's one maxRetry (3 by default), and "
     "nothing resets it: a long job fails at some node's fault.",
     "a high maxRetry (1000)", check_volcano_max_retry},
    {"volcano-plugin-missing", ERROR, "a VC_ variable of a plugin that is not there",
     "the variable is empty: torchrun gets an empty host, or no number of nodes.",
     "plugins: {env: [], svc: [\"--publish-not-ready-addresses=true\"]}",
     check_volcano_plugin_missing},

    /* --- Containers beside training, and wrappers. --- */
    {"sidecar-blocks-completion", ERROR, "a plain container that keeps its pod from ending",
     "a pod ends when all its regular containers have: the job has done its work and stays "
     "Running.",
     "a native sidecar: under initContainers, with restartPolicy: Always",
     check_sidecar_blocks_completion},
    {"sidecar-too-old", ERROR, "a native sidecar, and a cluster or CRD that is too old for it",
     "the field is dropped without a word, and what remains is an init container that never ends: "
     "the pod hangs. Looked at with --target kubernetes=VERSION, training-operator=, volcano=, "
     "jobset=.",
     "Kubernetes 1.29, Training Operator 1.8, Volcano 1.9, JobSet 0.7; or the store in a pod of "
     "its own",
     check_sidecar_too_old},
    {"sidecar-not-guaranteed", WARNING, "a sidecar that takes the pod's Guaranteed class away",
     "a pod is Guaranteed only when every container has equal requests and limits for CPU and "
     "memory; without it training loses its exclusive CPUs.",
     "equal requests and limits on the sidecar too", check_sidecar_not_guaranteed},
    {"appwrapper-blocks-completion", ERROR, "something in an AppWrapper that never ends",
     "the AppWrapper succeeds when its pods have ended, and holds its quota until then.",
     "a native sidecar of the Master, or the store outside of the AppWrapper; rdzvd with "
     "--exit-when-idle and restartPolicy: OnFailure",
     check_appwrapper_blocks_completion},
    {"mcad-namespace", ERROR, "an MCAD item without a namespace",
     "MCAD makes such an object in the namespace `default`, whatever the AppWrapper's own is.",
     "metadata.namespace on every item", check_mcad_namespace},
    {"mcad-resources", WARNING, "an MCAD item whose resources cannot be counted",
     "MCAD looks for containers in spec and spec.template only: it dispatches the job without room "
     "for it.",
     "custompodresources: [{replicas, requests, limits}]", check_mcad_resources},
    {"mcad-labels", ERROR, "pods of an MCAD item without MCAD's label",
     "MCAD counts pods by label and does not reach nested templates: it sees fewer than "
     "minAvailable and queues the job again, deleting it.",
     "the label appwrapper.mcad.ibm.com: APPWRAPPER on the pod templates", check_mcad_labels},

    /* --- The host network, and proxies. --- */
    {"host-network-dns", ERROR, "the host network without cluster DNS",
     "Service names do not resolve in the pod.", "dnsPolicy: ClusterFirstWithHostNet",
     check_host_network_dns},
    {"host-network-port", WARNING, "container ports on the host network",
     "each is a port of the node: a second such pod on one node stays Pending, and so does this "
     "one where the node itself uses the port (2379 on control planes).",
     "no ports in pods that only connect; the store in a pod of its own, off the host network",
     check_host_network_port},
    {"host-network-operator-port", WARNING, "a PyTorchJob on the host network with the port 23456",
     "the Training Operator adds the container port 23456 even there: pods of two jobs cannot "
     "share a node.",
     "a port with the name pytorchjob-port and a number of this job's own in container pytorch",
     check_host_network_operator_port},
    {"host-network-policy", ERROR, "a NetworkPolicy and pods on the host network",
     "pod selectors never match pods on the host network: a policy does not protect them, and one "
     "that admits them by label keeps them out.",
     "an ipBlock with the nodes' addresses, or no policy; Volcano: svc: "
     "[\"--disable-network-policy=true\"]",
     check_host_network_policy},
    {"host-network-store", ERROR, "a store beside training on the host network",
     "its ports are the node's. Until Kubernetes 1.34 the scheduler does not see those of "
     "sidecars: the second store on a node fails to bind.",
     "the store in a pod of its own, off the host network", check_host_network_store},
    {"istio-injected", ERROR, "Istio's proxy between agents and their store",
     "the proxy holds back connections while it starts, cuts idle ones, and takes a protocol that "
     "it does not know for HTTP. Looked at in namespaces that a bundle labels for Istio, or with "
     "--target istio.",
     "the annotation sidecar.istio.io/inject: \"false\" on the pods", check_istio_injected},

    /* --- As Kubernetes wants it written. --- */
    {"capability-prefix", WARNING, "a capability with CAP_",
     "Kubernetes wants the name without CAP_; with it the container does not start, or runs "
     "without the capability.",
     "SYS_ADMIN, IPC_LOCK", check_capability_prefix},
    {"quantity-fraction", ERROR, "a fraction as a quantity in a custom resource",
     "custom resources take integers or strings here: the API server refuses the object.",
     "\"0.5\" or 500m", check_quantity_fraction},
    {"pvc-access-mode", WARNING, "a claim for one node, mounted by several pods",
     "ReadWriteOnce is one node at a time: pods on other nodes stay in ContainerCreating.",
     "accessModes: [ReadWriteMany], and a class that can", check_pvc_access_mode},
    {"storage-class-nil", ERROR, "a storage class with the name nil",
     "no class has that name, and the claim stays Pending.", "no storageClassName, for the default",
     check_storage_class_nil},
    {"duplicate-object", ERROR, "one object twice", "the later one replaces the earlier one.",
     "another name, or one of the two", check_duplicate_object},
};

const size_t check_rule_count = sizeof check_rules / sizeof *check_rules;

const struct check_rule *check_rule_named(const char *id)
{
    for (size_t i = 0; i < check_rule_count; i++) {
        if (strcmp(check_rules[i].id, id) == 0)
            return &check_rules[i];
    }
    return NULL;
}
