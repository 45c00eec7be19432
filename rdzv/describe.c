/* Prints the table of rdzvd's settings as JSON. The build runs it, to make the manual pages and the
 * completions of shells; it is not installed. */
#include <stdlib.h>

#include "rdzv/config/config.h"

int main(void)
{
    /* --help makes rdzvd skip the checks of required settings, and leaves each default as it is */
    static char name[] = "rdzvd", help[] = "--help";
    char *const argv[] = {name, help, NULL}, *const environment[] = {NULL};
    struct config config;
    struct config_error error;

    if (!config_parse(2, argv, environment, &config, &error))
        return 1;
    config_describe(stdout, &config);
    config_free(&config);
    return fflush(stdout) == 0 ? 0 : 1;
}
