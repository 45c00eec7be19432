/* Edits the bytes between the marks of nodes, and looks for what has no marks in the text around
 * them: dashes, commas, line ends, comments after a value. A file gets its new text if all its
 * edits are safe. */
#include "deploy/rewrite/rewrite.h"

#include <string.h>

static bool edit_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Replaces `len` bytes of the file by the text, which is copied. */
static void edit_bytes(struct rewrite *w, struct rewrite_file *f, size_t at, size_t len,
                       const char *text)
{
    text_edits_add(&f->edits, &w->arena, at, len, text);
}

/* --- Where lines begin and end. --- */

static size_t edit_line_start(const struct rewrite_file *f, size_t at)
{
    while (at > 0 && f->yaml.bytes[at - 1] != '\n')
        at--;
    return at;
}

/* The end of the line in which a node ends. A block scalar already ends after its last line. */
static size_t behind_line(const struct rewrite_file *f, const struct yaml_node *n)
{
    size_t at = n->end.offset;
    const char *nl;

    if (at > n->start.offset && f->yaml.bytes[at - 1] == '\n')
        return at;
    nl = memchr(f->yaml.bytes + at, '\n', f->yaml.len - at);
    return nl == NULL ? f->yaml.len : (size_t)(nl - f->yaml.bytes) + 1;
}

static bool is_blank_between(const struct rewrite_file *f, size_t from, size_t to)
{
    return from + strspn(f->yaml.bytes + from, " ") >= to;
}

/* --- Writing blocks. --- */

/* Appends the lines of the block, indented; the first one begins with `lead`. */
static void edit_add_block(const struct rewrite_file *f, struct buf *out, const char *block,
                           size_t indent, const char *lead)
{
    const char *line = block;

    while (*line != '\0') {
        size_t len = strcspn(line, "\n");

        if (line == block)
            buf_add(out, lead, strlen(lead));
        else if (len > 0)
            buf_print(out, "%*s", (int)indent, "");
        buf_add(out, line, len);
        buf_add(out, f->eol, strlen(f->eol));
        line += len + (line[len] == '\n');
    }
}

static void drop_eol(struct buf *out)
{
    while (out->len > 0 && (out->text[out->len - 1] == '\n' || out->text[out->len - 1] == '\r'))
        out->text[--out->len] = '\0';
}

/* Inserts whole lines at `at`, which is the start of a line or the end of the file. */
static void insert_lines(struct rewrite *w, struct rewrite_file *f, size_t at, struct buf *lines)
{
    struct buf text = {.arena = &w->arena};

    if (at == f->yaml.len && at > 0 && f->yaml.bytes[at - 1] != '\n') {
        buf_add(&text, f->eol, strlen(f->eol));
        drop_eol(lines); /* the file still ends without a newline */
    }
    buf_add(&text, lines->text, lines->len);
    edit_bytes(w, f, at, 0, text.text);
}

/* True, with an error in the diag: other places share the value. */
static bool edit_refuse_alias(struct rewrite *w, const struct yaml_node *n)
{
    if (n->alias)
        rewrite_error(w, n, "this value is an alias, which stands for others too: write it out");
    return n->alias;
}

/* --- Pairs. --- */

/* The style of flow collections near a node: `{ a: b }` or `{"a": "b"}`. */
static struct flow_style flow_style_of(const struct rewrite_file *f, const struct yaml_node *n)
{
    bool spaced = n->style == YAML_FLOW && f->yaml.bytes[n->start.offset + 1] == ' ';
    struct flow_style s = {.spaced = spaced};

    if (n->kind == YAML_MAPPING && n->count > 0)
        s.json = n->pairs[0].key->style == YAML_DOUBLE;
    else if (n->kind == YAML_SEQUENCE && n->count > 0 && n->items[0]->kind == YAML_MAPPING)
        s = flow_style_of(f, n->items[0]);
    return s;
}

/* The block in the flow style that `n` is written in; with `bare`, its pairs without the outer
 * braces. */
static const char *to_flow(struct rewrite *w, const struct yaml_node *n, const char *block,
                           bool bare)
{
    struct buf out = {.arena = &w->arena};

    if (!flow_print_block(&out, block, flow_style_of(rewrite_file_of(w, n), n), bare))
        rewrite_error(w, n, "the added text does not fit here: write this in block style");
    return out.text == NULL ? "" : out.text;
}

