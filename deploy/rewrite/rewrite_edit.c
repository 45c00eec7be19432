/* Edits the bytes between the marks of nodes, and looks for what has no marks in the text around
 * them: dashes, commas, line ends, comments after a value. */
#include "deploy/rewrite/rewrite_edit.h"

#include <string.h>

#include "deploy/rewrite/rewrite_edit_internal.h"
#include "deploy/yaml/yaml_write.h"

void edit_bytes(struct rewrite *w, struct rewrite_file *f, size_t at, size_t len, const char *text,
                size_t text_len)
{
    text_edits_add(&f->edits, &w->arena, at, len, text, text_len);
}

static void insert(struct rewrite *w, struct rewrite_file *f, size_t at, const struct buf *text)
{
    edit_bytes(w, f, at, 0, text->text, text->len);
}

/* --- Where lines begin and end. --- */

size_t edit_line_start(const struct rewrite_file *f, size_t at)
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
    for (; from < to; from++) {
        if (f->yaml.bytes[from] != ' ')
            return false;
    }
    return true;
}

/* --- Writing blocks. --- */

/* Appends the lines of the block, indented; the first one begins with `lead`. */
static void add_block(const struct rewrite_file *f, struct buf *out, const char *block,
                      size_t indent, const char *lead)
{
    const char *line = block;

    while (*line != '\0') {
        size_t len = strcspn(line, "\n");

        if (line == block) {
            buf_add(out, lead, strlen(lead));
        } else if (len > 0) {
            buf_spaces(out, indent);
        }
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
    insert(w, f, at, &text);
}

bool edit_refuse_alias(struct rewrite *w, const struct yaml_node *n)
{
    if (n->alias)
        rewrite_error(w, n, "this value is an alias, which stands for others too: write it out");
    return n->alias;
}

/* --- Pairs. --- */

/* The style of flow collections near a node: `{ a: b }` or `{"a": "b"}`. */
static struct flow_style flow_style_of(const struct rewrite_file *f, const struct yaml_node *n)
{
    struct flow_style s = {0};

    if (n->style == YAML_FLOW && f->yaml.bytes[n->start.offset + 1] == ' ')
        s.spaced = true;
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
        rewrite_error(w, n, "what is to be added does not fit here: write this in block style");
    return out.text == NULL ? "" : out.text;
}

void edit_add_pair(struct rewrite *w, const struct yaml_node *mapping,
                   const struct yaml_pair *after, const char *block)
{
    struct rewrite_file *f = rewrite_file_of(w, mapping);
    struct buf out = {.arena = &w->arena};
    unsigned indent;

    if (edit_refuse_alias(w, mapping))
        return;
    if (mapping->style == YAML_FLOW) {
        if (mapping->count == 0) {
            buf_print(&out, "%s", to_flow(w, mapping, block, true));
            edit_bytes(w, f, mapping->start.offset + 1, 0, out.text, out.len);
            return;
        }
        buf_print(&out, ", %s", to_flow(w, mapping, block, true));
        insert(w, f, after->value->end.offset, &out);
        return;
    }
    indent = mapping->pairs[0].key->start.column - 1;
    buf_spaces(&out, indent);
    add_block(f, &out, block, indent, "");
    insert_lines(w, f, behind_line(f, after->value), &out);
}

void edit_add_pair_before(struct rewrite *w, const struct yaml_node *mapping,
                          const struct yaml_pair *before, const char *block)
{
    struct rewrite_file *f = rewrite_file_of(w, mapping);
    struct buf out = {.arena = &w->arena};
    unsigned indent = before->key->start.column - 1;

    if (edit_refuse_alias(w, mapping))
        return;
    if (mapping->style == YAML_FLOW) {
        buf_print(&out, "%s, ", to_flow(w, mapping, block, true));
    } else {
        add_block(f, &out, block, indent, "");
        buf_spaces(&out, indent);
    }
    insert(w, f, before->key->start.offset, &out);
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
        edit_bytes(w, f, start, at - start, "", 0);
        return;
    }
    at = start;
    while (at > lowest && edit_is_space(bytes[at - 1]))
        at--;
    if (at > lowest && bytes[at - 1] == ',')
        start = at - 1;
    edit_bytes(w, f, start, end - start, "", 0);
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
                      "this comes with a merge key (<<), which others may share: "
                      "write it out");
        return;
    }
    if (mapping->style == YAML_FLOW) {
        remove_from_flow(w, f, start, pair->value->end.offset, mapping->start.offset);
    } else if (is_blank_between(f, line, start)) {
        edit_bytes(w, f, line, behind_line(f, pair->value) - line, "", 0);
    } else if (pair < mapping->pairs + mapping->count - 1 && !pair[1].merged) {
        /* The first pair of an item: the next pair moves up to the dash. */
        edit_bytes(w, f, start, pair[1].key->start.offset - start, "", 0);
    } else {
        rewrite_error(w, pair->key,
                      "%s is all there is here, and cannot be taken out: remove it "
                      "by hand",
                      pair->key->text);
    }
}

