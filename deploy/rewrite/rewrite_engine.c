/* The order in which a bundle is looked at: its etcd, what meets there, and the jobs beside it. */
#include "deploy/rewrite/rewrite_engine.h"

#include "deploy/rewrite/rewrite_etcd.h"
#include "deploy/rewrite/rewrite_plan.h"

#include <string.h>

bool rewrite_changed(const struct bundle_file *f)
{
    return f->result.len != f->yaml.len || memcmp(f->result.bytes, f->yaml.bytes, f->yaml.len) != 0;
}

/* How many things there were to rewrite. */
static size_t plan(struct bundle *b)
{
    const struct rewrite_options *o = b->options;
    struct etcd *e = o->from_c10d && !o->from_etcd ? NULL : etcd_find(b);
    struct object **services = NULL;
    size_t found = 0, count = 0, self;
    bool look;

    if (b->diag->errors > 0)
        return 0;
    if (e != NULL) {
        found++;
        move_from_etcd(b, e, !o->keep_backend, &services, &count);
        etcd_replace(b, e, !o->keep_backend, services, count);
    }
    look = o->keep_backend || (o->from_etcd && !o->from_c10d);
    self = move_self_hosted(b, look);
    found += look ? 0 : self;
    self = move_to_agent_store(b, !o->agent_store);
    found += o->agent_store ? self : 0;
    return found;
}

size_t rewrite_run(struct bundle *b)
{
    size_t found = plan(b);

    for (size_t i = 0; i < b->file_count && b->diag->errors == 0; i++)
        edit_apply(b, &b->files[i]);
    return found;
}
