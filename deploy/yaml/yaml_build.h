/* Builds the trees of a file whose bytes and name are set, as yaml_doc.h promises. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

/* Sets docs and count. False: there is an error in d, and the caller still frees the file. */
bool yaml_doc_build(struct yaml_file *f, struct diag *d);