/* Adds the block to a flow collection: before or behind this part of it, or as the first one
 * (NULL). */
static void add_to_flow(struct rewrite *w, const struct yaml_node *collection,
                        const struct yaml_node *beside, bool before, const char *block)
{
    const char *text = to_flow(w, collection, block, collection->kind == YAML_MAPPING);
    size_t at = beside == NULL ? collection->start.offset + 1
                : before       ? beside->start.offset
                               : beside->end.offset;

    if (beside != NULL)
        text = arena_text(&w->arena, before ? "%s, " : ", %s", text);
    edit_bytes(w, rewrite_file_of(w, collection), at, 0, text);
}

void edit_add_pair(struct rewrite *w, const struct yaml_node *mapping,
                   const struct yaml_pair *beside, bool before, const char *block)
{
    struct rewrite_file *f = rewrite_file_of(w, mapping);
    const struct yaml_node *at = beside == NULL ? NULL : before ? beside->key : beside->value;
    struct buf out = {.arena = &w->arena};
    unsigned indent;

    if (edit_refuse_alias(w, mapping))
        return;
    if (mapping->style == YAML_FLOW) {
        add_to_flow(w, mapping, mapping->count == 0 ? NULL : at, before, block);
        return;
    }
    indent = (before ? beside : mapping->pairs)->key->start.column - 1;
    buf_print(&out, "%*s", before ? 0 : (int)indent, "");
    edit_add_block(f, &out, block, indent, "");
    if (!before) {
        insert_lines(w, f, behind_line(f, at), &out);
        return;
    }
    buf_print(&out, "%*s", (int)indent, "");
    edit_bytes(w, f, at->start.offset, 0, out.text);
}

/* After the comma that follows, or before the one in front. */
static void remove_from_flow(struct rewrite *w, struct rewrite_file *f, size_t start, size_t end,
                             size_t lowest)
{
    const char *bytes = f->yaml.bytes;
    size_t at = end;

    while (at < f->yaml.len && edit_is_space(bytes[at]))
        at++;
    if (at < f->yaml.len && bytes[at] == ',') {
        at++;
        while (at < f->yaml.len && bytes[at] == ' ')
            at++;
        edit_bytes(w, f, start, at - start, "");
        return;
    }
    at = start;
    while (at > lowest && edit_is_space(bytes[at - 1]))
        at--;
    if (at > lowest && bytes[at - 1] == ',')
        start = at - 1;
    edit_bytes(w, f, start, end - start, "");
}

void edit_remove_pair(struct rewrite *w, const struct yaml_node *mapping,
                      const struct yaml_pair *pair)
{
    struct rewrite_file *f = rewrite_file_of(w, mapping);
    size_t start = pair->key->start.offset, line = edit_line_start(f, start);

    if (edit_refuse_alias(w, mapping))
        return;
    if (pair->merged) {
        rewrite_error(w, pair->value,
                      "this comes with a merge key (<<), which others may share: write it out");
        return;
    }
    if (mapping->style == YAML_FLOW) {
        remove_from_flow(w, f, start, pair->value->end.offset, mapping->start.offset);
    } else if (is_blank_between(f, line, start)) {
        edit_bytes(w, f, line, behind_line(f, pair->value) - line, "");
    } else if (pair < mapping->pairs + mapping->count - 1 && !pair[1].merged) {
        /* The first pair of an item: the next pair moves up to the dash. */
        edit_bytes(w, f, start, pair[1].key->start.offset - start, "");
    } else {
        rewrite_error(w, pair->key,
                      "%s is all there is here, and cannot be taken out: remove it by hand",
                      pair->key->text);
    }
}

/* --- Items. --- */

/* False, with an error in the diag: more than comments stands between the item and its dash. */
static bool find_dash(struct rewrite *w, const struct rewrite_file *f, const struct yaml_node *item,
                      size_t *dash)
{
    const char *bytes = f->yaml.bytes, *comment = bytes + item->start.offset, *line;
    size_t at;

    do { /* kpt moves the first comment of an object behind the dash */
        for (at = (size_t)(comment - bytes); at > 0 && edit_is_space(bytes[at - 1]); at--)
            ;
        *dash = at - 1;
        if (at > 0 && bytes[at - 1] == '-')
            return true;
        line = bytes + edit_line_start(f, at);
        comment = memchr(line, '#', (size_t)(bytes + at - line));
    } while (comment != NULL);
    return rewrite_error(w, item,
                         "something stands between this item and its dash: write them on one line");
}

