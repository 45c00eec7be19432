/* Edits in terms of nodes: a value, a part of a value, a pair or an item that comes or goes, each
 * in the style of what stands around it. What cannot be edited safely is an error in the bundle's
 * diag, with its place. */
#pragma once

#include "deploy/rewrite/rewrite_input.h"
#include "deploy/yaml/buf.h"

/* A new value, in the quotes of the old one. An empty value (`key:`) gets one. */
void edit_value(struct rewrite *w, const struct yaml_node *n, const char *text);

/* Bytes [from, to) of the value. A newline in the text asks for a line of its own, and gets it
 * where the style has lines; elsewhere ` \` and the newline are a blank. */
void edit_part(struct rewrite *w, const struct yaml_node *n, size_t from, size_t to,
               const char *text);

/* `block` is a whole node in block style, its lines ending in \n, its outermost level not indented;
 * inside of flow collections it is written as one. */
void edit_add_pair(struct rewrite *w, const struct yaml_node *mapping,
                   const struct yaml_pair *after, const char *block);
void edit_add_pair_before(struct rewrite *w, const struct yaml_node *mapping,
                          const struct yaml_pair *before, const char *block);
/* `before` or behind the item of this index; of an empty list it is the first. */
void edit_add_item(struct rewrite *w, const struct yaml_node *sequence, size_t index, bool before,
                   const char *block);
void edit_append_item(struct rewrite *w, const struct yaml_node *sequence, const char *block);
void edit_replace(struct rewrite *w, const struct yaml_node *n, const char *block);

/* What takes up whole lines goes with them, comments behind it included. */
void edit_remove_pair(struct rewrite *w, const struct yaml_node *mapping,
                      const struct yaml_pair *pair);
void edit_remove_item(struct rewrite *w, const struct yaml_node *sequence, size_t index);

/* The document alone: comments around it stay. */
void edit_remove_document(struct rewrite *w, const struct yaml_doc *doc);
/* Whole documents, joined by `---` lines, with one more `---` behind them where it is needed. */
void edit_add_documents(struct rewrite *w, const struct yaml_doc *before, const char *documents);

/* Makes the new text of the file. Errors: two edits of one place, edits of what an anchor or alias
 * shares, edits of a template's braces, a result that is no YAML any more. */
bool edit_apply(struct rewrite *w, struct rewrite_file *f);
