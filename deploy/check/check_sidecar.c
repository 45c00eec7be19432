/* Rules about sidecars: containers that never end, and native sidecars. */
#include "deploy/check/check.h"

#include <string.h>

/* --- Containers that do not end. --- */

static bool runs_for_ever(struct check *c, const struct kube_container *container)
{
    struct job_words words = job_words(&c->bundle.arena, container);
    const char *text = "";

    if (words.count > 8 || (words.script == NULL && words.count < 2))
        return false;
    FOREACH(const struct arg_word, word, words.list, words.count)
        text = arena_joined(&c->bundle.arena, text, " ", word->text);
    return text_has(text, "sleep infinity", "sleep inf", "tail -f", "tail -F", "while true;",
                    "while :;", "while true\n", "while :\n") &&
           !text_has(text, "break", "exit", "kill"); /* such a loop may end */
}

static bool is_main(const struct check *c, const struct kube_container *container)
{
    return ANY(JOB_FOREACH(r, job_runs_in(&c->jobs, container->pods)), r->container == container) ||
           (container->pods->object->type == KUBE_PYTORCHJOB &&
            strcmp(container->name, "pytorch") == 0);
}

void check_sidecar_blocks_completion(struct check *c, const struct kube_container *container)
{
    const struct kube_pods *p = container->pods;

    if (container->init || !p->ends || is_main(c, container) ||
        !ANY(KUBE_FOREACH_CONTAINER(other, p), !other->init && other != container))
        return;
    if (job_store_kind(&c->bundle.arena, container) == JOB_STORE_NONE
            ? runs_for_ever(c, container)
            : job_store_option(&c->jobs, container, "exit-when-idle", NULL) == NULL)
        check_report(c, check_at_first(container->node, "name"),
                     "the container %s never ends, so the pod never ends", container->name);
}

/* An rdzvd or etcd that would be a native sidecar, and is an init container that never ends. */
static bool is_never_ready(struct check *c, const struct kube_container *container)
{
    struct kube_container would_be = *container;

    would_be.sidecar = true;
    return container->init && !container->sidecar &&
           job_store_kind(&c->bundle.arena, &would_be) != JOB_STORE_NONE &&
           /* Each of these makes it print something and end. */
           !ANY(FOREACH_WORD(option, "check-config", "check-data", "check-health", "help",
                             "version"),
                job_store_option(&c->jobs, &would_be, option, NULL) != NULL);
}

bool check_has_never_ready(struct check *c, const struct kube_pods *p)
{
    return ANY(KUBE_FOREACH_CONTAINER(container, p), is_never_ready(c, container));
}

void check_sidecar_never_ready(struct check *c, const struct kube_container *container)
{
    if (is_never_ready(c, container))
        check_report(c, check_at_first(container->node, "name"),
                     "the init container %s never ends, so the containers behind it never start",
                     container->name);
}

/* --- Native sidecars. --- */

/* The releases that know native sidecars. */
static const struct sidecar_release {
    enum kube_type type;
    enum check_target_name target;
    int major, minor;
    const char *what;
} sidecar_releases[] = {
    {KUBE_PYTORCHJOB, CHECK_TRAINING_OPERATOR, 1, 8, "Training Operator"},
    {KUBE_VOLCANO_JOB, CHECK_VOLCANO, 1, 9, "Volcano"},
    {KUBE_JOBSET, CHECK_JOBSET, 0, 7, "JobSet"},
};

void check_sidecar_too_old(struct check *c, const struct kube_container *container)
{
    struct check_position at = check_at_first(container->node, "restartPolicy");

    if (!container->sidecar)
        return;
    if (check_is_before(c, CHECK_KUBERNETES, 1, 29)) {
        check_report(c, at, "Kubernetes before 1.29 takes %s for an init container that never ends",
                     container->name);
        return;
    }
    if (container->injected)
        return;
    FOREACH(const struct sidecar_release, r, sidecar_releases,
            sizeof sidecar_releases / sizeof *sidecar_releases) {
        if (container->pods->object->type == r->type &&
            check_is_before(c, r->target, r->major, r->minor))
            check_report(c, at,
                         "%s before %d.%d drops this field, and %s becomes an init container that "
                         "never ends",
                         r->what, r->major, r->minor, container->name);
    }
}

/* CPU and memory have limits, and requests equal to them: a Guaranteed pod needs this of each
 * container. */
static bool is_guaranteed(const struct kube_container *container)
{
    const struct yaml_node *resources = kube_field(container, "resources");

    FOREACH_WORD(name, "cpu", "memory") {
        const char *limit = kube_text(kube_get(resources, "limits"), name);
        const char *request = kube_text(kube_get(resources, "requests"), name);

        if (*limit == '\0' || (*request != '\0' && strcmp(limit, request) != 0))
            return false;
    }
    return true;
}

bool check_would_be_guaranteed(const struct kube_pods *p)
{
    return !ANY(KUBE_FOREACH_CONTAINER(c, p), !c->sidecar && !is_guaranteed(c));
}

void check_sidecar_not_guaranteed(struct check *c, const struct kube_container *container)
{
    if (container->sidecar && !is_guaranteed(container) &&
        check_would_be_guaranteed(container->pods))
        check_report(c,
                     kube_get(container->node, "resources") != NULL
                         ? check_at_key(container->node, "resources")
                         : check_at_first(container->node, "name"),
                     "%s makes a Guaranteed pod Burstable", container->name);
}

/* --- Whom it runs as. --- */

/* A field of the security context: the container's value overrides the pod's. */
static const struct yaml_node *security(const struct kube_container *container, const char *name)
{
    const struct yaml_node *own = kube_get(kube_field(container, "securityContext"), name);

    return own != NULL ? own : kube_get(kube_get(container->pods->spec, "securityContext"), name);
}

void check_rdzvd_as_root(struct check *c, const struct job_store *s)
{
    const struct kube_container *container = s->container;
    int64_t user;
    bool refuses_root;

    if (s->kind != JOB_STORE_ETCD && yaml_to_int(security(container, "runAsUser"), &user) &&
        user == 0 && yaml_to_bool(security(container, "runAsNonRoot"), &refuses_root) &&
        refuses_root)
        check_report(c,
                     check_at_first(container->node, "securityContext.runAsUser",
                                    "securityContext.runAsNonRoot", "name"),
                     "%s has user 0%s, and runAsNonRoot", container->name,
                     kube_get(kube_field(container, "securityContext"), "runAsUser") == NULL
                         ? " from its pod"
                         : "");
}
