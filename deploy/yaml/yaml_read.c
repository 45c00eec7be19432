/* Reads YAML files, and builds trees from libyaml's events. It is stricter than libyaml wherever
 * two readers of one file could disagree: keys do not repeat, aliases form no cycles and do not
 * grow without bound. */
#include "deploy/yaml/yaml_doc.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct anchor {
    const char *name;
    struct yaml_node *node;
    bool open; /* we are still inside it */
};

struct yaml_builder {
    struct yaml_file *file;
    struct diag *diag;
    yaml_parser_t parser;
    yaml_event_t event;     /* the current one; zeroed if there is none */
    size_t base;            /* bytes of the byte order mark, which libyaml does not get */
    size_t byte, character; /* the same place: see file_mark() */
    struct anchor *anchors; /* of the current document */
    size_t anchor_count, anchor_cap;
    size_t nodes;    /* made so far */
    size_t expanded; /* for which aliases stand, so far */
};

#define fail_at(r, at, ...) diag_error((r)->diag, (r)->file->name, at, __VA_ARGS__)

static bool is_inside_character(const struct yaml_builder *r)
{
    return r->byte < r->file->len && ((unsigned char)r->file->bytes[r->byte] & 0xc0) == 0x80;
}

/* libyaml counts characters behind the byte order mark. Its marks move forward through the file,
 * and back by one node at most, so the byte is near that of the last mark. */
static struct yaml_mark file_mark(struct yaml_builder *r, yaml_mark_t mark)
{
    for (; r->character < mark.index && r->byte < r->file->len; r->character++) {
        do
            r->byte++;
        while (is_inside_character(r));
    }
    for (; r->character > mark.index; r->character--) {
        do
            r->byte--;
        while (is_inside_character(r));
    }
    return (struct yaml_mark){r->byte, (unsigned)mark.line + 1, (unsigned)mark.column + 1};
}

/* libyaml's message for bytes that are not YAML, with a remedy for the usual causes. */
static bool fail_event(struct yaml_builder *r)
{
    static const struct {
        const char *part, *remedy;
    } remedies[] = {
        {"cannot start any token",
         "indent with spaces, not tabs, and quote a value that starts with @, ` or %"},
        {"alphabetic or numeric character", "quote a value that starts with * or &"},
        {"tab character", "indent with spaces"},
        {"mapping values are not allowed",
         "quote a value that contains `: `, and look at the indentation"},
        {"block sequence entries are not allowed",
         "put the list on lines of its own below its key"},
        {"could not find expected ':'", "write `key: value`"},
        {"did not find expected key", "look at the indentation, and at quotes that do not end"},
        {"unexpected end of stream", "end the quotes or brackets"},
        {"did not find expected <document start>",
         "write `---` between documents; make objects of JSON that follow each other a List, as by "
         "jq -s '{apiVersion: \"v1\", kind: \"List\", items: .}'"},
        {"unknown escape", "in double quotes write \\\\ for a backslash, or use single quotes"},
    };
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem == NULL ? "out of memory" : p->problem;
    const char *remedy = "write it as YAML";
    struct yaml_mark at = file_mark(r, p->problem_mark);

    if (p->error == YAML_READER_ERROR) {
        at = yaml_mark_forward((struct yaml_mark){0, 1, 1}, r->file->bytes,
                               r->base + p->problem_offset);
        remedy = "write the file as UTF-8 text";
        if (strstr(problem, "control characters") != NULL)
            remedy = "remove this character";
    }
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++) {
        if (strstr(problem, remedies[i].part) != NULL)
            remedy = remedies[i].remedy;
    }
    return fail_at(r, at, "%s: %s", problem, remedy);
}

static bool read_event(struct yaml_builder *r)
{
    yaml_event_delete(&r->event);
    memset(&r->event, 0, sizeof r->event);
    return yaml_parser_parse(&r->parser, &r->event) ? true : fail_event(r);
}

static struct yaml_node *new_node(struct yaml_builder *r, enum yaml_kind kind,
                                  const yaml_char_t *tag)
{
    struct yaml_node *n = arena_alloc(&r->file->arena, sizeof *n);

    n->kind = kind;
    n->file = r->file->name;
    n->start = file_mark(r, r->event.start_mark);
    n->end = file_mark(r, r->event.end_mark);
    n->weight = 1;
    if (tag != NULL)
        n->tag = arena_copy(&r->file->arena, (const char *)tag, strlen((const char *)tag));
    return n;
}

