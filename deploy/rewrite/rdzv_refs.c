/* Reads words and remembers where they stand; decides nothing. */
#include "deploy/rewrite/rdzv_refs.h"

#include "deploy/kube/shell_words.h"
#include "deploy/yaml/scalar_text.h"

#include <stdio.h>
#include <string.h>

/* Longer texts are looked at where they are written alone, for an alias of one byte may stand for
 * them any number of times. */
#define ALIAS_MAX 4096

/* Shell text inside of shell text (bash -c '...' in a script): as deep as anybody writes it. */
#define SCRIPT_DEPTH_MAX 4

static const char *const field_names[] = {"backend", "endpoint", "id", "conf"};
static const char *const variable_names[] = {"PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID",
                                             "PET_RDZV_CONF"};

static void add_said(struct bundle *b, struct wiring *w, struct rdzv_ref s)
{
    if (w->count == w->cap) {
        size_t cap = w->cap == 0 ? 8 : w->cap * 2;

        w->list = arena_grow(&b->arena, w->list, w->cap * sizeof s, cap * sizeof s);
        w->cap = cap;
    }
    w->has_id = w->has_id || s.field == RDZV_REF_ID;
    w->list[w->count++] = s;
}

static void add_variable(struct bundle *b, struct wiring *w, struct variable v)
{

    if (w->variable_count == w->variable_cap) {
        size_t cap = w->variable_cap == 0 ? 8 : w->variable_cap * 2;

        w->variables =
            arena_grow(&b->arena, w->variables, w->variable_cap * sizeof v, cap * sizeof v);
        w->variable_cap = cap;
    }
    w->variables[w->variable_count++] = v;
}

/* --rdzv-NAME or --rdzv_NAME, up to its end or `=`; the length of the flag, or 0. */
static size_t flag_of(const char *word, enum rdzv_ref_field *field)
{
    size_t len = strcspn(word, "=");

    if (strncmp(word, "--rdzv", 6) != 0 || (word[6] != '-' && word[6] != '_'))
        return 0;
    for (size_t i = 0; i < RDZV_REF_FIELDS; i++) {
        if (strlen(field_names[i]) == len - 7 && memcmp(word + 7, field_names[i], len - 7) == 0) {
            *field = (enum rdzv_ref_field)i;
            return len;
        }
    }
    return 0;
}

/* PET_RDZV_NAME, up to its end or `=`. */
static size_t variable_of(const char *word, enum rdzv_ref_field *field)
{
    size_t len = strcspn(word, "=");

    for (size_t i = 0; i < RDZV_REF_FIELDS; i++) {
        if (strlen(variable_names[i]) == len && memcmp(word, variable_names[i], len) == 0) {
            *field = (enum rdzv_ref_field)i;
            return len;
        }
    }
    return 0;
}

static bool ends_in_word(const char *text, const char *word)
{
    size_t len = strlen(text), own = strlen(word);

    return len >= own && strcmp(text + len - own, word) == 0 &&
           (len == own || text[len - own - 1] == '/');
}

static bool is_torchrun(const char *word)
{
    return ends_in_word(word, "torchrun") || strcmp(word, "torch.distributed.run") == 0 ||
           strcmp(word, "torch.distributed.launch") == 0;
}

/* --- Shell text. --- */

struct script {
    struct yaml_node *node;
    const char *text;
    size_t len;
    const size_t *at; /* text[i] is byte at[i] of the node's text; NULL: i */
    unsigned depth;
};

static size_t in_node(const struct script *s, size_t i)
{
    if (s->at == NULL)
        return i;
    return i < s->len ? s->at[i] : s->len == 0 ? 0 : s->at[s->len - 1] + 1;
}

/* Behind the byte that ends at i. */
static size_t end_in_node(const struct script *s, size_t i)
{
    return s->at == NULL || i == 0 ? in_node(s, i) : s->at[i - 1] + 1;
}

/* A word that a continued line ends is said to end behind it. */
static size_t end_of_word(const struct script *s, const struct shell_word *word)
{
    size_t end = word->end;

    while (end > word->start + 1 && s->text[end - 1] == '\n') {
        size_t slash = end - 1 - (s->text[end - 2] == '\r');

        if (slash <= word->start || s->text[slash - 1] != '\\')
            break;
        end = slash - 1;
    }
    return end;
}

/* Where value bytes [first, len] of a word stand in the node. */
static const size_t *places_of(struct bundle *b, const struct script *s,
                               const struct shell_word *word, size_t first)
{
    size_t n = word->len - first, *at = arena_alloc(&b->arena, (n + 1) * sizeof *at);

    for (size_t i = 0; i < n; i++)
        at[i] = in_node(s, word->at[first + i]);
    at[n] = n == 0 ? end_in_node(s, end_of_word(s, word)) : at[n - 1] + 1;
    return at;
}

