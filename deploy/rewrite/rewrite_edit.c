/* Works on the bytes between the marks of nodes; what the marks do not say (dashes, commas, line
 * ends, comments behind a value) is looked for in the text around them. */
#include "deploy/rewrite/rewrite_edit.h"

#include <string.h>

#include "deploy/rewrite/rewrite_edit_internal.h"
#include "deploy/yaml/yaml_flow.h"

void edit_bytes(struct bundle *b, struct bundle_file *f, size_t at, size_t len, const char *text,
                size_t text_len)
{
    text_edits_add(&f->edits, &b->arena, at, len, text, text_len);
}

static void insert(struct bundle *b, struct bundle_file *f, size_t at, const struct buf *text)
{
    edit_bytes(b, f, at, 0, text->text, text->len);
}

/* --- Where lines begin and end. --- */

size_t edit_line_start(const struct bundle_file *f, size_t at)
{
    while (at > 0 && f->yaml.bytes[at - 1] != '\n')
        at--;
    return at;
}

/* Behind the line that a node ends in; a block scalar ends behind its last line already. */
static size_t behind_line(const struct bundle_file *f, const struct yaml_node *n)
{
    size_t at = n->end.offset;
    const char *nl;

    if (at > n->start.offset && f->yaml.bytes[at - 1] == '\n')
        return at;
    nl = memchr(f->yaml.bytes + at, '\n', f->yaml.len - at);
    return nl == NULL ? f->yaml.len : (size_t)(nl - f->yaml.bytes) + 1;
}

static bool is_blank_between(const struct bundle_file *f, size_t from, size_t to)
{
    for (; from < to; from++) {
        if (f->yaml.bytes[from] != ' ')
            return false;
    }
    return true;
}

/* --- Writing blocks. --- */

/* The block's lines, indented; the first one is led by `lead`. */
static void add_block(const struct bundle_file *f, struct buf *out, const char *block,
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

/* Whole lines at `at`, which is the start of a line or the end of the file. */
static void insert_lines(struct bundle *b, struct bundle_file *f, size_t at, struct buf *lines)
{
    struct buf text = {.arena = &b->arena};

    if (at == f->yaml.len && at > 0 && f->yaml.bytes[at - 1] != '\n') {
        buf_add(&text, f->eol, strlen(f->eol));
        drop_eol(lines); /* the file goes on ending without a newline */
    }
    buf_add(&text, lines->text, lines->len);
    insert(b, f, at, &text);
}

bool edit_refuse_alias(struct bundle *b, const struct yaml_node *n)
{
    if (n->alias)
        bundle_error(b, n, "this value is an alias, which stands for others too: write it out");
    return n->alias;
}

/* --- Pairs. --- */

/* How flow collections near to a node are written: `{ a: b }`, `{"a": "b"}`. */
static struct flow_style flow_style_of(const struct bundle_file *f, const struct yaml_node *n)
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

/* The block in flow style; with `bare`, its pairs without the braces around them. */
static const char *to_flow(struct bundle *b, const char *block, struct flow_style style, bool bare)
{
    struct buf out = {.arena = &b->arena};

    flow_print_block(&out, block, style, bare);
    return out.text;
}

void edit_add_pair(struct bundle *b, struct bundle_file *f, struct yaml_node *mapping,
                   const struct yaml_pair *after, const char *block)
{
    struct buf out = {.arena = &b->arena};
    unsigned indent;

    if (edit_refuse_alias(b, mapping))
        return;
    if (mapping->style == YAML_FLOW) {
        if (mapping->count == 0) {
            buf_print(&out, "%s", to_flow(b, block, flow_style_of(f, mapping), true));
            edit_bytes(b, f, mapping->start.offset + 1, 0, out.text, out.len);
            return;
        }
        buf_print(&out, ", %s", to_flow(b, block, flow_style_of(f, mapping), true));
        insert(b, f, after->value->end.offset, &out);
        return;
    }
    indent = mapping->pairs[0].key->start.column - 1;
    buf_spaces(&out, indent);
    add_block(f, &out, block, indent, "");
    insert_lines(b, f, behind_line(f, after->value), &out);
}

void edit_add_pair_before(struct bundle *b, struct bundle_file *f, struct yaml_node *mapping,
                          const struct yaml_pair *before, const char *block)
{
    struct buf out = {.arena = &b->arena};
    unsigned indent = before->key->start.column - 1;

    if (edit_refuse_alias(b, mapping))
        return;
    if (mapping->style == YAML_FLOW) {
        buf_print(&out, "%s, ", to_flow(b, block, flow_style_of(f, mapping), true));
    } else {
        add_block(f, &out, block, indent, "");
        buf_spaces(&out, indent);
    }
    insert(b, f, before->key->start.offset, &out);
}

/* Behind the comma that follows, or in front of the one before. */
static void remove_from_flow(struct bundle *b, struct bundle_file *f, size_t start, size_t end,
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
        edit_bytes(b, f, start, at - start, "", 0);
        return;
    }
    at = start;
    while (at > lowest && edit_is_space(bytes[at - 1]))
        at--;
    if (at > lowest && bytes[at - 1] == ',')
        start = at - 1;
    edit_bytes(b, f, start, end - start, "", 0);
}