/* Registers the anchor of a node. An alias inside the node itself is an error while the node is
 * `open`. An anchor may be defined again. */
static void add_anchor(struct yaml_builder *r, const yaml_char_t *name, struct yaml_node *n,
                       bool open)
{
    if (name == NULL)
        return;
    n->anchor = arena_copy(&r->file->arena, (const char *)name, strlen((const char *)name));
    arena_push(&r->file->arena, r->anchors, r->anchor_count, r->anchor_cap) =
        (struct anchor){n->anchor, n, open};
}

static struct yaml_node *build_alias(struct yaml_builder *r)
{
    const char *name = (const char *)r->event.data.alias.anchor;
    struct yaml_mark at = file_mark(r, r->event.start_mark), end = file_mark(r, r->event.end_mark);

    for (size_t i = r->anchor_count; i > 0; i--) {
        const struct anchor *a = &r->anchors[i - 1];
        struct yaml_node *n;

        if (strcmp(a->name, name) != 0)
            continue;
        if (a->open)
            return fail_at(r, at, "*%s is part of the node that it refers to: write the text out",
                           name);
        r->expanded += a->node->weight;
        if (r->expanded > YAML_EXPANDED_MAX)
            return fail_at(
                r, at, "the aliases up to *%s stand for more than %d values: write the text out",
                name, YAML_EXPANDED_MAX);
        n = arena_alloc(&r->file->arena, sizeof *n);
        *n = *a->node;
        n->alias = true;
        n->anchor = NULL;
        n->start = at;
        n->end = end;
        return n;
    }
    return fail_at(r, at,
                   "no &%s stands before *%s: define it, or quote a value that starts with *", name,
                   name);
}

static struct yaml_node *build_scalar(struct yaml_builder *r)
{
    static const enum yaml_style styles[] = {
        [YAML_ANY_SCALAR_STYLE] = YAML_PLAIN,
        [YAML_PLAIN_SCALAR_STYLE] = YAML_PLAIN,
        [YAML_SINGLE_QUOTED_SCALAR_STYLE] = YAML_SINGLE,
        [YAML_DOUBLE_QUOTED_SCALAR_STYLE] = YAML_DOUBLE,
        [YAML_LITERAL_SCALAR_STYLE] = YAML_LITERAL,
        [YAML_FOLDED_SCALAR_STYLE] = YAML_FOLDED,
    };
    const yaml_event_t *e = &r->event;
    struct yaml_node *n = new_node(r, YAML_SCALAR, e->data.scalar.tag);

    n->style = styles[e->data.scalar.style];
    n->text =
        arena_copy(&r->file->arena, (const char *)e->data.scalar.value, e->data.scalar.length);
    n->len = e->data.scalar.length;
    if (memchr(n->text, '\0', n->len) != NULL)
        return fail_at(r, n->start, "there is a NUL character in this text: remove it");
    add_anchor(r, e->data.scalar.anchor, n, false);
    return n;
}

/* The node that begins at the current event; afterwards, its last event is the current one. NULL:
 * the diagnostics have an error. */
static struct yaml_node *build_node(struct yaml_builder *r, unsigned depth);

static bool build_items(struct yaml_builder *r, struct yaml_node *n, unsigned depth)
{
    for (;;) {
        struct yaml_node *item;

        if (!read_event(r))
            return false;
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            return true;
        item = build_node(r, depth + 1);
        if (item == NULL)
            return false;
        n->weight += item->weight;
        n->end = item->end;
        yaml_append(&r->file->arena, n, item);
    }
}

/* For tsearch(). */
static int compare_keys(const void *left, const void *right)
{
    const struct yaml_node *a = left, *b = right;

    return strcmp(a->text, b->text);
}

static void keep_key(void *key)
{
    (void)key; /* it is the file's */
}

/* Drops pairs whose key comes again. One mapping may be a whole file, so its keys are searched in a
 * tree. */
