/* Names, quantities, durations, paths: one check for each type of text. */
#include "deploy/template/value_types.h"

#include "deploy/template/quantity.h"

#include <stdlib.h>
#include <string.h>

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static bool is_of(const char *text, size_t len, const char *set)
{
    return strspn(text, set) == len;
}

static bool is_alnum(char c)
{
    return c != '\0' && strchr(LOWER UPPER DIGITS, c) != NULL;
}

static bool is_label(const char *text, size_t len)
{
    return len > 0 && len <= 63 && strspn(text, LOWER DIGITS "-") >= len && text[0] != '-' &&
           text[len - 1] != '-';
}

/* DNS-1123 label */
static bool fits_name(const char *text, size_t len)
{
    return strlen(text) == len && is_label(text, len);
}

/* Labels, joined by dots. */
static bool is_subdomain(const char *text, size_t len)
{
    if (len == 0 || len > 253)
        return false;
    for (size_t at = 0; at <= len;) {
        size_t part = 0;

        while (at + part < len && text[at + part] != '.')
            part++;
        if (!is_label(text + at, part))
            return false;
        at += part + 1;
    }
    return true;
}

static bool fits_subdomain(const char *text, size_t len)
{
    return strlen(text) == len && is_subdomain(text, len);
}

/* The part after the slash of a label key. */
static bool is_qualified(const char *text, size_t len)
{
    return len > 0 && len <= 63 && is_of(text, len, LOWER UPPER DIGITS "-_.") &&
           is_alnum(text[0]) && is_alnum(text[len - 1]);
}

/* A key of a label or of an annotation, or the name of an extended resource. */
static bool fits_label_key(const char *text, size_t len)
{
    const char *slash = strchr(text, '/');

    if (slash == NULL)
        return is_qualified(text, len);
    return is_subdomain(text, (size_t)(slash - text)) &&
           is_qualified(slash + 1, len - (size_t)(slash + 1 - text));
}

static bool fits_label_value(const char *text, size_t len)
{
    return len == 0 || is_qualified(text, len);
}

static bool fits_variable(const char *text, size_t len)
{
    return len > 0 && is_of(text, len, LOWER UPPER DIGITS "-_.") && strchr(DIGITS, text[0]) == NULL;
}

static bool fits_quantity(const char *text, size_t len)
{
    static const char *const units[] = {"",  "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "n",
                                        "u", "m",  "k",  "M",  "G",  "T",  "P",  "E"};
    const char *p = text;
    size_t whole = strspn(p, DIGITS), part = 0;

    p += whole;
    if (*p == '.') {
        part = strspn(p + 1, DIGITS);
        p += 1 + part;
    }
    if (whole + part == 0 || len > 30)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(p, units[i]) == 0)
            return true;
    }
    if (*p != 'e' && *p != 'E')
        return false;
    p++;
    p += *p == '+' || *p == '-';
    return *p != '\0' && strspn(p, DIGITS) == strlen(p);
}

/* A quantity that is more than nothing. */
static bool fits_size(const char *text, size_t len)
{
    return fits_quantity(text, len) && quantity_value(text) > 0;
}

/* 90s, 1h30m, 500ms */
static bool fits_duration(const char *text, size_t len)
{
    const char *p = text;

    if (len == 0)
        return false;
    while (*p != '\0') {
        size_t digits = strspn(p, DIGITS), unit;

        p += digits;
        unit = strncmp(p, "ms", 2) == 0 ? 2 : strspn(p, "hms") > 0 ? 1 : 0;
        if (digits == 0 || unit == 0)
            return false;
        p += unit;
    }
    return true;
}

static bool fits_path(const char *text, size_t len)
{
    return len > 0 && text[0] == '/' && strstr(text, "/../") == NULL && strchr(text, ':') == NULL;
}

static bool fits_image(const char *text, size_t len)
{
    return len > 0 && len < 500 && is_of(text, len, LOWER UPPER DIGITS "-_./:@") &&
           is_alnum(text[0]) && is_alnum(text[len - 1]);
}