void edit_remove_pair(struct bundle *b, struct bundle_file *f, struct yaml_node *mapping,
                      const struct yaml_pair *pair)
{
    size_t start = pair->key->start.offset, line = edit_line_start(f, start);

    if (edit_refuse_alias(b, mapping))
        return;
    if (pair->merged) {
        bundle_error(b, pair->value,
                     "this comes with a merge key (<<), which others may share: "
                     "write it out");
        return;
    }
    if (mapping->style == YAML_FLOW) {
        remove_from_flow(b, f, start, pair->value->end.offset, mapping->start.offset);
    } else if (is_blank_between(f, line, start)) {
        edit_bytes(b, f, line, behind_line(f, pair->value) - line, "", 0);
    } else if (pair < mapping->pairs + mapping->count - 1 && !pair[1].merged) {
        /* The first of an item: the next one comes up behind the dash. */
        edit_bytes(b, f, start, pair[1].key->start.offset - start, "", 0);
    } else {
        bundle_error(b, pair->key,
                     "%s is all there is here, and cannot be taken out: remove it "
                     "by hand",
                     pair->key->text);
    }
}

/* --- Items. --- */

/* Where the item's dash is; SIZE_MAX when there is something between them. */
static size_t dash_of(const struct bundle_file *f, const struct yaml_node *item)
{
    size_t at = item->start.offset;

    while (at > 0 && edit_is_space(f->yaml.bytes[at - 1]))
        at--;
    return at > 0 && f->yaml.bytes[at - 1] == '-' ? at - 1 : SIZE_MAX;
}

static bool find_dash(struct bundle *b, const struct bundle_file *f, const struct yaml_node *item,
                      size_t *dash)
{
    *dash = dash_of(f, item);
    if (*dash == SIZE_MAX)
        bundle_error(b, item,
                     "something stands between this item and its dash: write them on one "
                     "line");
    return *dash != SIZE_MAX;
}

/* The item as it is to be written beside `like`: as a block, or in flow style as that one is. */
static void add_item_lines(struct bundle *b, const struct bundle_file *f, struct buf *out,
                           const struct yaml_node *like, const char *block, size_t column)
{
    buf_spaces(out, column);
    if (like->style == YAML_FLOW && like->kind == YAML_MAPPING)
        buf_print(out, "- %s%s", to_flow(b, block, flow_style_of(f, like), false), f->eol);
    else
        add_block(f, out, block, column + 2, "- ");
}

static void add_item(struct bundle *b, struct bundle_file *f, struct yaml_node *sequence,
                     size_t index, bool before, const char *block)
{
    struct buf out = {.arena = &b->arena};
    const struct yaml_node *like;
    size_t dash;

    if (edit_refuse_alias(b, sequence))
        return;
    if (sequence->count == 0) { /* `[]` */
        buf_print(&out, "%s", to_flow(b, block, flow_style_of(f, sequence), false));
        insert(b, f, sequence->start.offset + 1, &out);
        return;
    }
    like = sequence->items[index];
    if (sequence->style == YAML_FLOW) {
        const char *text = to_flow(b, block, flow_style_of(f, sequence), false);

        buf_print(&out, before ? "%s, " : ", %s", text);
        insert(b, f, before ? like->start.offset : like->end.offset, &out);
        return;
    }
    if (!find_dash(b, f, like, &dash))
        return;
    add_item_lines(b, f, &out, like, block, dash - edit_line_start(f, dash));
    if (before && is_blank_between(f, edit_line_start(f, dash), dash)) {
        insert_lines(b, f, edit_line_start(f, dash), &out);
    } else if (before) { /* behind `- - `: not on a line of its own */
        bundle_error(b, like, "this list begins within a line: write it on lines of its own");
    } else {
        insert_lines(b, f, behind_line(f, like), &out);
    }
}

void edit_add_item(struct bundle *b, struct bundle_file *f, struct yaml_node *sequence,
                   size_t after, const char *block)
{
    add_item(b, f, sequence, after, false, block);
}

void edit_add_item_before(struct bundle *b, struct bundle_file *f, struct yaml_node *sequence,
                          size_t before, const char *block)
{
    add_item(b, f, sequence, before, true, block);
}

void edit_remove_item(struct bundle *b, struct bundle_file *f, struct yaml_node *sequence,
                      size_t index)
{
    const struct yaml_node *item = sequence->items[index];
    size_t dash, line;

    if (edit_refuse_alias(b, sequence))
        return;
    if (sequence->style == YAML_FLOW) {
        remove_from_flow(b, f, item->start.offset, item->end.offset, sequence->start.offset);
        return;
    }
    if (!find_dash(b, f, item, &dash))
        return;
    line = edit_line_start(f, dash);
    if (is_blank_between(f, line, dash))
        edit_bytes(b, f, line, behind_line(f, item) - line, "", 0);
    else
        bundle_error(b, item, "this list begins within a line: write it on lines of its own");
}

