/* Names, quantities, durations, paths: the form of each type of text, and checks beyond the
 * form. */
#include "deploy/template/schema.h"

#include "deploy/template/values.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

/* The part in front of the slash is a DNS-1123 name. */
static bool fits_label_key(const char *text)
{
    return strcspn(text, "/") <= 253;
}

static bool fits_size(const char *text)
{
    return quantity_value(text) > 0;
}

static bool fits_path(const char *text)
{
    return text[0] == '/' && strstr(text, "/../") == NULL && strchr(text, ':') == NULL;
}

static bool fits_endpoint(const char *text)
{
    long port = strtol(strrchr(text, ':') + 1, NULL, 10);

    return port >= 1 && port <= 65535;
}

static bool fits_capability(const char *text)
{
    return text[0] != '\0' && strncmp(text, "CAP_", 4) != 0 &&
           text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] == '\0';
}

static const struct value_type types[] = {
    {"name", "a DNS-1123 label",
     "use lower-case letters, digits and -, begin and end with a letter or digit, at most 63",
     "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", 0, NULL},
    {"subdomain", "a DNS-1123 name",
     "use lower-case letters, digits, - and ., begin and end with a letter or digit",
     "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$", 253, NULL},
    {"labelKey", "the name of a label, annotation or resource",
     "write name or example.com/name, with letters, digits, -, _ and .",
     "^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/"
     ")?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$",
     0, fits_label_key},
    {"labelValue", "the value of a label", "use letters, digits, -, _ and ., at most 63",
     "^([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?$", 0, NULL},
    {"variable", "the name of a variable", "use letters, digits, _, - and ., not a digit first",
     "^[-_.A-Za-z][-_.A-Za-z0-9]*$", 0, NULL},
    {"quantity", "a quantity", "write a number, or one with a unit, such as 500m or 64Gi",
     "^([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$", 30, NULL},
    {"size", "a size", "write a quantity above 0, such as 10Gi",
     "^(?=[0-9.]*[1-9])([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$", 30,
     fits_size},
    {"duration", "a duration", "write it with units, such as 90s or 1h30m",
     "^(([0-9]+([.][0-9]{1,3})?[dhms]|[0-9]+ms)+|[0-9]+([.][0-9]{1,3})?)$", 15, NULL},
    {"path", "an absolute path", "begin with /, without .. and :", "^(?!.*/[.][.]/)/[^:]*$", 0,
     fits_path},
    {"image", "the name of an image", "write it like registry.example/name:tag",
     "^[A-Za-z0-9]([-_./:@A-Za-z0-9]*[A-Za-z0-9])?$", 499, NULL},
    {"endpoint", "host:port", "write it like rdzvd.example:29400",
     "^(\\[[0-9a-fA-F:.]*\\]|[-_.A-Za-z0-9]+):[0-9]{1,5}$", 300, fits_endpoint},
    {"runId", "the id of a run", "use letters, digits, -, _, . and :, and $(NAME) for a variable",
     "^[-_.:$()A-Za-z0-9]{1,253}$", 0, NULL},
    {"capability", "a capability", "write it in capitals and without CAP_, as SYS_ADMIN",
     "^(?!CAP_)[A-Z0-9_]+$", 0, fits_capability},
    {"word", "one word", "use letters, digits and -_.:/, without blanks", "^[-_.:/A-Za-z0-9]+$", 0,
     NULL},
    {"filled", "a text of one or more characters", "write a value, or remove the key", "[^ \t\n]",
     0, NULL},
};

#define TYPE_COUNT (sizeof types / sizeof *types)

const struct value_type *value_type_find(const char *name)
{
    return FIND(type, FOREACH(const struct value_type, type, types, TYPE_COUNT),
                strcmp(type->name, name) == 0);
}

/* If the pattern needs more than POSIX has, `fits` checks the whole text. */
static bool has_form(const struct value_type *type, const char *text)
{
    static regex_t forms[TYPE_COUNT]; /* compiled when they are needed first */
    static bool compiled[TYPE_COUNT];
    size_t i = (size_t)(type - types);

    if (strstr(type->pattern, "(?") != NULL)
        return true;
    if (!compiled[i] && regcomp(&forms[i], type->pattern, REG_EXTENDED | REG_NOSUB) != 0)
        abort();
    compiled[i] = true;
    return regexec(&forms[i], text, 0, NULL, 0) == 0;
}

bool value_type_fits(const struct value_type *type, const char *text)
{
    return (type->max == 0 || strlen(text) <= type->max) && has_form(type, text) &&
           (type->fits == NULL || type->fits(text));
}

struct yaml_node *value_type_patterns(struct arena *a)
{
    struct yaml_node *out = yaml_new(a, YAML_MAPPING);

    FOREACH(const struct value_type, type, types, TYPE_COUNT)
        yaml_put_text(a, out, type->name, type->pattern);
    return out;
}