static void drop_twice(struct yaml_builder *r, struct yaml_node *n)
{
    struct yaml_file *f = r->file;
    void *seen = NULL;
    size_t kept = n->count;

    for (size_t i = n->count; i-- > 0;) {
        const struct yaml_node *key = n->pairs[i].key;
        const struct yaml_node **last = tsearch(key, &seen, compare_keys);

        if (last == NULL)
            abort();
        if (*last == key) {
            n->pairs[--kept] = n->pairs[i];
            continue;
        }
        arena_push(&f->arena, f->twice, f->twice_count, f->twice_cap) =
            (struct yaml_twice){n, key, *last};
    }
    tdestroy(seen, keep_key);
    n->count -= kept;
    if (kept > 0)
        memmove(n->pairs, n->pairs + kept, n->count * sizeof *n->pairs);
}

static bool merge_one(struct yaml_builder *r, struct yaml_node *n, const struct yaml_node *from)
{
    if (from->kind != YAML_MAPPING)
        return fail_at(r, from->start,
                       "<<: takes a mapping, or a list of them: write the keys out");
    YAML_FOREACH_PAIR(pair, from) {
        if (yaml_get_pair(n, pair->key->text) != NULL)
            continue;
        yaml_add(&r->file->arena, n, pair->key, pair->value);
        n->pairs[n->count - 1].merged = true;
    }
    return true;
}

/* Replaces `<<: *base` by the pairs of the other mapping, after our own pairs, which win. */
static bool merge_keys(struct yaml_builder *r, struct yaml_node *n)
{
    struct yaml_pair *merge = yaml_get_pair(n, "<<");
    struct yaml_node *from;

    if (merge == NULL || merge->key->style != YAML_PLAIN)
        return true;
    from = merge->value;
    yaml_remove(n, "<<");
    if (from->kind != YAML_SEQUENCE)
        return merge_one(r, n, from);
    return !ANY(YAML_FOREACH(item, from), !merge_one(r, n, item));
}

static bool build_pairs(struct yaml_builder *r, struct yaml_node *n, unsigned depth)
{
    for (;;) {
        struct yaml_pair pair = {0};

        if (!read_event(r))
            return false;
        if (r->event.type == YAML_MAPPING_END_EVENT)
            break;
        pair.key = build_node(r, depth + 1);
        if (pair.key == NULL)
            return false;
        if (pair.key->kind != YAML_SCALAR)
            return fail_at(r, pair.key->start, "a collection is no key: write `key: value`");
        if (!read_event(r))
            return false;
        pair.value = build_node(r, depth + 1);
        if (pair.value == NULL)
            return false;
        n->weight += pair.key->weight + pair.value->weight;
        n->end = pair.value->end;
        yaml_add(&r->file->arena, n, pair.key, pair.value);
    }
    drop_twice(r, n);
    return merge_keys(r, n);
}

static struct yaml_node *build_collection(struct yaml_builder *r, enum yaml_kind kind,
                                          unsigned depth)
{
    const yaml_event_t *e = &r->event;
    bool mapping = kind == YAML_MAPPING, flow, ok;
    struct yaml_node *n =
        new_node(r, kind, mapping ? e->data.mapping_start.tag : e->data.sequence_start.tag);

    flow = mapping ? e->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE
                   : e->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
    n->style = flow ? YAML_FLOW : YAML_BLOCK;
    add_anchor(r, mapping ? e->data.mapping_start.anchor : e->data.sequence_start.anchor, n, true);
    ok = mapping ? build_pairs(r, n, depth) : build_items(r, n, depth);
    if (!ok)
        return NULL;
    for (size_t i = 0; n->anchor != NULL && i < r->anchor_count; i++)
        r->anchors[i].open = r->anchors[i].open && r->anchors[i].node != n;
    /* libyaml ends a block collection where the next token begins, after comments. The collection
     * keeps the end of its last part. */
    if (flow)
        n->end = file_mark(r, r->event.end_mark);
    return n;
}

static struct yaml_node *build_node(struct yaml_builder *r, unsigned depth)
{
    struct yaml_mark at = file_mark(r, r->event.start_mark);

    if (depth > YAML_DEPTH_MAX)
        return fail_at(r, at, "more than %d levels of nesting: no manifest needs more",
                       YAML_DEPTH_MAX);
    if (++r->nodes > YAML_NODES_MAX)
        return fail_at(r, at, "more than %d values: split the file", YAML_NODES_MAX);
    switch (r->event.type) {
    case YAML_ALIAS_EVENT:
        return build_alias(r);
    case YAML_SCALAR_EVENT:
        return build_scalar(r);
    case YAML_SEQUENCE_START_EVENT:
        return build_collection(r, YAML_SEQUENCE, depth);
    default: /* a mapping begins: the callers take the ends of collections themselves */
        return build_collection(r, YAML_MAPPING, depth);
    }
}