const char *edit_as_item(struct bundle *b, const char *block)
{
    struct buf out = {.arena = &b->arena};

    for (const char *line = block; *line != '\0';) {
        size_t len = strcspn(line, "\n");

        buf_print(&out, "%s%.*s\n", line == block ? "- " : "  ", (int)len, line);
        line += len + (line[len] == '\n');
    }
    return out.text;
}

/* --- Whole nodes and documents. --- */

void edit_replace(struct bundle *b, struct bundle_file *f, struct yaml_node *n, const char *block)
{
    struct buf out = {.arena = &b->arena};

    if (edit_refuse_alias(b, n))
        return;
    if (n->style == YAML_FLOW) {
        buf_print(&out, "%s", to_flow(b, block, flow_style_of(f, n), false));
    } else {
        add_block(f, &out, block, n->start.column - 1, "");
        if (f->yaml.bytes[n->end.offset - 1] != '\n')
            drop_eol(&out);
    }
    edit_bytes(b, f, n->start.offset, n->end.offset - n->start.offset, out.text, out.len);
}

/* Where the document's own `---` begins, if it has one. */
static size_t marker_of(const struct bundle_file *f, const struct yaml_doc *doc)
{
    return doc->marked ? edit_line_start(f, doc->body) : doc->body;
}

/* With its line, where there is nothing else on it. */
static void remove_marker(struct bundle *b, struct bundle_file *f, const struct yaml_doc *doc)
{
    size_t at = marker_of(f, doc), end = at + 3;

    while (end < f->yaml.len && edit_is_space(f->yaml.bytes[end]) && f->yaml.bytes[end] != '\n')
        end++;
    if (end < f->yaml.len && f->yaml.bytes[end] == '\n')
        end++;
    else
        end = at + 3;
    edit_bytes(b, f, at, end - at, "", 0);
}

void edit_remove_document(struct bundle *b, struct bundle_file *f, struct yaml_doc *doc)
{
    const struct yaml_doc *next = doc + 1;
    size_t start = edit_line_start(f, doc->root->start.offset), end = behind_line(f, doc->root);

    if (doc->marked && start < doc->body) /* it begins on the line of its `---` */
        start = marker_of(f, doc);
    else if (doc->marked)
        remove_marker(b, f, doc);
    else if (next < f->yaml.docs + f->yaml.count && next->marked)
        remove_marker(b, f, next);
    edit_bytes(b, f, start, end - start, "", 0);
}

void edit_add_documents(struct bundle *b, struct bundle_file *f, struct yaml_doc *before,
                        const char *documents)
{
    struct buf out = {.arena = &b->arena};
    size_t at = marker_of(f, before);
    bool bom = f->yaml.len >= 3 && memcmp(f->yaml.bytes, "\xef\xbb\xbf", 3) == 0;

    if (before->marked)
        add_block(f, &out, "---\n", 0, "");
    add_block(f, &out, documents, 0, "");
    if (!before->marked)
        add_block(f, &out, "---\n", 0, "");
    insert(b, f, at == 0 && bom ? 3 : at, &out);
}

/* --- Copying. --- */

static bool has_alias(const struct yaml_node *n)
{
    if (n->alias || n->anchor != NULL)
        return true;
    if (n->kind == YAML_SCALAR)
        return false;
    for (size_t i = 0; i < n->count; i++) {
        if (n->kind == YAML_SEQUENCE ? has_alias(n->items[i])
                                     : n->pairs[i].merged || has_alias(n->pairs[i].value))
            return true;
    }
    return false;
}

void edit_copy_pair(struct bundle *b, struct bundle_file *f, const struct yaml_pair *pair,
                    unsigned indent, struct buf *out)
{
    const struct yaml_node *v = pair->value;
    size_t start = pair->key->start.offset, end = v->end.offset;
    size_t old = pair->key->start.column - 1;
    const char *bytes = f->yaml.bytes;

    (void)b;
    buf_spaces(out, indent);
    if (v->style == YAML_FLOW || pair->key->style != YAML_PLAIN || pair->merged || has_alias(v)) {
        buf_print(out, "%s: ", pair->key->text);
        flow_print(out, v, (struct flow_style){0});
        buf_add(out, "\n", 1);
        return;
    }
    while (end > start && edit_is_space(bytes[end - 1]))
        end--;
    while (start < end) {
        const char *nl = memchr(bytes + start, '\n', end - start);
        size_t len = nl == NULL ? end - start : (size_t)(nl - bytes) - start;
        size_t next = start + len + (nl != NULL), drop = 0;

        buf_add(out, bytes + start, len > 0 && bytes[start + len - 1] == '\r' ? len - 1 : len);
        buf_add(out, "\n", 1);
        while (drop < old && next + drop < end && bytes[next + drop] == ' ')
            drop++;
        start = next + drop;
        if (start < end && bytes[start] != '\n' && bytes[start] != '\r')
            buf_spaces(out, indent);
    }
}