void edit_add_item(struct rewrite *w, const struct yaml_node *sequence, size_t index, bool before,
                   const char *block)
{
    struct rewrite_file *f = rewrite_file_of(w, sequence);
    struct buf out = {.arena = &w->arena};
    const struct yaml_node *like;
    size_t dash, line;

    if (edit_refuse_alias(w, sequence))
        return;
    like = yaml_at(sequence, index);
    if (sequence->style == YAML_FLOW) {
        add_to_flow(w, sequence, like, before, block);
        return;
    }
    if (!find_dash(w, f, like, &dash))
        return;
    line = edit_line_start(f, dash);
    buf_print(&out, "%*s", (int)(dash - line), "");
    if (like->style == YAML_FLOW && like->kind == YAML_MAPPING) /* the new item is like it */
        buf_print(&out, "- %s%s", to_flow(w, like, block, false), f->eol);
    else
        edit_add_block(f, &out, block, dash - line + 2, "- ");
    if (before && is_blank_between(f, line, dash)) {
        insert_lines(w, f, line, &out);
    } else if (before) { /* after `- - `: not on a line of its own */
        rewrite_error(w, like, "this list begins within a line: write it on lines of its own");
    } else {
        insert_lines(w, f, behind_line(f, like), &out);
    }
}

void edit_append_item(struct rewrite *w, const struct yaml_node *sequence, const char *block)
{
    edit_add_item(w, sequence, sequence->count == 0 ? 0 : sequence->count - 1, false, block);
}

void edit_remove_item(struct rewrite *w, const struct yaml_node *sequence, size_t index)
{
    struct rewrite_file *f = rewrite_file_of(w, sequence);
    const struct yaml_node *item = sequence->items[index];
    size_t dash, line;

    if (edit_refuse_alias(w, sequence))
        return;
    if (sequence->style == YAML_FLOW) {
        remove_from_flow(w, f, item->start.offset, item->end.offset, sequence->start.offset);
        return;
    }
    if (!find_dash(w, f, item, &dash))
        return;
    line = edit_line_start(f, dash);
    if (is_blank_between(f, line, dash))
        edit_bytes(w, f, line, behind_line(f, item) - line, "");
    else
        rewrite_error(w, item, "this list begins within a line: write it on lines of its own");
}

/* --- Whole nodes and documents. --- */

void edit_replace(struct rewrite *w, const struct yaml_node *n, const char *block)
{
    struct rewrite_file *f = rewrite_file_of(w, n);
    struct buf out = {.arena = &w->arena};

    if (edit_refuse_alias(w, n))
        return;
    if (n->style == YAML_FLOW) {
        buf_print(&out, "%s", to_flow(w, n, block, false));
    } else {
        edit_add_block(f, &out, block, n->start.column - 1, "");
        if (f->yaml.bytes[n->end.offset - 1] != '\n')
            drop_eol(&out);
    }
    edit_bytes(w, f, n->start.offset, n->end.offset - n->start.offset, out.text);
}

/* Where the document's own `---` begins, if it has one. */
static size_t marker_of(const struct rewrite_file *f, const struct yaml_doc *doc)
{
    return doc->marked ? edit_line_start(f, doc->body) : doc->body;
}

/* Removes the `---` of a document, and its whole line if the line has no other text. */
static void remove_marker(struct rewrite *w, struct rewrite_file *f, const struct yaml_doc *doc)
{
    size_t at = marker_of(f, doc), end = at + 3;

    while (end < f->yaml.len && edit_is_space(f->yaml.bytes[end]) && f->yaml.bytes[end] != '\n')
        end++;
    end = end < f->yaml.len && f->yaml.bytes[end] == '\n' ? end + 1 : at + 3;
    edit_bytes(w, f, at, end - at, "");
}

