/* Rules about single fields and objects that Kubernetes refuses or cannot use, and about
 * AppWrappers, of v1beta2 and of MCAD (v1beta1). */
#include "deploy/check/check.h"

#include <string.h>

void check_capability_prefix(struct check *c, const struct kube_container *container)
{
    const struct yaml_node *caps = kube_get(container->node, "securityContext.capabilities");

    FOREACH_WORD(list, "add", "drop") {
        YAML_FOREACH(item, kube_get(caps, list)) {
            const char *text = yaml_text(item);

            if (text != NULL && strncmp(text, "CAP_", 4) == 0)
                check_report(c, check_at(item), "there is no capability %s; write %s", text,
                             text + 4);
        }
    }
}

/* The requests and limits of some resources, in an object. */
static void look_at_quantities(struct check *c, const struct kube_object *o,
                               const struct yaml_node *resources)
{
    FOREACH_WORD(name, "requests", "limits") {
        YAML_FOREACH_PAIR(entry, kube_get(resources, name)) {
            if (yaml_type(entry->value) == YAML_FLOAT)
                check_report_on(c, o, check_at(entry->value),
                                "%s: %s is a fraction, and a %s accepts none", entry->key->text,
                                yaml_text(entry->value), o->kind);
        }
    }
}

void check_quantity_fraction(struct check *c, const struct kube_container *container)
{
    const struct kube_object *o = container->pods->object;

    if (o->type == KUBE_JOBSET || o->type == KUBE_VOLCANO_JOB || o->type == KUBE_PYTORCHJOB ||
        o->type == KUBE_TRAINJOB || o->type == KUBE_RUNTIME)
        look_at_quantities(c, o, kube_get(container->node, "resources"));
}

void check_object_quantity_fraction(struct check *c, const struct kube_object *o)
{
    look_at_quantities(c, o, kube_get(o->spec, "trainer.resourcesPerNode"));
    YAML_FOREACH(resources, kube_get(o->entry, "custompodresources"))
        look_at_quantities(c, o->wrapper, resources);
}

static void index_claims(struct check *c, const struct kube_pods *p,
                         const struct yaml_node *volumes, const char *path)
{
    YAML_FOREACH(volume, volumes)
        kube_index_add(&c->bundle.arena, &c->index, p->object->namespace, kube_text(volume, path),
                       p->index);
}

/* Of every claim, by namespace and name, the pods that mount it. */
void check_find_claims(struct check *c, const struct kube_pods *p)
{
    index_claims(c, p, kube_get(p->spec, "volumes"), "persistentVolumeClaim.claimName");
    if (p->object->type == KUBE_VOLCANO_JOB)
        index_claims(c, p, kube_get(p->object->spec, "volumes"), "volumeClaimName");
}

void check_pvc_access_mode(struct check *c, const struct kube_object *o)
{
    const struct yaml_node *modes = kube_get(o->spec, "accessModes");
    long pods = 0;

    if (o->type != KUBE_CLAIM || yaml_length(modes) == 0 || *o->name == '\0' ||
        yaml_contains(modes, "ReadWriteMany") || yaml_contains(modes, "ReadOnlyMany"))
        return;
    KUBE_FOREACH_HIT(hit, kube_index_find(&c->index, o->namespace, o->name)) {
        long replicas = c->bundle.pods[*hit.list]->replicas;

        pods += replicas > 0 ? replicas : 0;
    }
    if (pods > 1)
        check_report(c, check_at(modes->items[0]),
                     "%ld pods mount this claim, but its volume can be on one node only", pods);
}

static void look_at_class(struct check *c, const struct yaml_node *spec)
{
    const char *text = kube_text(spec, "storageClassName");

    if (text_is(text, "nil", "null", "None"))
        check_report(c, check_at_first(spec, "storageClassName"),
                     "this asks for a storage class with the name `%s`", text);
}

void check_storage_class_nil(struct check *c, const struct kube_object *o)
{
    if (o->type == KUBE_CLAIM)
        look_at_class(c, o->spec);
    YAML_FOREACH(claim, kube_get(o->spec, "volumeClaimTemplates"))
        look_at_class(c, kube_get(claim, "spec"));
}

/* So many of one file are reported: the others have the same cause. */
#define TWICE_MAX 100

void check_duplicate_key(struct check *c, const struct kube_object *o)
{
    const struct yaml_file *f = c->files;

    while (f->name != o->node->file)
        f++;
    FOREACH(const struct yaml_twice, t, f->twice,
            f->twice_count < TWICE_MAX ? f->twice_count : TWICE_MAX) {
        if (o->node->start.offset <= t->first->start.offset &&
            o->node->end.offset >= t->last->start.offset)
            check_report(c, check_at(t->last), "%s stands in line %u, too", t->last->text,
                         t->first->start.line);
    }
}

void check_duplicate_object(struct check *c, const struct kube_object *o)
{
    const char *api = kube_text(o->node, "apiVersion"), *slash = strchr(api, '/');
    int group = slash == NULL ? 0 : (int)(slash - api);
    const char *what = arena_text(&c->bundle.arena, "%s %.*s %s", o->kind, group, api, o->name);
    struct kube_hits hits = kube_index_find(&c->index, o->namespace, what);

    if (*o->name == '\0' || *o->kind == '\0')
        return;
    if (hits.count > 0 &&
        (c->bundle.objects[hits.list[0]]->node->file == o->node->file || !check_is_of_folder(c, o)))
        check_report(c, check_at_first(o->node, "metadata.name"), "%s is defined a second time",
                     o->title);
    kube_index_add(&c->bundle.arena, &c->index, o->namespace, what, o->index);
}

/* --- What a container has from a ConfigMap. --- */

