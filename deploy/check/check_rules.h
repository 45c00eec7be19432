/* The rules of the verb check: for each its severity and the functions that examine things; what it
 * says is in deploy/data/rules.yaml, in the same order. This file is included several times, each
 * time with another meaning of RULE().
 *
 * To add a rule: write its function into the check_*.c of its subject, add its row here and its
 * texts there. PER() names what the engine calls the function for, FIRST() the same for one that
 * only finds what it looks up: see struct check_calls. Put a
 * manifest with the fault and its mended twin into tests/manifest/check. The rule must find nothing
 * in any other file there, nor in what emit prints. `tests/manifest/check.py --update` then writes
 * its row into deploy/README.md. */
#ifndef RULE
#define RULE(id, severity, functions)
#endif

/* --- The run id. --- */
RULE("rdzv-id-missing", ERROR, PER(run, id_missing))
RULE("rdzv-id-fixed", ERROR, PER(run, id_fixed))
RULE("rdzv-id-shared", ERROR, PER(run, id_shared))
RULE("rdzv-id-differs", ERROR, PER(run, id_of_pod))
RULE("volcano-restart-job-id", ERROR, PER(policy, volcano_restart_job_id))

/* --- The backend and its conf. --- */
RULE("rdzv-backend-missing", ERROR, FIRST(store, find_idle_store) PER(run, backend_missing))
RULE("rdzv-backend-unknown", ERROR, PER(run, backend_unknown))
RULE("rdzv-is-host", ERROR, PER(run, is_host))
RULE("rdzv-host-no-pod", ERROR, PER(run, host_no_pod))
RULE("rdzv-hosted-by-worker", WARNING, PER(run, hosted_by_worker))
RULE("rdzv-conf-unknown", WARNING, PER(run, conf_unknown))
RULE("rdzv-conf-syntax", ERROR, PER(run, conf_syntax))
RULE("rdzv-flag-unknown", ERROR, PER(run, flag_unknown))

/* --- The endpoint. --- */
RULE("rdzv-endpoint-form", ERROR, PER(run, endpoint_form))
RULE("rdzv-endpoint-localhost", ERROR, PER(run, endpoint_localhost))
RULE("rdzv-endpoint-port", ERROR, PER(run, endpoint_port))
RULE("rdzv-endpoint-namespace", ERROR, PER(run, endpoint_namespace))
RULE("rdzv-endpoint-unknown", WARNING, FIRST(object, find_unused_stores) PER(run, endpoint_unknown))
RULE("service-selects-nothing", ERROR, PER(object, service_selects_nothing))
RULE("service-target-port", ERROR, PER(object, service_target_port))
RULE("headless-port-mapping", ERROR, PER(object, headless_port_mapping))
RULE("not-ready-addresses", WARNING,
     FIRST(run, find_name_givers) PER(object, not_ready_service) PER(run, not_ready_pod))
RULE("service-name-taken", ERROR, FIRST(object, find_made_services) PER(object, service_name_taken))
RULE("enable-service-links", ERROR, PER(object, enable_service_links))
RULE("local-addr-missing", WARNING, PER(run, local_addr_missing))

/* --- Nodes. --- */
RULE("nnodes-missing", ERROR, PER(run, nodes_missing))
RULE("gang-alone", ERROR, PER(run, gang_alone))
RULE("nnodes-too-many", ERROR, PER(run, nodes_too_many))
RULE("nnodes-too-few", WARNING, PER(object, nodes_too_few))
RULE("nnodes-world-size", ERROR, PER(run, nodes_world_size))
RULE("elastic-range", ERROR, PER(object, elastic_policy_range) PER(run, elastic_range))
RULE("elastic-policy-field", ERROR, PER(object, elastic_policy_field))
RULE("elastic-gang", WARNING, PER(object, elastic_gang))
RULE("gang-above", ERROR, PER(object, gang_above))
RULE("elastic-restart-never", WARNING, PER(run, elastic_restart_never))
RULE("restarts-none", WARNING, PER(run, restarts_none))

/* --- Variables. --- */
RULE("option-env-conflict", WARNING, PER(run, option_env_conflict))
RULE("env-overwritten", WARNING, PER(container, env_overwritten))
RULE("env-reserved", ERROR, PER(object, env_reserved_in_job) PER(container, env_reserved))
RULE("env-not-expanded", ERROR, PER(run, env_not_expanded))
RULE("env-order", ERROR, PER(container, env_order))
RULE("env-value-not-string", ERROR,
     PER(object, object_value_not_string) PER(pods, pods_value_not_string)
         PER(container, env_value_not_string))
RULE("agent-store-restart", ERROR, PER(pods, agent_store_restart))

