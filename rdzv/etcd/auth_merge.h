/* Grants and revocations applied to a list of roles or patterns, as sets. Pure but for memory. */
#pragma once

#include "store/command.h"

enum auth_merge_result {
    AUTH_MERGE_DONE,      /* *out is a copy, which auth_merge_free() ends */
    AUTH_MERGE_DUPLICATE, /* *culprit was granted and is there already */
    AUTH_MERGE_UNGRANTED, /* *culprit was revoked and is not there; with `strict` only */
    AUTH_MERGE_NO_MEMORY,
};

/* The list that is left is sorted, without duplicates, and never absent. Grants come before
 * revocations, and each set in the order in which it was given when it comes to the culprit. */
enum auth_merge_result auth_merge(const struct command_list *old, const struct command_list *grant,
                                  const struct command_list *revoke, bool strict,
                                  struct command_list *out, struct slice *culprit);

/* Of an empty list, too. */
void auth_merge_free(struct command_list *merged);
