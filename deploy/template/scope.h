/* What a template sees while it is filled in: variables by name, the parts it may use, and where
 * errors go. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

struct scope {
    struct yaml_node *vars; /* a mapping */
    const struct scope *up; /* NULL: the outermost */
};

struct template
{
    struct arena *arena; /* of all results */
    struct diag *diag;
    struct yaml_node *parts; /* what $include finds: a mapping of name to template */
    bool failed;             /* there was an error, and the result is to be thrown away */
    unsigned depth;
};

/* NULL: nobody defines it. */
struct yaml_node *scope_get(const struct scope *s, const char *name, size_t len);

/* An error in a template, at the node of it that is being filled in. Returns NULL. */
struct yaml_node *template_error(struct template *t, const struct yaml_node *at, const char *format,
                                 ...) __attribute__((format(printf, 3, 4)));