void edit_make_list(struct rewrite *w, const struct yaml_node *object,
                    const struct yaml_node *documents)
{
    struct rewrite_file *f = rewrite_file_of(w, object);
    const char *text = "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n";

    YAML_FOREACH(document, documents) /* tabs are no blanks of YAML */
        text = arena_text(&w->arena, "%s%s,\n", text, yaml_write_json(&w->arena, document, " "));
    edit_bytes(w, f, object->start.offset, 0, text);
    edit_bytes(w, f, object->end.offset, 0, "]}");
}

void edit_remove_document(struct rewrite *w, const struct yaml_doc *doc)
{
    struct rewrite_file *f = rewrite_file_of(w, doc->root);
    const struct yaml_doc *next = doc + 1;
    size_t start = edit_line_start(f, doc->root->start.offset), end = behind_line(f, doc->root);

    if (doc->marked && start < doc->body) /* it begins on the line of its `---` */
        start = marker_of(f, doc);
    else if (doc->marked)
        remove_marker(w, f, doc);
    else if (next < f->yaml.docs + f->yaml.count && next->marked)
        remove_marker(w, f, next);
    edit_bytes(w, f, start, end - start, "");
}

void edit_add_documents(struct rewrite *w, const struct yaml_doc *before, const char *documents)
{
    struct rewrite_file *f = rewrite_file_of(w, before->root);
    struct buf out = {.arena = &w->arena};
    size_t at = marker_of(f, before);
    bool bom = f->yaml.len >= 3 && memcmp(f->yaml.bytes, "\xef\xbb\xbf", 3) == 0;

    if (before->marked)
        edit_add_block(f, &out, "---\n", 0, "");
    edit_add_block(f, &out, documents, 0, "");
    if (!before->marked)
        edit_add_block(f, &out, "---\n", 0, "");
    edit_bytes(w, f, at == 0 && bom ? 3 : at, 0, out.text);
}

/* --- Scalars, and parts of them, in the style of the old ones. --- */

static bool refuse_anchor(struct rewrite *w, const struct yaml_node *n)
{
    if (n->anchor != NULL)
        rewrite_error(w, n, "this value has an anchor, and others may share it: write it out");
    return n->anchor != NULL;
}

/* A number replaces a number, a boolean replaces a boolean. */
static bool is_same_type(const struct yaml_node *n, const char *text)
{
    struct yaml_node plain = {.kind = YAML_SCALAR, .style = YAML_PLAIN, .text = text};

    return n->style == YAML_PLAIN && yaml_type(n) == yaml_type(&plain) &&
           yaml_type(n) != YAML_STRING;
}

void edit_value(struct rewrite *w, const struct yaml_node *n, const char *text)
{
    struct rewrite_file *f = rewrite_file_of(w, n);
    struct buf out = {.arena = &w->arena};
    size_t start = scalar_start(&f->yaml, n); /* a tag stays */

    if (edit_refuse_alias(w, n) || refuse_anchor(w, n))
        return;
    if (n->kind == YAML_SCALAR && n->len == 0 && n->start.offset == n->end.offset) {
        buf_print(&out, " %s", scalar_text(&w->arena, text));
    } else if (n->style == YAML_SINGLE && strpbrk(text, "'\n") == NULL) {
        buf_print(&out, "'%s'", text);
    } else if (n->style == YAML_DOUBLE) {
        scalar_add_string(&out, text);
    } else {
        buf_print(&out, "%s", is_same_type(n, text) ? text : scalar_text(&w->arena, text));
        if ((n->style == YAML_LITERAL || n->style == YAML_FOLDED) &&
            f->yaml.bytes[n->end.offset - 1] == '\n')
            buf_add(&out, f->eol, strlen(f->eol));
    }
    edit_bytes(w, f, start, n->end.offset - start, out.text);
}

/* ` \`, the newline and the blanks after it become one blank. */
static void add_folded(struct buf *out, const char *text, enum yaml_style style)
{
    for (; *text != '\0'; text++) {
        if (text[0] == '\\' && text[1] == '\n') {
            text++;
            while (text[1] == ' ' || text[1] == '\t')
                text++;
            if (out->len > 0 && out->text[out->len - 1] == ' ')
                continue;
            buf_add(out, " ", 1);
        } else if (style == YAML_SINGLE && *text == '\'') {
            buf_add(out, "''", 2);
        } else {
            buf_add(out, *text == '\n' ? " " : text, 1);
        }
    }
}

