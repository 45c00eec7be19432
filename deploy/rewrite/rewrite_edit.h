/* Edits in terms of nodes: a value, a part of a value, a pair or an item that comes or goes, each
 * in the style of what stands around it. What cannot be edited safely is an error in the bundle's
 * diag, with its place. */
#pragma once

#include "deploy/rewrite/rewrite_bundle.h"
#include "deploy/yaml/buf.h"

/* A new value, in the quotes of the old one. An empty value (`key:`) gets one. */
void edit_value(struct bundle *b, struct bundle_file *f, struct yaml_node *n, const char *text);

/* Bytes [from, to) of the value. A newline in the text asks for a line of its own, and gets it
 * where the style has lines; elsewhere ` \` and the newline are a blank. */
void edit_part(struct bundle *b, struct bundle_file *f, struct yaml_node *n, size_t from, size_t to,
               const char *text);

/* `block` is a whole node in block style, its lines ending in \n, its outermost level not indented;
 * inside of flow collections it is written as one. */
void edit_add_pair(struct bundle *b, struct bundle_file *f, struct yaml_node *mapping,
                   const struct yaml_pair *after, const char *block);
void edit_add_pair_before(struct bundle *b, struct bundle_file *f, struct yaml_node *mapping,
                          const struct yaml_pair *before, const char *block);
void edit_add_item(struct bundle *b, struct bundle_file *f, struct yaml_node *sequence,
                   size_t after, const char *block);
void edit_add_item_before(struct bundle *b, struct bundle_file *f, struct yaml_node *sequence,
                          size_t before, const char *block);
void edit_replace(struct bundle *b, struct bundle_file *f, struct yaml_node *n, const char *block);

/* The block as an item of a list, for blocks with lists in them. */
const char *edit_as_item(struct bundle *b, const char *block);

/* What takes up whole lines goes with them, comments behind it included. */
void edit_remove_pair(struct bundle *b, struct bundle_file *f, struct yaml_node *mapping,
                      const struct yaml_pair *pair);
void edit_remove_item(struct bundle *b, struct bundle_file *f, struct yaml_node *sequence,
                      size_t index);

/* The document alone: comments around it stay. */
void edit_remove_document(struct bundle *b, struct bundle_file *f, struct yaml_doc *doc);
/* Whole documents, joined by `---` lines, with one more `---` behind them where it is needed. */
void edit_add_documents(struct bundle *b, struct bundle_file *f, struct yaml_doc *before,
                        const char *documents);

/* A pair with all that is in it, as lines indented by `indent`: as they stand in the file, or in
 * flow style where that cannot be. */
void edit_copy_pair(struct bundle *b, struct bundle_file *f, const struct yaml_pair *pair,
                    unsigned indent, struct buf *out);

/* Makes the new text of the file. Errors: two edits of one place, edits of what an anchor or alias
 * shares, edits of a template's braces, a result that is no YAML any more. */
bool edit_apply(struct bundle *b, struct bundle_file *f);
