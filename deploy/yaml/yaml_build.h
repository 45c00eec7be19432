/* The trees of a file whose bytes and name are set: what yaml_doc.h promises is made here. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

/* Sets docs and count. False: an error in d, and the file is still the caller's to free. */
bool yaml_doc_build(struct yaml_file *f, struct diag *d);
