/* Files of TLS that are of no use. See certificate_files.h for the contract. */
#include "rdzv/net/certificate_files.h"

#include <string.h>

#include "rdzv/engine/log.h"

/* The setting of the file that `why` begins with; "" when it is about none of them. */
static const char *find_setting(const char *const paths[FILE_WATCH_MAX],
                                const char *const settings[FILE_WATCH_MAX], const char *why)
{
    for (size_t i = 0; i < FILE_WATCH_MAX; i++) {
        size_t len = paths[i] == NULL ? 0 : strlen(paths[i]);

        if (len > 0 && strncmp(why, paths[i], len) == 0 && why[len] == ':')
            return settings[i];
    }
    return "";
}

void certificate_files_failed(const char *const paths[FILE_WATCH_MAX],
                              const char *const settings[FILE_WATCH_MAX], const char *why)
{
    log_event(LOG_ERROR, "certificate_failed",
              log_str("setting", find_setting(paths, settings, why)), log_str("reason", why),
              log_str("hint", "name a file in PEM that rdzvd can read; a key has to be that of its "
                              "certificate, and without a password"));
}
