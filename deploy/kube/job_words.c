/* The words of the command of a container, and of scripts in it. */
#include "deploy/kube/job_parts.h"

#include <string.h>

static bool is_shell(const char *text)
{
    static const char *const names[] = {"sh", "bash", "dash", "ash", "zsh", "ksh", NULL};

    return text_is_one_of(kube_base_name(text), names);
}

/* The index of the script after `sh -c`, `bash -euo pipefail -c` and the like; `count` if there is
 * none. */
static size_t find_script(const struct arg_word *words, size_t count)
{
    size_t i = 0;

    while (i < count && !is_shell(words[i].text)) {
        if (words[i].text[0] != '-' && i > 2)
            return count;
        i++;
    }
    for (i++; i < count && words[i].text[0] == '-'; i++) {
        const char *options = words[i].text + 1;

        if (*options != '-' && strchr(options, 'c') != NULL)
            return i + 1 < count ? i + 1 : count;
        i += *options != '\0' && options[strlen(options) - 1] == 'o'; /* -o NAME */
    }
    return count;
}

const struct arg_word *job_words(struct arena *a, const struct kube_container *c, size_t *count,
                                 size_t *script)
{
    static const char *const keys[] = {"command", "args"};
    struct arg_word *words = NULL;
    size_t cap = 0;

    *count = 0;
    for (int k = 0; k < 2; k++) {
        const struct yaml_node *list = kube_field(c, keys[k]);

        if (list == NULL || list->kind != YAML_SEQUENCE || list->count == 0)
            continue;
        words = arena_grow(a, words, *count * sizeof *words, (cap + list->count) * sizeof *words);
        cap += list->count;
        for (size_t i = 0; i < list->count; i++) {
            if (list->items[i]->kind == YAML_SCALAR)
                words[(*count)++] = arg_word_of(list->items[i]);
        }
    }
    *script = find_script(words, *count);
    return words;
}
