/* The log line of files of TLS with which rdzvd cannot start. */
#pragma once

#include "rdzv/net/file_watch.h"

/* `why` is what tls_context.h says: the path of one of the files, and what is wrong with it. The
 * settings are of the same order as the paths: "--cert", "--key", "--client-ca", "--crl". */
void certificate_files_failed(const char *const paths[FILE_WATCH_MAX],
                              const char *const settings[FILE_WATCH_MAX], const char *why);
