/* Works on the bytes between the marks of nodes; what the marks do not say (dashes, commas, line
 * ends, comments behind a value) is looked for in the text around them. */
#include "deploy/rewrite_edit.h"

#include "deploy/rewrite_flow.h"
#include "deploy/scalar_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_add(struct buf *b, const char *text, size_t len)
{
    if (b->len + len + 1 > b->cap) {
        size_t cap = b->cap == 0 ? 256 : b->cap * 2;

        while (cap < b->len + len + 1)
            cap *= 2;
        b->text = arena_grow(b->arena, b->text, b->len, cap);
        b->cap = cap;
    }
    memcpy(b->text + b->len, text, len);
    b->len += len;
    b->text[b->len] = '\0';
}

void buf_print(struct buf *b, const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    text = arena_vtext(b->arena, format, args);
    va_end(args);
    buf_add(b, text, strlen(text));
}

static void add_edit(struct bundle *b, struct bundle_file *f, size_t at, size_t len,
                     const char *text, size_t text_len)
{
    text_edits_add(&f->edits, &b->arena, at, len, text, text_len);
}

static void insert(struct bundle *b, struct bundle_file *f, size_t at, const struct buf *text)
{
    add_edit(b, f, at, 0, text->text, text->len);
}

/* --- Where lines begin and end. --- */

static size_t line_start(const struct bundle_file *f, size_t at)
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

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* --- Writing blocks. --- */

static void add_spaces(struct buf *out, size_t n)
{
    while (n-- > 0)
        buf_add(out, " ", 1);
}

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
            add_spaces(out, indent);
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

static bool refuse_alias(struct bundle *b, const struct yaml_node *n)
{
    if (n->alias)
        bundle_error(b, n, "this value is an alias, which stands for others too: write it out");
    return n->alias;
}

/* --- Scalars. --- */

static bool is_plain_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr("-_./:=+$@%,", c) != NULL;
}

/* Safe as plain text in block and in flow style, for any reader. */
static bool is_plain(const char *text)
{
    size_t len = strlen(text);

    if (len == 0 || strchr("-.:=+@%,", *text) != NULL || text[len - 1] == ':')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_plain_char(text[i]) || text[i] == ',')
            return false;
    }
    return true;
}

/* What some reader of YAML takes for something else than a string: Kubernetes' own, or one to which
 * 1:30 is a number and 2024-01-01 a date. */
static bool looks_like_no_string(const char *text)
{
    struct yaml_node n = {.kind = YAML_SCALAR, .style = YAML_PLAIN, .text = text};

    n.len = strlen(text);
    return yaml_type(&n) != YAML_STRING || text[strspn(text, "0123456789:.-_+eE")] == '\0';
}

static void add_double_quoted(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            buf_print(out, "\\%c", *text);
        else if (*text == '\n')
            buf_print(out, "\\n");
        else
            buf_add(out, text, 1);
    }
}

const char *edit_scalar_text(struct arena *a, const char *text)
{
    struct buf out = {.arena = a};

    if (is_plain(text) && !looks_like_no_string(text))
        return text;
    buf_add(&out, "\"", 1);
    add_double_quoted(&out, text);
    buf_add(&out, "\"", 1);
    return out.text;
}

static bool refuse_anchor(struct bundle *b, const struct yaml_node *n)
{
    if (n->anchor != NULL)
        bundle_error(b, n, "this value has an anchor, and others may share it: write it out");
    return n->anchor != NULL;
}

/* Behind `!!tag `, which stays. */
static size_t content_start(const struct bundle_file *f, const struct yaml_node *n)
{
    size_t at = n->start.offset;

    if (n->tag == NULL || f->yaml.bytes[at] != '!')
        return at;
    while (at < n->end.offset && !is_space(f->yaml.bytes[at]))
        at++;
    while (at < n->end.offset && is_space(f->yaml.bytes[at]))
        at++;
    return at;
}

/* Another number in the place of a number, another boolean for a boolean. */
static bool is_same_type(const struct yaml_node *n, const char *text)
{
    struct yaml_node plain = {.kind = YAML_SCALAR, .style = YAML_PLAIN, .text = text};

    plain.len = strlen(text);
    return n->style == YAML_PLAIN && yaml_type(n) == yaml_type(&plain) &&
           yaml_type(n) != YAML_STRING;
}