/* NAME=value or --flag=value: the value is the rest of the word, with its quotes, unless quotes
 * are around the whole word. */
static struct rdzv_ref said_in_word(struct bundle *b, const struct script *s,
                                    const struct shell_word *word, size_t name_len)
{
    struct rdzv_ref said = {.node = s->node, .value = word->text + name_len + 1};
    bool open = word->at[name_len] - word->start != name_len;

    said.at = places_of(b, s, word, name_len + 1);
    said.from = in_node(s, word->at[name_len]) + 1;
    said.to = end_in_node(s, end_of_word(s, word));
    if (open && word->len > name_len + 1) {
        said.from = said.at[0];
        said.to = said.at[word->len - name_len - 1];
    }
    said.joined = true;
    return said;
}

static struct rdzv_ref said_of_word(struct bundle *b, const struct script *s,
                                    const struct shell_word *word)
{
    struct rdzv_ref said = {.node = s->node, .value = word->text};

    said.at = places_of(b, s, word, 0);
    said.from = in_node(s, word->start);
    said.to = end_in_node(s, end_of_word(s, word));
    return said;
}

/* Blanks and continued lines between two words, as the script has them. */
static const char *gap_before(struct bundle *b, const struct script *s,
                              const struct shell_command *c, size_t i)
{
    size_t from, to = c->words[i].start;

    if (i == 0)
        return " ";
    from = end_of_word(s, &c->words[i - 1]);
    for (size_t k = from; k < to; k++) {
        if (strchr(" \t\r\n\\", s->text[k]) == NULL)
            return " ";
    }
    return from < to ? arena_copy(&b->arena, s->text + from, to - from) : " ";
}

static void read_script(struct bundle *b, struct wiring *w, const struct script *s);

/* A word that is a script of its own, as that of `bash -c`, or flags in a variable. */
static void read_inner(struct bundle *b, struct wiring *w, const struct script *s,
                       const struct shell_word *word)
{
    const char *eq = strchr(word->text, '=');
    size_t first = 0;
    struct script inner = {.node = s->node, .depth = s->depth + 1};

    if (strpbrk(word->text, " \n") == NULL || s->depth >= SCRIPT_DEPTH_MAX ||
        (strstr(word->text, "--rdzv") == NULL && strstr(word->text, "torch") == NULL))
        return;
    if (eq != NULL && strcspn(word->text, " -\n\"'$/.") > (size_t)(eq - word->text))
        first = (size_t)(eq - word->text) + 1; /* NAME="--rdzv-backend=... " */
    inner.text = word->text + first;
    inner.len = word->len - first;
    inner.at = places_of(b, s, word, first);
    read_script(b, w, &inner);
}

/* Simple assignments are known from there on: NAME=value, without anything to expand. */
static void read_assignment(struct bundle *b, struct wiring *w, const struct shell_word *word)
{
    size_t len = strspn(word->text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
                                    "0123456789");

    if (len > 0 && len < word->len && word->text[len] == '=')
        add_variable(
            b, w,
            (struct variable){arena_copy(&b->arena, word->text, len), word->text + len + 1, NULL});
}

static void read_command(struct bundle *b, struct wiring *w, const struct script *s,
                         const struct shell_command *c)
{
    w->commands++;
    for (size_t i = 0; i < c->count; i++) {
        const struct shell_word *word = &c->words[i];
        struct rdzv_ref said;
        enum rdzv_ref_field field;
        size_t len = flag_of(word->text, &field);

        if (len > 0 && (word->len > len || i + 1 < c->count)) {
            const struct shell_word *last = word->len > len ? word : &c->words[i + 1];

            said = word->len > len ? said_in_word(b, s, word, len) : said_of_word(b, s, last);
            said.field = field;
            said.position = RDZV_REF_SHELL;
            said.command = w->commands;
            said.flag = arena_copy(&b->arena, word->text, len);
            said.before = gap_before(b, s, c, i);
            said.script = s->node;
            said.end = end_in_node(s, end_of_word(s, last));
            add_said(b, w, said);
            i += word->len == len;
            continue;
        }
        len = variable_of(word->text, &field);
        if (len > 0 && len < word->len) {
            said = said_in_word(b, s, word, len);
            said.field = field;
            said.position = RDZV_REF_ASSIGN;
            said.script = s->node;
            said.end = end_in_node(s, end_of_word(s, word));
            add_said(b, w, said);
        }
        if (is_torchrun(word->text) && w->torchrun == NULL)
            w->torchrun = s->node;
        read_assignment(b, w, word);
        read_inner(b, w, s, word);
    }
}

