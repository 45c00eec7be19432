/* The files of --cacert, --cert and --key, before anybody is asked: a fault of theirs is none of
 * the store's. */
#pragma once

#include "client/ctl/ctl.h"

#define TLS_FILES_WHY_MAX 600

/* True: they are of use, or TLS is not spoken. False: `why` names the option, its file, what is
 * wrong with it, and what to give. */
bool tls_files_check(const struct ctl *ctl, char why[TLS_FILES_WHY_MAX]);