/* --- Items. --- */

/* The offset of the dash of the item; SIZE_MAX if something stands between them. */
static size_t dash_of(const struct rewrite_file *f, const struct yaml_node *item)
{
    size_t at = item->start.offset;

    while (at > 0 && edit_is_space(f->yaml.bytes[at - 1]))
        at--;
    return at > 0 && f->yaml.bytes[at - 1] == '-' ? at - 1 : SIZE_MAX;
}

static bool find_dash(struct rewrite *w, const struct rewrite_file *f, const struct yaml_node *item,
                      size_t *dash)
{
    *dash = dash_of(f, item);
    if (*dash == SIZE_MAX)
        rewrite_error(w, item,
                      "something stands between this item and its dash: write them on one "
                      "line");
    return *dash != SIZE_MAX;
}

/* The text of the item beside `like`: in block style, or in flow style like it. */
static void add_item_lines(struct rewrite *w, const struct rewrite_file *f, struct buf *out,
                           const struct yaml_node *like, const char *block, size_t column)
{
    buf_spaces(out, column);
    if (like->style == YAML_FLOW && like->kind == YAML_MAPPING)
        buf_print(out, "- %s%s", to_flow(w, like, block, false), f->eol);
    else
        add_block(f, out, block, column + 2, "- ");
}

void edit_add_item(struct rewrite *w, const struct yaml_node *sequence, size_t index, bool before,
                   const char *block)
{
    struct rewrite_file *f = rewrite_file_of(w, sequence);
    struct buf out = {.arena = &w->arena};
    const struct yaml_node *like;
    size_t dash;

    if (edit_refuse_alias(w, sequence))
        return;
    if (sequence->count == 0) { /* `[]` */
        buf_print(&out, "%s", to_flow(w, sequence, block, false));
        insert(w, f, sequence->start.offset + 1, &out);
        return;
    }
    like = sequence->items[index];
    if (sequence->style == YAML_FLOW) {
        const char *text = to_flow(w, sequence, block, false);

        buf_print(&out, before ? "%s, " : ", %s", text);
        insert(w, f, before ? like->start.offset : like->end.offset, &out);
        return;
    }
    if (!find_dash(w, f, like, &dash))
        return;
    add_item_lines(w, f, &out, like, block, dash - edit_line_start(f, dash));
    if (before && is_blank_between(f, edit_line_start(f, dash), dash)) {
        insert_lines(w, f, edit_line_start(f, dash), &out);
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
        edit_bytes(w, f, line, behind_line(f, item) - line, "", 0);
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
        add_block(f, &out, block, n->start.column - 1, "");
        if (f->yaml.bytes[n->end.offset - 1] != '\n')
            drop_eol(&out);
    }
    edit_bytes(w, f, n->start.offset, n->end.offset - n->start.offset, out.text, out.len);
}

/* Where the document's own `---` begins, if it has one. */
static size_t marker_of(const struct rewrite_file *f, const struct yaml_doc *doc)
{
    return doc->marked ? edit_line_start(f, doc->body) : doc->body;
}

/* With its line, if nothing else is on it. */
static void remove_marker(struct rewrite *w, struct rewrite_file *f, const struct yaml_doc *doc)
{
    size_t at = marker_of(f, doc), end = at + 3;

    while (end < f->yaml.len && edit_is_space(f->yaml.bytes[end]) && f->yaml.bytes[end] != '\n')
        end++;
    if (end < f->yaml.len && f->yaml.bytes[end] == '\n')
        end++;
    else
        end = at + 3;
    edit_bytes(w, f, at, end - at, "", 0);
}

void edit_wrap(struct rewrite *w, const struct yaml_node *n, const char *before, const char *behind)
{
    struct rewrite_file *f = rewrite_file_of(w, n);

    edit_bytes(w, f, n->start.offset, 0, before, strlen(before));
    edit_bytes(w, f, n->end.offset, 0, behind, strlen(behind));
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
    edit_bytes(w, f, start, end - start, "", 0);
}

void edit_add_documents(struct rewrite *w, const struct yaml_doc *before, const char *documents)
{
    struct rewrite_file *f = rewrite_file_of(w, before->root);
    struct buf out = {.arena = &w->arena};
    size_t at = marker_of(f, before);
    bool bom = f->yaml.len >= 3 && memcmp(f->yaml.bytes, "\xef\xbb\xbf", 3) == 0;

    if (before->marked)
        add_block(f, &out, "---\n", 0, "");
    add_block(f, &out, documents, 0, "");
    if (!before->marked)
        add_block(f, &out, "---\n", 0, "");
    insert(w, f, at == 0 && bom ? 3 : at, &out);
}