/* The indentation of the block: the blanks of its line in the file, minus the blanks that belong to
 * the value. */
static size_t block_indent(const struct rewrite_file *f, const struct yaml_node *n, size_t at,
                           size_t offset)
{
    size_t start = at, own, all;

    while (start > 0 && n->text[start - 1] != '\n')
        start--;
    own = strspn(n->text + start, " ");
    all = strspn(f->yaml.bytes + edit_line_start(f, offset), " ");
    return all > own ? all - own : 0;
}

/* Whether the bytes of the source are those of the value. scalar_position() knows the source of
 * every byte in quotes and in a block with |, escapes and joined lines included. */
static bool is_exact(const struct rewrite_file *f, const struct yaml_node *n, size_t start,
                     size_t end, size_t from, size_t to)
{
    if (n->style == YAML_SINGLE || n->style == YAML_DOUBLE || n->style == YAML_LITERAL)
        return end >= start;
    return end - start == to - from &&
           memcmp(f->yaml.bytes + start, n->text + from, to - from) == 0;
}

void edit_part(struct rewrite *w, const struct yaml_node *n, size_t from, size_t to,
               const char *text)
{
    struct rewrite_file *f = rewrite_file_of(w, n);
    struct buf out = {.arena = &w->arena};
    size_t start, end;

    if (edit_refuse_alias(w, n) || refuse_anchor(w, n))
        return;
    start = scalar_position(&f->yaml, n, from).offset;
    end = to == from ? start : scalar_position(&f->yaml, n, to).offset;
    if (!is_exact(f, n, start, end, from, to)) {
        rewrite_error(
            w, n,
            "the words to be changed stand on folded lines: write the text as a block with |");
        return;
    }
    if (n->style == YAML_LITERAL) {
        size_t indent = block_indent(f, n, from, start);

        for (const char *p = text; *p != '\0'; p++) {
            if (*p == '\n') {
                buf_add(&out, f->eol, strlen(f->eol));
                buf_print(&out, "%*s", (int)(p[1] == '\n' ? 0 : indent), "");
            } else {
                buf_add(&out, p, 1);
            }
        }
    } else if (n->style == YAML_DOUBLE) {
        scalar_add_quoted(&out, text);
    } else {
        add_folded(&out, text, n->style);
    }
    edit_bytes(w, f, start, end - start, out.text == NULL ? "" : out.text);
}

/* --- The new text: anchors. --- */

static bool is_use(const struct yaml_node *anchored, const struct yaml_node *n)
{
    return n == anchored || (n->alias && n->kind == anchored->kind && n->file == anchored->file &&
                             (n->kind == YAML_MAPPING    ? n->pairs == anchored->pairs
                              : n->kind == YAML_SEQUENCE ? n->items == anchored->items
                                                         : n->text == anchored->text));
}

/* How often the node stands in the tree: at its anchor and at every alias. */
static size_t count_uses(const struct yaml_node *anchored, const struct yaml_node *n)
{
    size_t count = 0;

    if (n == NULL || is_use(anchored, n))
        return n != NULL;
    for (size_t i = 0; n->kind != YAML_SCALAR && !n->alias && i < n->count; i++)
        count += count_uses(anchored, yaml_child(n, i));
    return count;
}

/* How many uses of the node belong to containers that start torch. If the node holds a whole
 * container, all uses in the pod template do. */
static size_t count_good(const struct rewrite *w, const struct kube_pods *p,
                         const struct yaml_node *anchored)
{
    const struct kube_container *last = NULL;
    size_t count = 0;

    JOB_FOREACH(r, job_runs_in(&w->jobs, p)) {
        const struct kube_container *c = r->container;

        if (count_uses(c->node, anchored) > 0)
            return count_uses(anchored, p->part);
        if (c != last)
            count += count_uses(anchored, c->node);
        last = c;
    }
    return count;
}

/* True: an edit in one place is right in all places, since all are in containers of moved jobs that
 * start torch; or there is only one place, an anchor without an alias. */
static bool is_edit_for_all_uses(const struct rewrite *w, const struct rewrite_file *f,
                                 const struct yaml_node *anchored)
{
    size_t uses = 0, good = 0;

    for (size_t i = 0; i < f->yaml.count; i++)
        uses += count_uses(anchored, f->yaml.docs[i].root);
    KUBE_FOREACH_PODS(p, &w->bundle) {
        if (w->marks[p->object->index].moved && p->part->file == anchored->file)
            good += count_good(w, p, anchored);
    }
    return uses == good || uses == 1;
}