/* Reads one document, whose first event has come. set_ranges() corrects its range afterwards. `cap`
 * is the room in f->docs. */
static bool build_document(struct yaml_builder *r, size_t *cap)
{
    struct yaml_file *f = r->file;
    struct yaml_doc doc = {.marked = !r->event.data.document_start.implicit};
    struct yaml_mark end = file_mark(r, r->event.end_mark);
    const yaml_version_directive_t *version = r->event.data.document_start.version_directive;

    doc.body = end.offset;
    if (version != NULL && (version->major != 1 || version->minor > 2))
        return fail_at(r, file_mark(r, r->event.start_mark),
                       "not a version of YAML: remove %%YAML");
    r->anchor_count = 0;
    if (!read_event(r))
        return false;
    doc.root = build_node(r, 0);
    if (doc.root == NULL || !read_event(r)) /* the document's end */
        return false;
    doc.end = file_mark(r, r->event.end_mark).offset; /* of `...`, if there is one */
    /* `---` and nothing else has no root; libyaml gives it an empty plain scalar. */
    if (doc.root->kind == YAML_SCALAR && doc.root->len == 0 && doc.root->style == YAML_PLAIN &&
        doc.root->tag == NULL && doc.root->anchor == NULL &&
        doc.root->start.offset == doc.root->end.offset)
        doc.root = NULL;
    arena_push(&f->arena, f->docs, f->count, *cap) = doc;
    return true;
}

/* Documents partition the file: each takes the lines in front of its own `---`, but the first of
 * them belong to the document before if they are the rest of its last line. */
static void set_ranges(struct yaml_file *f)
{
    for (size_t i = 0; i < f->count; i++) {
        struct yaml_doc *doc = &f->docs[i];

        if (i == 0) {
            doc->start = 0;
        } else {
            size_t least = f->docs[i - 1].end; /* so far where libyaml saw its end */
            size_t at = doc->marked ? doc->body : least;

            while (at > least && f->bytes[at - 1] != '\n') /* back from `---` to its line */
                at--;
            doc->start = at;
            f->docs[i - 1].end = at;
        }
        if (!doc->marked)
            doc->body = doc->start;
    }
    if (f->count > 0)
        f->docs[f->count - 1].end = f->len;
}

static bool build_stream(struct yaml_builder *r)
{
    size_t cap = 0;

    if (!read_event(r)) /* the stream's start */
        return false;
    for (;;) {
        if (!read_event(r))
            return false;
        if (r->event.type == YAML_STREAM_END_EVENT)
            break;
        if (!build_document(r, &cap))
            return false;
    }
    set_ranges(r->file);
    return true;
}

/* Sets docs and count of a file that has its bytes and its name. False: there is an error in d. */
static bool build_docs(struct yaml_file *f, struct diag *d)
{
    struct yaml_builder r = {.file = f, .diag = d};
    bool ok;

    r.base = r.byte = f->len >= 3 && memcmp(f->bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if (!yaml_parser_initialize(&r.parser))
        abort(); /* out of memory before the first byte */
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)f->bytes + r.base,
                                 f->len - r.base);
    ok = build_stream(&r);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return ok;
}

/* --- Files. --- */

/* The first line that a template has and YAML has not: braces of helm, jinja and the like, or a
 * line that is nothing but a placeholder of envsubst. NULL: none; *what says how to render it. */
static const char *find_template(const struct yaml_file *f, struct yaml_mark *mark,
                                 const char **what)
{
    *mark = (struct yaml_mark){.line = 1};
    for (const char *line = f->bytes; line < f->bytes + f->len; mark->line++) {
        const char *end = memchr(line, '\n', f->len - (size_t)(line - f->bytes));
        size_t len = end == NULL ? f->len - (size_t)(line - f->bytes) : (size_t)(end - line);
        const char *first = line + strspn(line, " -"), *at = memmem(line, len, "{{", 2);

        *what = "helm template";
        if (at == NULL)
            at = memmem(line, len, "{%", 2);
        if (at == NULL && first < line + len && first[0] == '$' && first[1] == '{') {
            *what = "envsubst";
            at = first + strcspn(first, "}\n ");
            at = *at == '}' && (at[1] == '\n' || at[1] == '\r' || at[1] == '\0') ? first : NULL;
        }
        if (at != NULL && *first != '#') {
            mark->column = (unsigned)(at - line) + 1;
            mark->offset = (size_t)(at - f->bytes);
            return at;
        }
        line += len + 1;
    }
    return NULL;
}

