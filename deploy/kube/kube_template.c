/* Recognises files with placeholders. See kube_template.h for the contract. */
#include "deploy/kube/kube_template.h"

#include <string.h>

/* What stands under these keys may have variables of its own: of a shell, of Kubernetes, of a
 * program that reads the file. */
static bool may_have_variables(const char *key)
{
    static const char *const keys[] = {
        "command",     "args",        "env",    "value",    "data",   "stringData",
        "annotations", "binaryData",  "exec",   "manifest", "script", "source",
        "rule",        "subPathExpr", "config", "content",  NULL};

    return text_is_one_of(key, keys);
}

/* {{ NAME }} in quotes: the file is YAML before helm or a user renders it, too. */
static bool has_braces(const char *text)
{
    const char *start = strstr(text, "{{");

    return start != NULL && strstr(start + 2, "}}") != NULL;
}

/* $NAME or ${NAME}. */
static bool has_dollar(const char *text)
{
    for (const char *p = strchr(text, '$'); p != NULL; p = strchr(p + 1, '$')) {
        const char *name = p + 1 + (p[1] == '{');
        size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");

        if (p > text && p[-1] == '$')
            continue;
        if (len > 1 && (*name < '0' || *name > '9') && (p[1] != '{' || name[len] == '}'))
            return true;
    }
    return false;
}

static const struct yaml_node *look(const struct yaml_node *n, const char *key)
{
    const struct yaml_node *found = NULL;

    if (n == NULL || n->alias || may_have_variables(key))
        return NULL;
    if (n->kind == YAML_SCALAR)
        return has_dollar(n->text) || has_braces(n->text) ? n : NULL;
    for (size_t i = 0; i < n->count && found == NULL; i++) {
        if (n->kind == YAML_SEQUENCE)
            found = look(n->items[i], key);
        else
            found = look(n->pairs[i].value, n->pairs[i].key->text);
    }
    return found;
}

const struct yaml_node *kube_find_placeholder(const struct yaml_file *file)
{
    const struct yaml_node *found = NULL;

    for (size_t i = 0; i < file->count && found == NULL; i++)
        found = look(file->docs[i].root, "");
    return found;
}
