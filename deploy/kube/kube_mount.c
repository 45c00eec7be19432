/* What a container finds at a path: its mounts, and the Secrets behind them. */
#include "deploy/kube/kube_view.h"

#include <string.h>

const struct yaml_node *kube_mount_of(const struct kube_container *container, const char *path)
{
    const struct yaml_node *mounts = kube_get(container->node, "volumeMounts"), *best = NULL;
    size_t best_len = 0;

    for (size_t i = 0; i < yaml_length(mounts); i++) {
        const char *at = kube_text(mounts->items[i], "mountPath");
        size_t len = strlen(at);

        while (len > 0 && at[len - 1] == '/')
            len--;
        if (len > best_len && strncmp(path, at, len) == 0 &&
            (path[len] == '\0' || path[len] == '/')) {
            best = mounts->items[i];
            best_len = len;
        }
    }
    return best;
}

const struct yaml_node *kube_secret_at(const struct kube_container *container, const char *path)
{
    const struct yaml_node *volumes = kube_get(container->pods->spec, "volumes");
    const char *name = kube_text(kube_mount_of(container, path), "name");

    return kube_get(kube_item(volumes, "name", name), "secret");
}
