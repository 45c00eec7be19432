/* The classes that a pickled rendezvous state is made of. Shared by its reader and its writer. */
#pragma once

enum torch_class {
    TORCH_STATE_CLASS,
    TORCH_NODE_CLASS,
    TORCH_DATETIME_CLASS,
    TORCH_TIMEZONE_CLASS,
    TORCH_TIMEDELTA_CLASS,
    TORCH_CLASSES,
};

#define TORCH_RENDEZVOUS "torch.distributed.elastic.rendezvous.dynamic_rendezvous"

static const struct {
    const char *module;
    const char *name;
} torch_classes[TORCH_CLASSES] = {
    [TORCH_STATE_CLASS] = {TORCH_RENDEZVOUS, "_RendezvousState"},
    [TORCH_NODE_CLASS] = {TORCH_RENDEZVOUS, "_NodeDesc"},
    [TORCH_DATETIME_CLASS] = {"datetime", "datetime"},
    [TORCH_TIMEZONE_CLASS] = {"datetime", "timezone"},
    [TORCH_TIMEDELTA_CLASS] = {"datetime", "timedelta"},
};