/* YAML begins with two characters that UTF-16 writes with a zero each, and UTF-8 without. */
static bool is_utf16(const struct yaml_file *f)
{
    return f->len > 1 && (memcmp(f->bytes, "\xff\xfe", 2) == 0 ||
                          memcmp(f->bytes, "\xfe\xff", 2) == 0 || memchr(f->bytes, 0, 2) != NULL);
}

/* f has its bytes and its name. The reader's messages about a template would not help the user. */
static bool file_finish(struct yaml_file *out, struct yaml_file *f, struct diag *d)
{
    struct diag own = {0};
    struct yaml_mark mark = {.line = 1, .column = 1};
    const char *what;
    bool utf16 = is_utf16(f), ok = !utf16 && build_docs(f, &own);
    bool template = !ok && !utf16 && find_template(f, &mark, &what) != NULL;
    bool manifest = strstr(f->bytes, "\"apiVersion\"") != NULL || utf16;

    if (utf16)
        diag_error(d, f->name, mark, "this is UTF-16: convert it (iconv -f UTF-16 -t UTF-8)");
    else if (template)
        diag_error(d, f->name, mark,
                   "this is a template: render it first (%s), and give what comes out", what);
    else
        diag_append(d, &own);
    diag_free(&own);
    if (!ok)
        yaml_file_free(f);
    *out = *f;
    out->is_template = template;
    out->is_manifest = manifest;
    return ok;
}

bool yaml_file_parse(struct yaml_file *out, const char *name, const char *bytes, size_t len,
                     struct diag *d)
{
    struct yaml_file f = {.len = len};

    f.name = arena_copy(&f.arena, name, strlen(name));
    f.bytes = malloc(len + 1);
    if (f.bytes == NULL)
        abort();
    memcpy(f.bytes, bytes, len);
    f.bytes[len] = '\0';
    return file_finish(out, &f, d);
}

/* Reads all bytes and appends a NUL; stops after more than `max`. The caller checks ferror(). */
static char *read_bytes(FILE *in, size_t max, size_t *len)
{
    char *bytes = NULL;
    size_t cap = 64 << 10;

    do {
        cap *= 2;
        bytes = realloc(bytes, cap);
        if (bytes == NULL)
            abort();
        *len += fread(bytes + *len, 1, cap - 1 - *len, in);
    } while (*len == cap - 1 && *len <= max);
    bytes[*len] = '\0';
    return bytes;
}

bool yaml_file_read(struct yaml_file *out, const char *path, size_t size_max, struct diag *d)
{
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "<stdin>" : path;
    FILE *in = standard ? stdin : fopen(path, "re");
    struct yaml_file f = {0};
    bool failed;

    *out = f;
    f.bytes = in == NULL ? NULL : read_bytes(in, size_max, &f.len);
    failed = in == NULL || ferror(in);
    if (failed)
        diag_error(d, name, (struct yaml_mark){0}, "cannot be read: %s", strerror(errno));
    else if (f.len > size_max)
        diag_error(d, name, (struct yaml_mark){0}, "more than %zu MiB: give it in parts",
                   size_max >> 20);
    if (in != NULL && !standard)
        fclose(in);
    if (failed || f.len > size_max) {
        free(f.bytes);
        return false;
    }
    f.name = arena_copy(&f.arena, name, strlen(name));
    return file_finish(out, &f, d);
}

bool yaml_refuse_twice(const struct yaml_file *f, size_t from, size_t to, struct diag *d)
{
    for (size_t i = f->twice_count; i-- > 0;) {
        const struct yaml_twice *t = &f->twice[i];

        if (t->mapping->end.offset < from || t->mapping->start.offset > to)
            continue;
        yaml_error(d, t->last, "%s occurs twice, first in line %u: keep one of them", t->last->text,
                   t->first->start.line);
        return true;
    }
    return false;
}

void yaml_file_free(struct yaml_file *f)
{
    free(f->bytes);
    arena_free(&f->arena);
    *f = (struct yaml_file){0};
}