/* --- The store. --- */
RULE("etcd-no-v2", ERROR, PER(store, etcd_no_v2))
RULE("etcd-advertise", WARNING, PER(store, etcd_advertise))
RULE("store-listens-locally", ERROR, PER(store, store_listens_locally))
RULE("store-port-clash", ERROR, PER(store, store_port_clash))
RULE("store-no-probe", WARNING, PER(store, store_no_probe))
RULE("store-no-startup-probe", WARNING, PER(store, store_no_startup_probe))
RULE("store-probe-tcp", NOTE, PER(probe, store_probe_tcp))
RULE("store-probe-loopback", ERROR, PER(probe, store_probe_loopback))
RULE("store-probe-port", ERROR, PER(probe, store_probe_port))
RULE("store-probe-path", ERROR, PER(probe, store_probe_path))
RULE("store-replicas", ERROR, PER(store, store_replicas))
RULE("replicas-probe", ERROR, PER(probe, replicas_probe))
RULE("replicas-one-node", NOTE, PER(store, replicas_one_node))
RULE("replicas-no-budget", NOTE, FIRST(object, find_budgets) PER(store, replicas_no_budget))
RULE("journal-files", ERROR, PER(store, journal_files))
RULE("journal-blocked", ERROR, PER(store, journal_blocked))
RULE("journal-shared", ERROR, PER(store, journal_shared))
RULE("tls-relay", ERROR, PER(upstream, tls_relay))
RULE("tls-c10d", ERROR, PER(run, tls_c10d))
RULE("tls-name", ERROR,
     FIRST(object, find_certificates) PER(upstream, tls_name_of_relay) PER(run, tls_name))
RULE("tls-secret", ERROR,
     FIRST(pods, find_mounted_secrets) FIRST(object, find_shown_secrets)
         PER(object, find_idle_certificate) PER(store, tls_secret))
RULE("tls-probe", ERROR, PER(probe, tls_probe))
RULE("store-rolling-update", WARNING, PER(store, store_rolling_update))
RULE("store-bare-pod", WARNING, PER(store, store_bare_pod))
RULE("store-no-memory-request", WARNING, PER(store, store_no_memory_request))
RULE("store-in-memory", WARNING, PER(store, store_in_memory))
RULE("store-data-lost", WARNING, PER(store, store_data_lost))
RULE("store-blocks-completion", ERROR, PER(store, store_blocks_completion))

/* --- Volcano. --- */
RULE("volcano-min-available", ERROR, PER(object, volcano_minimum))
RULE("volcano-min-above", ERROR, PER(object, volcano_min_above))
RULE("volcano-min-zero", WARNING, PER(object, volcano_min_zero))
RULE("volcano-min-success", ERROR, PER(object, volcano_min_success))
RULE("volcano-gang-too-small", WARNING, PER(object, volcano_gang_too_small))
RULE("volcano-evicted-loop", WARNING, PER(policy, volcano_evicted_loop))
RULE("volcano-pending-timeout", WARNING, PER(policy, volcano_pending_timeout))
RULE("volcano-restart-pod", WARNING, PER(policy, volcano_restart_pod))
RULE("volcano-max-retry", WARNING, PER(policy, volcano_max_retry))
RULE("volcano-plugin-missing", ERROR, PER(container, volcano_plugin_missing))

/* --- Containers beside training, and wrappers. --- */
RULE("sidecar-blocks-completion", ERROR, PER(container, sidecar_blocks_completion))
RULE("sidecar-never-ready", ERROR, PER(container, sidecar_never_ready))
RULE("sidecar-too-old", ERROR, PER(container, sidecar_too_old))
RULE("sidecar-not-guaranteed", WARNING, PER(container, sidecar_not_guaranteed))
RULE("rdzvd-as-root", ERROR, PER(store, rdzvd_as_root))
RULE("appwrapper-blocks-completion", ERROR,
     FIRST(pods, find_ending_wrappers) PER(pods, appwrapper_blocks_completion))
RULE("mcad-namespace", ERROR, PER(object, mcad_namespace))
RULE("mcad-resources", WARNING, PER(object, mcad_resources))
RULE("mcad-labels", ERROR, PER(pods, mcad_labels))

/* --- Relays. --- */
RULE("relay-upstream", ERROR, FIRST(store, find_rdzvds) PER(upstream, relay_upstream))
RULE("relay-without-store", WARNING, FIRST(store, find_rdzvds) PER(upstream, relay_without_store))
RULE("relay-settings", ERROR, PER(store, relay_settings))
RULE("relay-space", ERROR, PER(store, relay_space))
RULE("relay-listens-outside", WARNING, PER(store, relay_listens_outside))
RULE("inject-label", ERROR, PER(object, inject_label))

/* --- The host network, and proxies. --- */
RULE("host-network-dns", ERROR, PER(pods, host_network_dns))
RULE("host-network-port", WARNING, PER(container, host_network_port))
RULE("host-network-operator-port", WARNING, PER(container, host_network_operator_port))
RULE("host-network-policy", ERROR, PER(object, host_network_policy) PER(run, host_network_plugin))
RULE("host-network-store", ERROR, PER(store, host_network_store))
RULE("store-blocked", ERROR, PER(run, run_blocked) PER(upstream, relay_blocked))
RULE("scrape-blocked", WARNING,
     FIRST(object, find_services) PER(pods, scrape_of_pods) PER(object, scrape_of_monitor))
RULE("istio-injected", ERROR, PER(pods, istio_injected))

/* --- As Kubernetes wants it written. --- */
RULE("capability-prefix", WARNING, PER(container, capability_prefix))
RULE("quantity-fraction", ERROR,
     PER(object, object_quantity_fraction) PER(container, quantity_fraction))
RULE("pvc-access-mode", WARNING, FIRST(pods, find_claims) PER(object, pvc_access_mode))
RULE("storage-class-nil", ERROR, PER(object, storage_class_nil))
RULE("duplicate-key", WARNING, PER(object, duplicate_key))
RULE("duplicate-object", ERROR, PER(object, duplicate_object))
