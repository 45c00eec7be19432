/* The list of rdzv-manifest's verbs. */
#include "deploy/verbs.h"

const struct verb *const verbs[] = {&verb_emit,  &verb_import, &verb_rewrite,
                                    &verb_check, &verb_list,   &verb_explain};
const size_t verb_count = sizeof verbs / sizeof *verbs;
