/* Texts of configuration: labels and errors, notes, and lists of strings. */
#include "rdzv/config/config_internal.h"
#include "store/memory/xalloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct setting *config_last_setting(const struct parse *p, const char *name)
{
    for (size_t i = p->settings.count; i-- > 0;) {
        if (strcmp(p->settings.items[i].option->name, name) == 0)
            return &p->settings.items[i];
    }
    return NULL;
}

const char *config_label(const struct setting *s, char text[CONFIG_LABEL_MAX])
{
    switch (s->source) {
    case SETTING_ARGUMENT:
        snprintf(text, CONFIG_LABEL_MAX, "--%.200s", s->name);
        break;
    case SETTING_FILE:
        snprintf(text, CONFIG_LABEL_MAX, "%.250s:%u:%u: %.100s", s->file, s->at.line, s->at.column,
                 s->name);
        break;
    case SETTING_ENVIRONMENT:
    case SETTING_VARIABLE: {
        size_t len = (size_t)snprintf(text, CONFIG_LABEL_MAX, "%s_%.200s",
                                      s->source == SETTING_VARIABLE ? "RDZVD" : "ETCD", s->name);

        for (size_t i = 0; i < len; i++) {
            if (text[i] >= 'a' && text[i] <= 'z')
                text[i] = (char)(text[i] - 'a' + 'A');
            else if (text[i] == '-')
                text[i] = '_';
        }
        break;
    }
    }
    return text;
}

struct shown config_show(const char *value)
{
    struct shown out;
    size_t len = 0;

    out.text[len++] = '"';
    for (; *value != '\0' && len < sizeof out.text - 12; value++) {
        unsigned char c = (unsigned char)*value;

        if (c < 0x20 || c == 0x7f)
            len += (size_t)snprintf(out.text + len, 5, "\\x%02x", c);
        else
            out.text[len++] = (char)c;
    }
    snprintf(out.text + len, sizeof out.text - len, "%s\"", *value == '\0' ? "" : "...");
    return out;
}

bool config_refuse(struct parse *p, bool is_check, const struct setting *setting,
                   const char *format, ...)
{
    size_t len = 0;
    va_list args;

    is_check = is_check || (setting != NULL && (setting->source == SETTING_ENVIRONMENT ||
                                                setting->etcd_file)); /* as etcd does */
    p->error->exit_code = is_check ? 1 : 2;
    if (setting != NULL)
        len =
            (size_t)snprintf(p->error->text, sizeof p->error->text, "%s: ", CONFIG_LABEL(setting));
    va_start(args, format);
    vsnprintf(p->error->text + len, sizeof p->error->text - len, format, args);
    va_end(args);
    /* Names come from files, and an error is one line. */
    for (char *c = p->error->text; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    }
    return false;
}

void config_note(struct config *c, enum config_note_kind kind, const char *flag, const char *format,
                 ...)
{
    char why[400];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    c->notes = xrealloc(c->notes, (c->note_count + 1) * sizeof *c->notes);
    c->notes[c->note_count++] = (struct config_note){
        .kind = kind,
        .flag = config_copy_text(flag, strlen(flag)),
        .why = config_copy_text(why, strlen(why)),
    };
}

void string_list_add(struct string_list *list, const char *text, size_t len)
{
    list->items = xrealloc(list->items, (list->count + 1) * sizeof *list->items);
    list->items[list->count++] = config_copy_text(text, len);
}

void string_list_free(struct string_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct string_list){0};
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void string_list_sort(struct string_list *list)
{
    if (list->count > 0)
        qsort(list->items, list->count, sizeof *list->items, compare_texts);
}

void string_list_split(struct string_list *list, const char *text)
{
    for (;;) {
        size_t len = strcspn(text, ","), start = 0, end = len;

        while (start < end && strchr(" \t", text[start]) != NULL)
            start++;
        while (end > start && strchr(" \t", text[end - 1]) != NULL)
            end--;
        string_list_add(list, text + start, end - start);
        if (text[len] == '\0')
            return;
        text += len + 1;
    }
}
