/* The commands of rdzvctl, as commands.py names them. Each command prints its answer on stdout and
 * errors on stderr. */
#pragma once

#include "client/ctl/ctl.h"

struct rdzv_client;

/* run_lists.c: what /rdzv/v1/status says */
enum ctl_exit run_status(const struct ctl *ctl);
enum ctl_exit run_runs(const struct ctl *ctl);
enum ctl_exit run_spaces(const struct ctl *ctl);
enum ctl_exit run_waiters(const struct ctl *ctl);
/* run_keys.c: over c10d */
enum ctl_exit run_keys(const struct ctl *ctl, struct rdzv_client *c);
enum ctl_exit run_get(const struct ctl *ctl, struct rdzv_client *c);
enum ctl_exit run_watch(const struct ctl *ctl, struct rdzv_client *c);
enum ctl_exit run_set(const struct ctl *ctl, struct rdzv_client *c);
enum ctl_exit run_add(const struct ctl *ctl, struct rdzv_client *c);
enum ctl_exit run_delete(const struct ctl *ctl, struct rdzv_client *c);
enum ctl_exit run_wait(const struct ctl *ctl, struct rdzv_client *c);
/* run_probe.c: can the store be used? */
enum ctl_exit run_latency(const struct ctl *ctl, struct rdzv_client *c);
enum ctl_exit run_preflight(const struct ctl *ctl);
enum ctl_exit run_health(const struct ctl *ctl);
/* run_operator.c */
enum ctl_exit run_monitor(const struct ctl *ctl);
enum ctl_exit run_forget(const struct ctl *ctl);
enum ctl_exit run_clear(const struct ctl *ctl);
/* run_texts.c */
enum ctl_exit run_help(const struct ctl *ctl);
enum ctl_exit run_completion(const struct ctl *ctl);