/* Reports a key that the ConfigMap lacks. If it has no data, a program fills it in. */
static void look_at_key(struct check *c, const struct yaml_node *source, const char *key,
                        struct check_position at)
{
    const char *name = kube_text(source, "name");
    bool lacks = *key != '\0' && *name != '\0' && !kube_true(source, "optional"), reads = false;

    KUBE_FOREACH_HIT(hit, kube_index_find(&c->bundle.named, "ConfigMap", name)) {
        const struct kube_object *map = c->bundle.objects[*hit.list];
        const struct yaml_node *data = kube_get(map->node, "data");

        lacks = lacks && yaml_get(data, key) == NULL && kube_get(map->node, "binaryData") == NULL;
        reads = reads || (data != NULL && kube_reads_map(c->object, map));
    }
    if (lacks && reads)
        check_report(c, at, "ConfigMap %s has no key %s", name, key);
}

void check_configmap_key(struct check *c, const struct kube_container *container)
{
    struct job_words words = job_words(&c->bundle.arena, container);

    YAML_FOREACH(entry, kube_get(container->node, "env")) {
        const struct yaml_node *ref = kube_get(entry, "valueFrom.configMapKeyRef");

        look_at_key(c, ref, kube_text(ref, "key"), check_at_first(ref, "key"));
    }
    FOREACH(const struct arg_word, word, words.list, words.count) {
        const struct yaml_node *mount = kube_mount_of(container, word->text);
        const struct yaml_node *map = kube_get(kube_volume_at(container, word->text), "configMap");
        const char *key = kube_base_name(word->text);
        size_t below = (size_t)(key - word->text) - strlen(kube_text(mount, "mountPath"));

        if (below <= 1 && kube_get(map, "items") == NULL && kube_get(mount, "subPath") == NULL &&
            key[strcspn(key, " *?$;&|<>(){}\n")] == '\0')
            look_at_key(c, map, key, check_at_text(word));
    }
}

/* A script of a ConfigMap that starts as a program needs the mode of one. */
void check_script_mode(struct check *c, const struct kube_container *container)
{
    struct job_words words = job_words(&c->bundle.arena, container);
    const struct arg_word *word = words.script != NULL ? words.script : words.list;
    const struct yaml_node *map, *mode;
    const char *path;
    int64_t bits = 0644;

    if (word == NULL || kube_field(container, "command") == NULL)
        return;
    path = arena_copy(&c->bundle.arena, word->text, strcspn(word->text, " \n;&|"));
    map = kube_get(kube_volume_at(container, path), "configMap");
    mode = kube_get(map, "defaultMode");
    if (kube_get(map, "items") == NULL && (mode == NULL || yaml_to_int(mode, &bits)) &&
        (bits & 0111) == 0 && kube_file_at(&c->bundle, container, path, false).map != NULL)
        check_report(c, check_at_text(word), "%s has mode %04o, so it cannot start as a program",
                     path, (unsigned)bits);
}

/* --- AppWrappers. --- */

/* Marks the AppWrapper that contains pods of a job, which end. An AppWrapper without such pods is a
 * service that runs forever. */
void check_find_ending_wrappers(struct check *c, const struct kube_pods *p)
{
    if (p->object->wrapper != NULL && p->ends)
        c->marks[p->object->wrapper->index] = true;
}

void check_appwrapper_blocks_completion(struct check *c, const struct kube_pods *p)
{
    const struct kube_object *o = p->object;
    const struct job_store *s = job_store_in(&c->jobs, p);

    if (o->wrapper == NULL || kube_is_template(o))
        return;
    if (!p->ends && o->type != KUBE_OTHER && c->marks[o->wrapper->index])
        check_report(c, check_at_first(o->node, "kind"),
                     "pods of this %s are always restarted, so the AppWrapper never succeeds",
                     o->kind);
    else if (s != NULL && o->type == KUBE_POD && !s->container->init &&
             check_option(c, s, "exit-when-idle", NULL) == NULL)
        check_report(c, check_at_first(s->container->node, "name"),
                     "%s never ends, so the AppWrapper never succeeds", s->container->name);
}

static bool is_in_mcad(const struct kube_object *o)
{
    return o->wrapper != NULL && o->wrapper->type == KUBE_MCAD;
}

void check_mcad_namespace(struct check *c, const struct kube_object *o)
{
    if (is_in_mcad(o) && *kube_text(o->node, "metadata.namespace") == '\0' &&
        o->type != KUBE_NAMESPACE)
        check_report(c, check_at_first(o->node, "metadata.name", "kind"),
                     "MCAD makes this %s in the namespace `default`, because it sets none",
                     o->kind);
}

/* Kinds whose pods MCAD does not see by itself. */
static bool hides_its_pods(const struct kube_object *o)
{
    return o->type == KUBE_PYTORCHJOB || o->type == KUBE_JOBSET || o->type == KUBE_VOLCANO_JOB ||
           o->type == KUBE_TRAINJOB;
}

void check_mcad_resources(struct check *c, const struct kube_object *o)
{
    if (is_in_mcad(o) && hides_its_pods(o) && kube_get(o->entry, "custompodresources") == NULL)
        check_report(c, check_at_first(o->node, "kind"), "MCAD cannot count the pods of a %s",
                     o->kind);
}

void check_mcad_labels(struct check *c, const struct kube_pods *p)
{
    if (is_in_mcad(p->object) && hides_its_pods(p->object) &&
        !kube_is(p->meta, "labels.appwrapper\\.mcad\\.ibm\\.com", p->object->wrapper->name))
        check_report(
            c, check_at_key(p->part, "template"),
            "these pods lack the label appwrapper.mcad.ibm.com: %s, so MCAD does not count them",
            p->object->wrapper->name);
}
