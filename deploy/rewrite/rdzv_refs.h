/* What a container says about its rendezvous, and where each word of it stands: torchrun's flags in
 * lists and in shell text, PET_* variables, assignments of them in scripts, an elasticPolicy. */
#pragma once

#include "deploy/rewrite/rewrite_edit.h"

enum rdzv_ref_field {
    RDZV_REF_BACKEND,
    RDZV_REF_ENDPOINT,
    RDZV_REF_ID,
    RDZV_REF_CONF,
    RDZV_REF_FIELDS
};

enum rdzv_ref_position {
    RDZV_REF_ENV,    /* `value` of a PET_* variable */
    RDZV_REF_ASSIGN, /* PET_*= in shell text */
    RDZV_REF_POLICY, /* a key of an elasticPolicy */
    RDZV_REF_SHELL,  /* a flag in shell text */
    RDZV_REF_ITEM,   /* --flag=value, an item */
    RDZV_REF_ITEMS,  /* --flag and value, two items */
};

struct rdzv_ref {
    enum rdzv_ref_field field;
    enum rdzv_ref_position position;
    struct yaml_node
        *node;         /* the scalar that holds the value: that of the variable it is, if any */
    size_t from, to;   /* the whole value there, quotes of the shell included */
    const char *value; /* as the shell leaves it, expansions as they are written */
    const size_t *at;  /* value[i] is byte at[i] of the node's text; NULL: from + i */
    unsigned command;  /* flags of one command have one number */
    /* For a flag that is to stand behind this one: */
    struct yaml_node
        *list;    /* RDZV_REF_ITEM, RDZV_REF_ITEMS and RDZV_REF_ENV: where it is an item */
    size_t index; /* of the value's item */
    struct yaml_node *script; /* in shell text: the scalar, */
    size_t end;               /* behind the word there, */
    const char *before;       /* and what parts it from the word before */
    const char *flag;         /* as it is written: --rdzv_endpoint */
    bool joined;              /* by =, not by a blank */
};

struct variable {
    const char *name, *value;
    struct yaml_node *node; /* `value` in `env`; NULL: assigned in shell text */
};

struct wiring {
    struct yaml_node *container;
    struct yaml_node *torchrun; /* the scalar that names it, or NULL */
    struct rdzv_ref *list;
    size_t count, cap;
    struct variable *variables;
    size_t variable_count, variable_cap;
    unsigned commands;
    bool has_id; /* also one that comes from a field of the pod */
};

/* Of a container, or of anything with `command`, `args` and `env`. */
void wiring_read(struct bundle *b, struct yaml_node *container, struct wiring *out);

/* Of shell text that is no command of a container: a script in a ConfigMap. */
void wiring_read_text(struct bundle *b, struct yaml_node *text, struct wiring *out);

/* The value with the variables that are known in their place. */
const char *wiring_expand(struct bundle *b, const struct wiring *w, const char *value);

/* A new value for the whole of it. */
void rdzv_ref_set(struct bundle *b, struct bundle_file *f, const struct rdzv_ref *s,
                  const char *value);
/* For bytes [from, to) of its value; false, and nothing is done, when quotes stand between them. */
bool rdzv_ref_set_part(struct bundle *b, struct bundle_file *f, const struct rdzv_ref *s,
                       size_t from, size_t to, const char *value);
/* One more flag or variable behind this one, in its shape. */
void rdzv_ref_add_behind(struct bundle *b, struct bundle_file *f, const struct rdzv_ref *s,
                         enum rdzv_ref_field field, const char *value);
