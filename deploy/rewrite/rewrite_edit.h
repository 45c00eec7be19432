/* Edits of nodes: a new value, a new part of a value, a pair or an item that is added or removed,
 * each in the style of the text around it. What cannot be edited safely becomes an error in the
 * diag, with its place. */
#pragma once

#include "deploy/rewrite/rewrite.h"
#include "deploy/yaml/arena.h"

/* Sets a new value, in the quotes of the old one. An empty value (`key:`) gets one. */
void edit_value(struct rewrite *w, const struct yaml_node *n, const char *text);

/* Replaces bytes [from, to) of the value. A newline in the text asks for a line of its own, and
 * gets one if the style has lines; elsewhere ` \` and the newline become a blank. */
void edit_part(struct rewrite *w, const struct yaml_node *n, size_t from, size_t to,
               const char *text);

/* Adds a pair before or after another one; in an empty mapping it becomes the first. `block` is a
 * whole node in block style: its lines end with \n, and its outermost level has no indentation.
 * Within flow collections it is written in flow style. */
void edit_add_pair(struct rewrite *w, const struct yaml_node *mapping,
                   const struct yaml_pair *beside, bool before, const char *block);
/* Adds an item before or after the item of this index; in an empty list it becomes the first. */
void edit_add_item(struct rewrite *w, const struct yaml_node *sequence, size_t index, bool before,
                   const char *block);
void edit_append_item(struct rewrite *w, const struct yaml_node *sequence, const char *block);
void edit_replace(struct rewrite *w, const struct yaml_node *n, const char *block);

/* A node that fills whole lines is removed with them, including comments after it. */
void edit_remove_pair(struct rewrite *w, const struct yaml_node *mapping,
                      const struct yaml_pair *pair);
void edit_remove_item(struct rewrite *w, const struct yaml_node *sequence, size_t index);

/* Puts text before and behind the whole node. */
void edit_wrap(struct rewrite *w, const struct yaml_node *n, const char *before,
               const char *behind);

/* Removes the document; comments around it stay. */
void edit_remove_document(struct rewrite *w, const struct yaml_doc *doc);
/* Whole documents with `---` lines between them, and one more `---` at the end if necessary. */
void edit_add_documents(struct rewrite *w, const struct yaml_doc *before, const char *documents);

/* Makes the new text of the file. Errors: two edits at one place, edits of what an anchor or alias
 * shares, edits of a template's braces, a result that is not YAML. */
bool edit_apply(struct rewrite *w, struct rewrite_file *f);
