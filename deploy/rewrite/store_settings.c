/* Writes settings as a user file has them; the templates make the manifests. */
#include "deploy/rewrite/rewrite_plan.h"

#include <string.h>

static void set_number(struct rewrite *w, struct yaml_node *mapping, const char *key, long number)
{
    if (number > 0)
        yaml_put_number(&w->arena, mapping, key, number);
}

static struct yaml_node *store_part(struct rewrite *w, const struct store_settings *s)
{
    struct yaml_node *rdzv = yaml_new(&w->arena, YAML_MAPPING);

    YAML_PUT_TEXTS(&w->arena, rdzv, {"placement", s->placement}, {"protocol", s->protocol},
                   {"wiring", s->wiring}, {"image", w->options->image}, {"name", s->name},
                   {"serviceName", s->service}, {"endpoint", s->endpoint},
                   {"advertise", s->advertise});
    if (s->endpoint == NULL && text_is(s->placement, "relay", "service", "replicas"))
        yaml_put_text(&w->arena, rdzv, "metrics", w->options->metrics);
    yaml_put_plain(&w->arena, rdzv, "durable", s->durable ? "true" : NULL);
    yaml_put_plain(&w->arena, rdzv, "networkPolicy", s->open ? "false" : NULL);
    set_number(w, rdzv, "port", s->port);
    set_number(w, rdzv, "etcdPort", s->etcd_port);
    yaml_put_plain(&w->arena, rdzv, "expect", s->of_one_job && s->expect == 0 ? "false" : NULL);
    set_number(w, rdzv, "expect", s->expect);
    return merge_nodes(MERGE_VALUES, &w->arena, rdzv, w->options->wishes);
}

const struct yaml_node *store_wishes(struct rewrite *w, const struct yaml_node *settings,
                                     const char *verb)
{
    static struct embedded data; /* its nodes live as long as the settings */
    struct schema s = {&w->arena, w->diag};
    const struct yaml_node *known, *rdzv;

    if (settings == NULL)
        return NULL;
    known = embedded_load(&data, "", "settings", NULL, w->diag);
    settings = known == NULL ? NULL : schema_check(&s, known, NULL, settings, NULL);
    if (w->diag->errors > 0)
        return NULL;
    rdzv = yaml_get(settings, "rdzv");
    for (size_t i = 0; i < settings->count; i++) {
        if (strcmp(settings->pairs[i].key->text, "rdzv") != 0)
            rewrite_error(w, settings->pairs[i].value,
                          "%s: rewrite makes no job, and policy none: --set is for rdzv.* alone",
                          settings->pairs[i].key->text);
    }
    YAML_FOREACH_PAIR(wish, rdzv) {
        const struct yaml_node *key = yaml_get(yaml_path(known, "rdzv.keys"), wish->key->text);

        if (!ANY(YAML_FOREACH(v, yaml_get(key, "verbs")), yaml_is(v, verb)))
            rewrite_error(w, wish->value,
                          "rdzv.%s: this follows from the manifests: leave it out, or see --help "
                          "for an option",
                          wish->key->text);
    }
    return rdzv;
}

/* A selector of the files is nothing but the label with the name of the job, which its store would
 * have, too. */
static bool label_selects(const struct rewrite *w, const struct kube_object *job)
{
    KUBE_FOREACH(o, &w->bundle) {
        if (kube_makes_pods(o->type) || !kube_same_namespace(o, job))
            continue;
        FOREACH_WORD(path, "selector", "selector.matchLabels", "podSelector.matchLabels") {
            const struct yaml_node *labels = kube_get(o->spec, path);

            if (labels != NULL && labels->kind == YAML_MAPPING && labels->count == 1 &&
                kube_is(labels, "app\\.kubernetes\\.io/instance", job->name))
                return true;
        }
    }
    return false;
}

bool rewrite_open_store(struct rewrite *w, const struct kube_object *o,
                        const struct store_settings *s, struct emit_job *out)
{
    struct yaml_node *all = yaml_new(&w->arena, YAML_MAPPING);
    struct yaml_node *name = yaml_path(o->node, "metadata.name");

    yaml_put_text(&w->arena, all, "jobName", o->name);
    if (name != NULL) { /* where errors are */
        all->pairs[0].value->file = name->file;
        all->pairs[0].value->start = name->start;
    }
    YAML_PUT_FILLED(&w->arena, all, {"namespace", o->namespace});
    yaml_put_text(&w->arena, all, "platform", s->platform);
    if (s->name != NULL && label_selects(w, o))
        yaml_put_text(&w->arena, all, "instance", s->name);
    yaml_put_plain(&w->arena, all, "hostNetwork", s->host_network ? "true" : NULL);
    set_number(w, all, "numPods", s->nodes);
    yaml_put(&w->arena, all, "masterResources", s->resources);
    yaml_put(&w->arena, all, "rdzv", store_part(w, s));
    return emit_job_open(out, all, s->found, o->node->file, w->diag);
}

const char *rewrite_text(struct rewrite *w, const struct yaml_node *tree)
{
    struct yaml_node root = *tree;

    root.comment = NULL; /* it would stand between a dash and its item */
    return yaml_write(&w->arena, &root);
}