void edit_value(struct bundle *b, struct bundle_file *f, struct yaml_node *n, const char *text)
{
    struct buf out = {.arena = &b->arena};
    size_t start = content_start(f, n);

    if (refuse_alias(b, n) || refuse_anchor(b, n))
        return;
    if (n->kind == YAML_SCALAR && n->len == 0 && n->start.offset == n->end.offset) {
        buf_print(&out, " %s", edit_scalar_text(&b->arena, text));
    } else if (n->style == YAML_SINGLE && strpbrk(text, "'\n") == NULL) {
        buf_print(&out, "'%s'", text);
    } else if (n->style == YAML_DOUBLE) {
        buf_add(&out, "\"", 1);
        add_double_quoted(&out, text);
        buf_add(&out, "\"", 1);
    } else {
        buf_print(&out, "%s", is_same_type(n, text) ? text : edit_scalar_text(&b->arena, text));
        if ((n->style == YAML_LITERAL || n->style == YAML_FOLDED) &&
            f->yaml.bytes[n->end.offset - 1] == '\n')
            buf_add(&out, f->eol, strlen(f->eol));
    }
    add_edit(b, f, start, n->end.offset - start, out.text, out.len);
}

/* The blanks in front of the line of a block scalar that holds the offset. */
static size_t indent_at(const struct bundle_file *f, size_t at)
{
    size_t start = line_start(f, at), n = 0;

    while (f->yaml.bytes[start + n] == ' ')
        n++;
    return n;
}

/* ` \`, the newline and the blanks behind it become one blank. */
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

/* The value's indentation is that of its line less what the value itself has there. */
static size_t block_indent(const struct bundle_file *f, const struct yaml_node *n, size_t at,
                           size_t offset)
{
    size_t start = at, own = 0, all;

    while (start > 0 && n->text[start - 1] != '\n')
        start--;
    while (n->text[start + own] == ' ')
        own++;
    all = indent_at(f, offset);
    return all > own ? all - own : 0;
}

/* Whether the bytes of the source are those of the value, and not lines that were folded into it.
 * Escapes are fine: there the way back is known. */
static bool is_exact(const struct bundle_file *f, const struct yaml_node *n, size_t start,
                     size_t end, size_t from, size_t to)
{
    const char *bytes = f->yaml.bytes;

    if (n->style == YAML_DOUBLE || n->style == YAML_LITERAL)
        return end >= start;
    while (start < end && from < to) {
        if (bytes[start] != n->text[from++])
            return false;
        start += n->style == YAML_SINGLE && bytes[start] == '\'' ? 2 : 1;
    }
    return start == end && from == to;
}

void edit_part(struct bundle *b, struct bundle_file *f, struct yaml_node *n, size_t from, size_t to,
               const char *text)
{
    struct buf out = {.arena = &b->arena};
    size_t start, end;

    if (refuse_alias(b, n) || refuse_anchor(b, n))
        return;
    start = scalar_place(&f->yaml, n, from).offset;
    end = to == from ? start : scalar_place(&f->yaml, n, to).offset;
    if (!is_exact(f, n, start, end, from, to)) {
        bundle_error(b, n,
                     "the words to be changed stand on folded lines: write the text as a "
                     "block with |");
        return;
    }
    if (n->style == YAML_LITERAL) {
        size_t indent = block_indent(f, n, from, start);

        for (const char *p = text; *p != '\0'; p++) {
            if (*p == '\n') {
                buf_add(&out, f->eol, strlen(f->eol));
                add_spaces(&out, p[1] == '\n' ? 0 : indent);
            } else {
                buf_add(&out, p, 1);
            }
        }
    } else if (n->style == YAML_DOUBLE) {
        add_double_quoted(&out, text);
    } else {
        add_folded(&out, text, n->style);
    }
    add_edit(b, f, start, end - start, out.text == NULL ? "" : out.text, out.len);
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

    if (refuse_alias(b, mapping))
        return;
    if (mapping->style == YAML_FLOW) {
        if (mapping->count == 0) {
            buf_print(&out, "%s", to_flow(b, block, flow_style_of(f, mapping), true));
            add_edit(b, f, mapping->start.offset + 1, 0, out.text, out.len);
            return;
        }
        buf_print(&out, ", %s", to_flow(b, block, flow_style_of(f, mapping), true));
        insert(b, f, after->value->end.offset, &out);
        return;
    }
    indent = mapping->pairs[0].key->start.column - 1;
    add_spaces(&out, indent);
    add_block(f, &out, block, indent, "");
    insert_lines(b, f, behind_line(f, after->value), &out);
}