/* host:port */
static bool fits_endpoint(const char *text, size_t len)
{
    const char *colon = strrchr(text, ':');
    long port;

    if (colon == NULL || colon == text || strspn(colon + 1, DIGITS) != strlen(colon + 1) ||
        strlen(colon + 1) > 5 || len > 300)
        return false;
    port = strtol(colon + 1, NULL, 10);
    if (port < 1 || port > 65535)
        return false;
    if (text[0] == '[')
        return colon[-1] == ']' &&
               strspn(text + 1, DIGITS "abcdefABCDEF:.") + 2 == (size_t)(colon - text);
    return strspn(text, LOWER UPPER DIGITS "-_.") == (size_t)(colon - text);
}

/* Characters that --rdzv-id and a key of the store may contain. */
static bool fits_run_id(const char *text, size_t len)
{
    return len > 0 && len <= 253 && is_of(text, len, LOWER UPPER DIGITS "-_.:$()");
}

static bool fits_capability(const char *text, size_t len)
{
    return len > 0 && is_of(text, len, UPPER DIGITS "_") && strncmp(text, "CAP_", 4) != 0;
}

static bool fits_word(const char *text, size_t len)
{
    return len > 0 && is_of(text, len, LOWER UPPER DIGITS "-_.:/");
}

static bool fits_filled(const char *text, size_t len)
{
    return len > 0 && strspn(text, " \t\n") < len;
}

static const struct value_type types[] = {
    {"name", fits_name, "a DNS-1123 label",
     "use lower-case letters, digits and -, begin and end with a letter or digit, at most 63",
     "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"},
    {"subdomain", fits_subdomain, "a DNS-1123 name",
     "use lower-case letters, digits, - and ., begin and end with a letter or digit",
     "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$"},
    {"labelKey", fits_label_key, "the name of a label, annotation or resource",
     "write name or example.com/name, with letters, digits, -, _ and .",
     "^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/"
     ")?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$"},
    {"labelValue", fits_label_value, "the value of a label",
     "use letters, digits, -, _ and ., at most 63",
     "^([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?$"},
    {"variable", fits_variable, "the name of a variable",
     "use letters, digits, _, - and ., not a digit first", "^[-_.A-Za-z][-_.A-Za-z0-9]*$"},
    {"quantity", fits_quantity, "a quantity",
     "write a number, or one with a unit, such as 500m or 64Gi",
     "^([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$"},
    {"size", fits_size, "a size", "write a quantity above 0, such as 10Gi",
     "^(?=[0-9.]*[1-9])([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$"},
    {"duration", fits_duration, "a duration", "write it with units, such as 90s or 1h30m",
     "^([0-9]+(ms|[hms]))+$"},
    {"path", fits_path, "an absolute path",
     "begin with /, without .. and :", "^(?!.*/[.][.]/)/[^:]*$"},
    {"image", fits_image, "the name of an image", "write it like registry.example/name:tag",
     "^[A-Za-z0-9]([-_./:@A-Za-z0-9]*[A-Za-z0-9])?$"},
    {"endpoint", fits_endpoint, "host:port", "write it like rdzvd.example:29400",
     "^(\\[[0-9a-fA-F:.]*\\]|[-_.A-Za-z0-9]+):[0-9]{1,5}$"},
    {"runId", fits_run_id, "the id of a run",
     "use letters, digits, -, _, . and :, and $(NAME) for a variable",
     "^[-_.:$()A-Za-z0-9]{1,253}$"},
    {"capability", fits_capability, "a capability",
     "write it in capitals and without CAP_, as "
     "SYS_ADMIN",
     "^(?!CAP_)[A-Z0-9_]+$"},
    {"word", fits_word, "one word", "use letters, digits and -_.:/, without blanks",
     "^[-_.:/A-Za-z0-9]+$"},
    {"filled", fits_filled, "a text of one or more characters", "write a value, or remove the key",
     "[^ \t\n]"},
};

const struct value_type *value_type_find(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    }
    return NULL;
}