static void read_script(struct bundle *b, struct wiring *w, const struct script *s)
{
    struct shell_script script;

    shell_read(&b->arena, s->text, s->len, &script);
    for (size_t i = 0; i < script.count; i++)
        read_command(b, w, s, &script.commands[i]);
}

void wiring_read_text(struct bundle *b, struct yaml_node *text, struct wiring *out)
{
    struct script s = {.node = text, .text = text->text, .len = text->len};

    *out = (struct wiring){0};
    read_script(b, out, &s);
}

/* --- Lists of words, and variables. --- */

static bool may_be_script(const char *text)
{
    return strpbrk(text, " \n") != NULL &&
           (strstr(text, "torch") != NULL || strstr(text, "--rdzv") != NULL ||
            strstr(text, "PET_RDZV") != NULL);
}

static void read_item(struct bundle *b, struct wiring *w, struct yaml_node *list, size_t *index)
{
    struct yaml_node *item = list->items[*index];
    const char *text = yaml_text(item);
    enum rdzv_ref_field field;
    size_t len = text == NULL ? 0 : flag_of(text, &field);

    if (text == NULL || (item->alias && item->len > ALIAS_MAX))
        return;
    if (len > 0) {
        struct rdzv_ref s = {.field = field,
                             .node = item,
                             .list = list,
                             .index = *index,
                             .flag = arena_copy(&b->arena, text, len),
                             .command = w->commands};

        if (text[len] == '=') {
            s.position = RDZV_REF_ITEM;
            s.value = text + len + 1;
            s.from = len + 1;
            s.joined = true;
        } else if (*index + 1 < list->count && yaml_text(list->items[*index + 1]) != NULL) {
            s.position = RDZV_REF_ITEMS;
            s.index = ++*index;
            s.node = list->items[s.index];
            s.value = s.node->text;
        } else {
            return;
        }
        s.to = s.node->len;
        add_said(b, w, s);
        return;
    }
    if (is_torchrun(text) && w->torchrun == NULL)
        w->torchrun = item;
    if (may_be_script(text)) {
        struct script s = {.node = item, .text = text, .len = item->len};

        read_script(b, w, &s);
    }
}

static void read_env(struct bundle *b, struct wiring *w, struct yaml_node *env)
{
    for (size_t i = 0; env != NULL && env->kind == YAML_SEQUENCE && i < env->count; i++) {
        const char *name = yaml_text(yaml_get(env->items[i], "name"));
        struct yaml_node *value = yaml_get(env->items[i], "value");
        enum rdzv_ref_field field;

        w->has_id = w->has_id || (name != NULL && strcmp(name, "PET_RDZV_ID") == 0);
        if (name == NULL || yaml_text(value) == NULL)
            continue;
        add_variable(b, w, (struct variable){name, value->text, value});
        if (variable_of(name, &field) == 0)
            continue;
        add_said(b, w,
                 (struct rdzv_ref){.field = field,
                                   .position = RDZV_REF_ENV,
                                   .node = value,
                                   .to = value->len,
                                   .value = value->text,
                                   .list = env,
                                   .index = i});
    }
}

static const struct variable *find_variable(const struct wiring *w, const char *name, size_t len);
static size_t reference_at(const char *p, const char **name, size_t *name_len);

/* A flag whose value is a variable of `env` and nothing else is changed there. */
static void follow_variables(struct wiring *w)
{
    for (size_t i = 0; i < w->count; i++) {
        struct rdzv_ref *s = &w->list[i];
        const struct variable *v;
        const char *name;
        size_t len, all = reference_at(s->value, &name, &len);

        if (s->position < RDZV_REF_SHELL || all == 0 || s->value[all] != '\0')
            continue;
        v = find_variable(w, name, len);
        if (v == NULL || v->node == NULL)
            continue;
        s->node = v->node;
        s->value = v->value;
        s->at = NULL;
        s->from = 0;
        s->to = v->node->len;
    }
}

void wiring_read(struct bundle *b, struct yaml_node *container, struct wiring *out)
{
    static const char *const lists[] = {"command", "args"};

    *out = (struct wiring){.container = container};
    read_env(b, out, yaml_get(container, "env"));
    out->commands++; /* command and args are one command, if they are no shell's */
    for (size_t l = 0; l < 2; l++) {
        struct yaml_node *list = yaml_get(container, lists[l]);

        for (size_t i = 0; list != NULL && list->kind == YAML_SEQUENCE && i < list->count; i++)
            read_item(b, out, list, &i);
    }
    follow_variables(out);
}

/* --- Expanding. --- */