void edit_add_pair_before(struct bundle *b, struct bundle_file *f, struct yaml_node *mapping,
                          const struct yaml_pair *before, const char *block)
{
    struct buf out = {.arena = &b->arena};
    unsigned indent = before->key->start.column - 1;

    if (refuse_alias(b, mapping))
        return;
    if (mapping->style == YAML_FLOW) {
        buf_print(&out, "%s, ", to_flow(b, block, flow_style_of(f, mapping), true));
    } else {
        add_block(f, &out, block, indent, "");
        add_spaces(&out, indent);
    }
    insert(b, f, before->key->start.offset, &out);
}

/* Behind the comma that follows, or in front of the one before. */
static void remove_from_flow(struct bundle *b, struct bundle_file *f, size_t start, size_t end,
                             size_t lowest)
{
    const char *bytes = f->yaml.bytes;
    size_t at = end;

    while (at < f->yaml.len && is_space(bytes[at]))
        at++;
    if (at < f->yaml.len && bytes[at] == ',') {
        at++;
        while (at < f->yaml.len && bytes[at] == ' ')
            at++;
        add_edit(b, f, start, at - start, "", 0);
        return;
    }
    at = start;
    while (at > lowest && is_space(bytes[at - 1]))
        at--;
    if (at > lowest && bytes[at - 1] == ',')
        start = at - 1;
    add_edit(b, f, start, end - start, "", 0);
}

void edit_remove_pair(struct bundle *b, struct bundle_file *f, struct yaml_node *mapping,
                      const struct yaml_pair *pair)
{
    size_t start = pair->key->start.offset, line = line_start(f, start);

    if (refuse_alias(b, mapping))
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
        add_edit(b, f, line, behind_line(f, pair->value) - line, "", 0);
    } else if (pair < mapping->pairs + mapping->count - 1 && !pair[1].merged) {
        /* The first of an item: the next one comes up behind the dash. */
        add_edit(b, f, start, pair[1].key->start.offset - start, "", 0);
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

    while (at > 0 && is_space(f->yaml.bytes[at - 1]))
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
    add_spaces(out, column);
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

    if (refuse_alias(b, sequence))
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
    add_item_lines(b, f, &out, like, block, dash - line_start(f, dash));
    if (before && is_blank_between(f, line_start(f, dash), dash)) {
        insert_lines(b, f, line_start(f, dash), &out);
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

    if (refuse_alias(b, sequence))
        return;
    if (sequence->style == YAML_FLOW) {
        remove_from_flow(b, f, item->start.offset, item->end.offset, sequence->start.offset);
        return;
    }
    if (!find_dash(b, f, item, &dash))
        return;
    line = line_start(f, dash);
    if (is_blank_between(f, line, dash))
        add_edit(b, f, line, behind_line(f, item) - line, "", 0);
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

    if (refuse_alias(b, n))
        return;
    if (n->style == YAML_FLOW) {
        buf_print(&out, "%s", to_flow(b, block, flow_style_of(f, n), false));
    } else {
        add_block(f, &out, block, n->start.column - 1, "");
        if (f->yaml.bytes[n->end.offset - 1] != '\n')
            drop_eol(&out);
    }
    add_edit(b, f, n->start.offset, n->end.offset - n->start.offset, out.text, out.len);
}

/* Where the document's own `---` begins, if it has one. */
static size_t marker_of(const struct bundle_file *f, const struct yaml_doc *doc)
{
    return doc->marked ? line_start(f, doc->body) : doc->body;
}

/* With its line, where there is nothing else on it. */
static void remove_marker(struct bundle *b, struct bundle_file *f, const struct yaml_doc *doc)
{
    size_t at = marker_of(f, doc), end = at + 3;

    while (end < f->yaml.len && is_space(f->yaml.bytes[end]) && f->yaml.bytes[end] != '\n')
        end++;
    if (end < f->yaml.len && f->yaml.bytes[end] == '\n')
        end++;
    else
        end = at + 3;
    add_edit(b, f, at, end - at, "", 0);
}

void edit_remove_document(struct bundle *b, struct bundle_file *f, struct yaml_doc *doc)
{
    const struct yaml_doc *next = doc + 1;
    size_t start = line_start(f, doc->root->start.offset), end = behind_line(f, doc->root);

    if (doc->marked && start < doc->body) /* it begins on the line of its `---` */
        start = marker_of(f, doc);
    else if (doc->marked)
        remove_marker(b, f, doc);
    else if (next < f->yaml.docs + f->yaml.count && next->marked)
        remove_marker(b, f, next);
    add_edit(b, f, start, end - start, "", 0);
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
    add_spaces(out, indent);
    if (v->style == YAML_FLOW || pair->key->style != YAML_PLAIN || pair->merged || has_alias(v)) {
        buf_print(out, "%s: ", pair->key->text);
        flow_print(out, v, (struct flow_style){0});
        buf_add(out, "\n", 1);
        return;
    }
    while (end > start && is_space(bytes[end - 1]))
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
            add_spaces(out, indent);
    }
}

