/* Reads functionConfig, and writes FunctionResults. */
#include "deploy/rewrite/rewrite.h"

#include "deploy/rewrite/rewrite_plan.h"

#include <string.h>

static const struct yaml_node *root_of(const struct rewrite *w)
{
    return w->file_count == 1 && w->files[0].yaml.count > 0 ? w->files[0].yaml.docs[0].root : NULL;
}

bool rewrite_is_function(const struct rewrite *w)
{
    const struct yaml_node *root = root_of(w);

    return strncmp(kube_text(root, "apiVersion"), "config.kubernetes.io/", 21) == 0 &&
           kube_is(root, "kind", "ResourceList");
}

/* --- Options. --- */

void rewrite_function_options(struct rewrite *w, struct rewrite_options *o)
{
    const struct yaml_node *config = yaml_get(root_of(w), "functionConfig");
    const struct yaml_node *data = yaml_get(config, "data");
    struct yaml_node *wishes = NULL;

    if (data == NULL)
        data = yaml_get(config, "spec");
    YAML_FOREACH_PAIR(entry, data) {
        const struct yaml_node *key = entry->key, *value = entry->value;
        const char *word = yaml_text(value), *instead;
        bool set;

        if (strncmp(key->text, "keep-", 5) == 0 && yaml_to_bool(value, &set))
            word = set ? "true" : "false";
        if (yaml_is(key, "set") && word != NULL)
            instead = userfile_set(&w->arena, &wishes, word, w->diag) ? NULL : "A=B,C=D";
        else
            instead = rewrite_choose(o, key->text, word);
        if (instead != NULL && *instead != '\0')
            rewrite_error(w, key, "%s of functionConfig: write %s", key->text, instead);
        else if (instead != NULL)
            rewrite_error(
                w, key,
                "%s: functionConfig takes image, etcd, rdzv, backend, from, wiring, metrics, "
                "set, keep-backend and keep-kind, with the values of rewrite's options",
                key->text);
    }
    if (w->diag->errors == 0 && wishes != NULL)
        o->wishes = store_wishes(w, wishes, "rewrite");
}

/* --- Results. --- */

/* The object at a place of the input, or NULL. */
static const struct kube_object *object_at(const struct rewrite *w, const struct diag_entry *e)
{
    const struct kube_object *found = NULL;

    KUBE_FOREACH(o, &w->bundle) {
        if (e->mark.line > 0 && o->node->start.offset <= e->mark.offset &&
            e->mark.offset < o->node->end.offset)
            found = o; /* the innermost: a wrapper stands before its parts */
    }
    return found;
}

static struct yaml_node *result_of_entry(struct rewrite *w, const struct diag_entry *e)
{
    const struct kube_object *o = object_at(w, e);
    struct yaml_node *result = yaml_new(&w->arena, YAML_MAPPING);

    YAML_PUT_FILLED(&w->arena, result, {"message", e->text},
                    {"severity", e->kind == DIAG_ERROR ? "error" : "info"});
    if (o != NULL)
        YAML_PUT_FILLED(&w->arena, yaml_put_new(&w->arena, result, "resourceRef", YAML_MAPPING),
                        {"apiVersion", kube_text(o->node, "apiVersion")}, {"kind", o->kind},
                        {"name", o->name}, {"namespace", o->namespace});
    return result;
}

static struct yaml_node *results_of(struct rewrite *w)
{
    struct yaml_node *list = yaml_new(&w->arena, YAML_SEQUENCE);

    FOREACH(const struct diag_entry, e, w->diag->entries, w->diag->count) {
        if (w->diag->errors == 0 || e->kind == DIAG_ERROR)
            yaml_append(&w->arena, list, result_of_entry(w, e));
    }
    return list;
}

/* Puts the results behind the last key of the list; those that an earlier function left there stay
 * alone. */
void rewrite_function_print(FILE *out, struct rewrite *w)
{
    struct rewrite_file *f = &w->files[0];
    const struct yaml_file *now = w->diag->errors == 0 && f->edits.count > 0 ? &f->again : &f->yaml;
    const struct yaml_node *root = now->docs[0].root, *list = results_of(w);
    struct yaml_node *both;
    size_t at = root->end.offset;

    if (list->count == 0 || yaml_get(root, "results") != NULL) {
        fwrite(now->bytes, 1, now->len, out);
        return;
    }
    if (root->style == YAML_FLOW) {
        at--; /* before the closing brace */
        fwrite(now->bytes, 1, at, out);
        fprintf(out, "%s\"results\": %s", root->count > 0 ? ", " : "",
                yaml_write_json(&w->arena, list, " "));
    } else {
        while (at < now->len && now->bytes[at - 1] != '\n') /* a comment may stand there */
            at++;
        both = yaml_new(&w->arena, YAML_MAPPING);
        yaml_put(&w->arena, both, "results", list);
        fwrite(now->bytes, 1, at, out);
        fprintf(out, "%s%s", now->bytes[at - 1] == '\n' ? "" : f->eol, rewrite_text(w, both));
    }
    fwrite(now->bytes + at, 1, now->len - at, out);
}
