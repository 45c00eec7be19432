/* Faults of the files for TLS, in words; see tls_files.h. */
#include "client/ctl/tls_files.h"

#include <stdio.h>
#include <string.h>

#include "proto/tls/tls_context.h"

/* `text` is "FILE: what is wrong with it", or of no file that was given. */
static void describe(const struct ctl *ctl, const char *text, char why[TLS_FILES_WHY_MAX])
{
    const struct {
        const char *option, *file, *wanted;
    } given[] = {
        {"--cacert", ctl->tls_with.ca, "the certificates of CAs, in PEM"},
        {"--cert", ctl->tls_with.cert, "a certificate in PEM"},
        {"--key", ctl->tls_with.key,
         "the key of the certificate in --cert, in PEM and without a password"},
    };

    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        size_t len = given[i].file == NULL ? 0 : strlen(given[i].file);

        if (len > 0 && strncmp(text, given[i].file, len) == 0 && text[len] == ':') {
            snprintf(why, TLS_FILES_WHY_MAX, "%s: %s; give a file that has %s", given[i].option,
                     text, given[i].wanted);
            return;
        }
    }
    snprintf(why, TLS_FILES_WHY_MAX, "%s", text);
}

bool tls_files_check(const struct ctl *ctl, char why[TLS_FILES_WHY_MAX])
{
    const struct tls_files files = {
        .cert = ctl->tls_with.cert, .key = ctl->tls_with.key, .ca = ctl->tls_with.ca};
    char text[TLS_WHY_MAX];
    SSL_CTX *context;

    if (!ctl->tls)
        return true;
    context = tls_client_context(&files, NULL, text);
    if (context == NULL)
        describe(ctl, text, why);
    SSL_CTX_free(context);
    return context != NULL;
}