/* --- Applying. --- */

/* An edit inside of what an anchor names would change every place that says *name; one around it
 * would leave them without it. */
static void check_shared(struct bundle *b, const struct bundle_file *f, const struct yaml_node *n)
{
    if (n->alias)
        return;
    for (size_t i = 0; n->anchor != NULL && i < f->edits.count; i++) {
        const struct text_edit *e = &f->edits.list[i];
        size_t from = n->start.offset, to = n->end.offset;

        if (e->at < to && e->at + e->len > from && !(e->at <= from && e->at + e->len >= to)) {
            bundle_error(b, n,
                         "&%s is shared by every *%s, and would have to be changed for one "
                         "of them: write it out",
                         n->anchor, n->anchor);
            return;
        }
    }
    for (size_t i = 0; n->kind != YAML_SCALAR && i < n->count; i++) {
        if (n->kind == YAML_SEQUENCE)
            check_shared(b, f, n->items[i]);
        else if (!n->pairs[i].merged)
            check_shared(b, f, n->pairs[i].value);
    }
}

static struct yaml_mark mark_at(const struct bundle_file *f, size_t offset)
{
    struct yaml_mark m = {offset, 1, 1};

    for (size_t i = 0; i < offset; i++) {
        m.column = f->yaml.bytes[i] == '\n' ? 1 : m.column + 1;
        m.line += f->yaml.bytes[i] == '\n';
    }
    return m;
}

/* A value with a template's braces in it is not known yet. Comments may say what they like. */
static void check_templates(struct bundle *b, const struct bundle_file *f,
                            const struct yaml_node *n)
{
    for (size_t i = 0; n->kind == YAML_SCALAR && i < f->edits.count; i++) {
        const struct text_edit *e = &f->edits.list[i];
        size_t from = e->at > n->start.offset ? e->at : n->start.offset;
        size_t to = e->at + e->len < n->end.offset ? e->at + e->len : n->end.offset;

        if (from < to && memmem(f->yaml.bytes + from, to - from, "{{", 2) != NULL) {
            bundle_error(b, n,
                         "this is a template: render it first (helm template), and rewrite "
                         "what comes out");
            return;
        }
    }
    for (size_t i = 0; n->kind != YAML_SCALAR && !n->alias && i < n->count; i++)
        check_templates(b, f, n->kind == YAML_SEQUENCE ? n->items[i] : n->pairs[i].value);
}

/* What was written has to be read as YAML again: if it is not, we have not understood the file. */
static bool is_still_yaml(struct bundle *b, struct bundle_file *f)
{
    struct diag d = {0};
    struct yaml_file again;
    bool ok = yaml_file_parse(&again, f->path, f->result.bytes, f->result.len, &d);

    if (ok)
        yaml_file_free(&again);
    else
        diag_error(b->diag, f->yaml.name, mark_at(f, f->result.regions[0].old_start),
                   "the edits do not fit this text (line %u would be: %s): write it in a plainer "
                   "style",
                   d.entries[0].mark.line, d.entries[0].text);
    diag_free(&d);
    return ok;
}

static bool contains(const struct bundle_file *f, const char *text)
{
    return memmem(f->yaml.bytes, f->yaml.len, text, strlen(text)) != NULL;
}

bool edit_apply(struct bundle *b, struct bundle_file *f)
{
    bool anchors = contains(f, "&"), templates = contains(f, "{{");
    size_t where;

    for (size_t i = 0; f->edits.count > 0 && i < f->yaml.count; i++) {
        if (anchors && f->yaml.docs[i].root != NULL)
            check_shared(b, f, f->yaml.docs[i].root);
        if (templates && f->yaml.docs[i].root != NULL)
            check_templates(b, f, f->yaml.docs[i].root);
    }
    if (b->diag->errors > 0)
        return false;
    if (!text_edits_apply(&f->edits, &b->arena, f->yaml.bytes, f->yaml.len, &f->result, &where)) {
        diag_error(b->diag, f->yaml.name, mark_at(f, where),
                   "two changes meet here: write what stands here on lines of its own");
        return false;
    }
    return f->result.count == 0 || is_still_yaml(b, f);
}