static const struct variable *find_variable(const struct wiring *w, const char *name, size_t len)
{
    for (size_t i = w->variable_count; i > 0; i--) {
        const struct variable *v = &w->variables[i - 1];

        if (strlen(v->name) == len && memcmp(v->name, name, len) == 0)
            return v;
    }
    return NULL;
}

/* $NAME, ${NAME} and $(NAME), as a shell or Kubernetes has them. The length of it, or 0. */
static size_t reference_at(const char *p, const char **name, size_t *name_len)
{
    const char close = p[1] == '{' ? '}' : p[1] == '(' ? ')' : '\0';
    const char *start = p + 1 + (close != '\0');
    size_t len = strspn(start, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

    if (*p != '$' || len == 0 || (close != '\0' && start[len] != close))
        return 0;
    *name = start;
    *name_len = len;
    return (size_t)(start - p) + len + (close != '\0');
}

const char *wiring_expand(struct bundle *b, const struct wiring *w, const char *value)
{
    /* Variables may name variables; those that name themselves are given up on. */
    for (int round = 0; round < 5 && strchr(value, '$') != NULL; round++) {
        struct buf out = {.arena = &b->arena};
        bool changed = false;

        buf_add(&out, "", 0);
        for (const char *p = value; *p != '\0';) {
            const char *name;
            size_t name_len, len = reference_at(p, &name, &name_len);
            const struct variable *v = len == 0 ? NULL : find_variable(w, name, name_len);

            if (v != NULL)
                buf_add(&out, v->value, strlen(v->value));
            else
                buf_add(&out, p, len == 0 ? 1 : len);
            changed = changed || v != NULL;
            p += len == 0 ? 1 : len;
        }
        if (!changed || out.len > 64 * 1024)
            break;
        value = out.text;
    }
    return value;
}

/* --- Editing. --- */

void rdzv_ref_set(struct bundle *b, struct bundle_file *f, const struct rdzv_ref *s,
                  const char *value)
{
    if (s->at == NULL && s->from == 0 && s->to == s->node->len)
        edit_value(b, f, s->node, value);
    else
        edit_part(b, f, s->node, s->from, s->to, value);
}

bool rdzv_ref_set_part(struct bundle *b, struct bundle_file *f, const struct rdzv_ref *s,
                       size_t from, size_t to, const char *value)
{
    size_t start = s->at == NULL ? s->from + from : s->at[from];
    size_t end = to == from ? start : s->at == NULL ? s->from + to : s->at[to - 1] + 1;

    if (end - start != to - from)
        return false;
    edit_part(b, f, s->node, start, end, value);
    return true;
}

/* The flag with this field's name, with the - or _ of its neighbour. */
static const char *flag_like(struct bundle *b, const struct rdzv_ref *s, enum rdzv_ref_field field)
{
    return arena_text(&b->arena, "--rdzv%c%s", s->flag[6], field_names[field]);
}

/* An item of a list as its neighbour writes them. */
static const char *item_like(struct bundle *b, const struct rdzv_ref *s, const char *text)
{
    enum yaml_style style = s->list->items[s->index]->style;

    if (style == YAML_PLAIN)
        return arena_text(&b->arena, "%s\n", text);
    return arena_text(&b->arena, style == YAML_SINGLE ? "'%s'\n" : "\"%s\"\n", text);
}

void rdzv_ref_add_behind(struct bundle *b, struct bundle_file *f, const struct rdzv_ref *s,
                         enum rdzv_ref_field field, const char *value)
{
    const char *flag = s->flag == NULL ? NULL : flag_like(b, s, field);

    switch (s->position) {
    case RDZV_REF_SHELL:
        edit_part(b, f, s->script, s->end, s->end,
                  arena_text(&b->arena, "%s%s%s%s", s->before, flag, s->joined ? "=" : " ", value));
        break;
    case RDZV_REF_ITEM:
        edit_add_item(b, f, s->list, s->index,
                      item_like(b, s, arena_text(&b->arena, "%s=%s", flag, value)));
        break;
    case RDZV_REF_ITEMS:
        edit_add_item(b, f, s->list, s->index, item_like(b, s, flag));
        edit_add_item(b, f, s->list, s->index, item_like(b, s, value));
        break;
    case RDZV_REF_ASSIGN:
        edit_part(b, f, s->script, s->end, s->end,
                  arena_text(&b->arena, " %s=%s", variable_names[field], value));
        break;
    default: /* a variable beside a variable */
        edit_add_item(b, f, s->list, s->index,
                      arena_text(&b->arena, "name: %s\nvalue: %s\n", variable_names[field],
                                 scalar_text(&b->arena, value)));
        break;
    }
}