/* An edit inside of an anchored node changes all places with *name; an edit around it would leave
 * these without the anchor. */
static void check_shared(struct rewrite *w, const struct rewrite_file *f, const struct yaml_node *n)
{
    if (n->alias)
        return;
    FOREACH(const struct text_edit, e, f->edits.list, n->anchor != NULL ? f->edits.count : 0) {
        size_t from = n->start.offset, to = n->end.offset;

        if (e->at < to && e->at + e->len > from && !(e->at <= from && e->at + e->len >= to) &&
            !is_edit_for_all_uses(w, f, n)) {
            rewrite_error(w, n,
                          "&%s is shared by every *%s, but rewrite must change it for one of them: "
                          "write the text out",
                          n->anchor, n->anchor);
            return;
        }
    }
    for (size_t i = 0; n->kind != YAML_SCALAR && i < n->count; i++) {
        if (n->kind == YAML_SEQUENCE)
            check_shared(w, f, n->items[i]);
        else if (!n->pairs[i].merged)
            check_shared(w, f, n->pairs[i].value);
    }
}

/* A value with the braces of a template is not known yet. Comments may contain them. */
static void check_templates(struct rewrite *w, const struct rewrite_file *f,
                            const struct yaml_node *n)
{
    FOREACH(const struct text_edit, e, f->edits.list, n->kind == YAML_SCALAR ? f->edits.count : 0) {
        size_t from = e->at > n->start.offset ? e->at : n->start.offset;
        size_t to = e->at + e->len < n->end.offset ? e->at + e->len : n->end.offset;

        if (from < to && memmem(f->yaml.bytes + from, to - from, "{{", 2) != NULL) {
            rewrite_error(
                w, n,
                "this is a template: render it first (helm template), and rewrite what comes out");
            return;
        }
    }
    for (size_t i = 0; n->kind != YAML_SCALAR && !n->alias && i < n->count; i++)
        check_templates(w, f, yaml_child(n, i));
}

/* --- The new text itself. --- */

static struct yaml_mark mark_of(const struct rewrite_file *f, size_t offset)
{
    return yaml_mark_forward((struct yaml_mark){0, 1, 1}, f->yaml.bytes, offset);
}

/* The result must be YAML again. If it is not, rewrite misunderstood the file. */
static bool is_still_yaml(struct rewrite *w, struct rewrite_file *f)
{
    struct diag d = {0};
    bool ok = yaml_file_parse(&f->again, f->path, f->result.text, f->result.len, &d);

    if (!ok)
        diag_error(
            w->diag, f->yaml.name, mark_of(f, f->edits.list[0].at),
            "the edits do not fit this text (line %u would be: %s): write it in a plainer style",
            d.entries[0].mark.line, d.entries[0].text);
    diag_free(&d);
    return ok;
}

static bool contains(const struct rewrite_file *f, const char *text)
{
    return memmem(f->yaml.bytes, f->yaml.len, text, strlen(text)) != NULL;
}

bool edit_apply(struct rewrite *w, struct rewrite_file *f)
{
    bool anchors = contains(f, "&"), templates = contains(f, "{{");
    size_t where;

    FOREACH(const struct text_edit, e, f->edits.list, f->edits.count) {
        if (yaml_refuse_twice(&f->yaml, e->at, e->at + e->len, w->diag))
            return false;
    }
    for (size_t i = 0; f->edits.count > 0 && i < f->yaml.count; i++) {
        if (anchors && f->yaml.docs[i].root != NULL)
            check_shared(w, f, f->yaml.docs[i].root);
        if (templates && f->yaml.docs[i].root != NULL)
            check_templates(w, f, f->yaml.docs[i].root);
    }
    if (w->diag->errors > 0)
        return false;
    if (!text_edits_apply(&f->edits, &w->arena, f->yaml.bytes, f->yaml.len, &f->result, &where))
        return diag_error(w->diag, f->yaml.name, mark_of(f, where),
                          "two changes meet here: write what stands here on lines of its own");
    return f->edits.count == 0 || is_still_yaml(w, f);
}
