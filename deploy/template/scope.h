/* What a template can use while it is filled in: variables, parts, and the diag for errors. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

struct scope {
    struct yaml_node *vars; /* a mapping */
    const struct scope *up; /* NULL: the outermost */
};

struct template_state {
    struct arena *arena; /* of all results */
    struct diag *diag;
    struct yaml_node *parts; /* for $include: a mapping of names to templates */
    bool failed;             /* after an error: the result has no meaning */
    unsigned depth;
};

/* NULL: the variable is not defined. */
struct yaml_node *scope_get(const struct scope *s, const char *name, size_t len);

/* Reports an error in a template, at the node that is being filled in. Returns NULL. */
struct yaml_node *template_error(struct template_state *t, const struct yaml_node *at,
                                 const char *format, ...) __attribute__((format(printf, 3, 4)));
