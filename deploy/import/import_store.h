/* The settings of a store in its pod of its own: how it is kept, and who gets to it. */
#pragma once

#include "deploy/import/import_job.h"

/* Whether it is one of several replicas, whose state is in etcd. */
bool import_is_replica(struct importer *m, const struct job_store *s);

/* Whether the job has relays to one store that other files have. */
bool import_is_relayed_elsewhere(struct importer *m);
/* Puts the placement of such a job into `rdzv`, and how its relays get there. */
void import_relays(struct importer *m, struct yaml_node *rdzv);

/* Puts the TLS of agents on etcd-v2 to such a store into `rdzv`, if emit has written it. */
void import_client_tls(struct importer *m, struct yaml_node *rdzv);

/* What emit calls the store's objects. */
const char *import_store_name(struct importer *m);

/* Puts into `rdzv` how the user wants the store's pod, unless that trains, too; and what a store of
 * its own has: name, volume, journal, replicas, relays, tls and adminToken. */
void import_store(struct importer *m, const struct job_store *s, struct yaml_node *rdzv);
