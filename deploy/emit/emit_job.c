/* Makes the documents of a job from settings, input format, profiles, platform and placement, in
 * the order that deploy/data/model.yaml describes. */
#include "deploy/emit/emit_job.h"

#include "deploy/yaml/options.h"

#include <string.h>

struct job_maker {
    struct emit_job *job;
    struct arena *arena;
    struct diag *diag;
    struct template_state template;
    const struct emit_options *options;
    const struct yaml_node *found; /* the workload that the store replaces; NULL: none */
    const char *file;              /* errors about missing settings name it */
    struct yaml_node *known;       /* our settings */
    struct yaml_node *format;      /* of the user file: one of data/formats */
    struct yaml_node *settings;
    struct yaml_node *off; /* the settings that the user has set to null */
    struct yaml_node *model, *platform, *placement;
    const char *placement_name;
    struct scope absent, given, vars; /* from the outermost */
};

/* --- The format in which a user file is written: recognised by its keys, and translated. --- */

/* A mapping in which each of the keys is null: settings that are absent. */
static struct yaml_node *input_format_nulls(struct arena *a, const struct yaml_node *keys)
{
    struct yaml_node *nulls = yaml_new(a, YAML_MAPPING);

    YAML_FOREACH_PAIR(key, keys)
        yaml_put(a, nulls, key->key->text, yaml_new_plain(a, "null"));
    return nulls;
}

static bool has_all(const struct yaml_node *user, const struct yaml_node *keys)
{
    return !ANY(YAML_FOREACH(key, keys), yaml_get(user, yaml_text(key)) == NULL);
}

/* Most of the keys are no settings of ours, nor misspelt ones: an error for each of them would say
 * nothing. */
static bool is_foreign(const struct yaml_node *user, const struct yaml_node *settings)
{
    size_t ours = 0;

    YAML_FOREACH_PAIR(setting, user)
        ours += yaml_get(settings, setting->key->text) != NULL ||
                schema_nearest(settings, setting->key->text) != NULL;
    return user->count > 1 && 2 * ours < user->count;
}

/* Finds the format of the user file by its keys. A format with settings that are not ours wins,
 * because its files may contain settings of ours, too. NULL: there is an error in the diag. */
static struct yaml_node *recognise(struct job_maker *m)
{
    struct embedded *data = &m->job->data;
    struct yaml_node *format, *ours = NULL;
    char name[100];
    size_t at = 0;

    while (embedded_next("formats", &at, name, sizeof name) != NULL) {
        format = embedded_load(data, "formats", name, NULL, m->diag);
        if (format == NULL)
            return NULL;
        if (!ANY(YAML_FOREACH(list, yaml_get(format, "recognised")), has_all(m->settings, list)))
            continue;
        if (yaml_get(format, "becomes") != NULL)
            return format;
        ours = format;
    }
    if (is_foreign(m->settings, m->known))
        return yaml_error(
            m->diag, m->settings->pairs[0].key,
            "these settings are of no format that emit knows: it reads %s (see `rdzv-manifest "
            "list formats`), and --input-format NAME chooses one",
            embedded_names(&m->diag->arena, "formats"));
    return ours != NULL ? ours : embedded_load(data, "formats", "fms", NULL, m->diag);
}

/* All settings that a user file of the format may contain. If both describe a setting, the
 * description of the format replaces ours as a whole. */
static struct yaml_node *settings_of_format(struct job_maker *m)
{
    const struct yaml_node *own = yaml_get(m->format, "settings");
    struct yaml_node *known = merge_nodes(MERGE_VALUES, m->arena, m->known, own);

    YAML_FOREACH_PAIR(pair, own)
        yaml_put(m->arena, known, pair->key->text, pair->value);
    return known;
}

/* The checked settings of the format become settings of our own. False after errors. */
static bool replace_by_own(struct job_maker *m)
{
    const struct yaml_node *foreign = yaml_get(m->format, "settings");
    struct yaml_node *own = template_fill(&m->template, yaml_get(m->format, "becomes"), &m->given);
    struct yaml_node *rest = yaml_new(m->arena, YAML_MAPPING);

    if (own == NULL)
        return false;
    /* A setting of ours in the user file wins over what the format makes of the others. */
    YAML_FOREACH_PAIR(pair, m->settings) {
        if (yaml_get(foreign, pair->key->text) == NULL &&
            yaml_get(m->known, pair->key->text) != NULL)
            yaml_add(m->arena, rest, pair->key, pair->value);
    }
    m->settings = merge_nodes(MERGE_VALUES, m->arena, own, rest);
    return m->diag->errors == 0;
}

/* --- Settings. --- */

/* Puts an option of the command line over the settings: `key` is a.b or a. */
static void set_option(struct job_maker *m, const char *option, const char *key, const char *value)
{
    struct yaml_node *scalar, *over = yaml_new(m->arena, YAML_MAPPING), *inner = over;
    const char *dot = strchr(key, '.');

    if (value == NULL)
        return;
    scalar = yaml_new_string(m->arena, value);
    scalar->file = arena_text(m->arena, "%s %s", option, value);
    scalar->start = (struct yaml_mark){0, 1, 1};
    if (dot != NULL) {
        inner = yaml_new(m->arena, YAML_MAPPING);
        yaml_put(m->arena, over, arena_copy(m->arena, key, (size_t)(dot - key)), inner);
        key = dot + 1;
    }
    yaml_put(m->arena, inner, key, scalar);
    m->settings = merge_nodes(MERGE_VALUES, m->arena, m->settings, over);
}

static bool check_settings(struct job_maker *m, const struct yaml_node *known,
                           const struct yaml_node *required)
{
    struct schema s = {m->arena, m->diag};
    struct yaml_node *checked = schema_check(&s, known, required, m->settings, m->file);

    if (m->diag->errors > 0 || checked == NULL)
        return false;
    m->settings = checked;
    m->given.vars = checked;
    return true;
}

static bool run_checks(struct job_maker *m, const struct yaml_node *list, enum diag_kind kind,
                       const struct scope *s)
{
    return template_check(&m->template, list, kind, s, m->file);
}

/* The entries that are null in a mapping and in its nested mappings; NULL: none. */
static struct yaml_node *nulls_of(struct arena *a, const struct yaml_node *settings)
{
    struct yaml_node *nulls = NULL;

    YAML_FOREACH_PAIR(setting, settings) {
        struct yaml_node *value = setting->value;

        if (value->kind == YAML_MAPPING)
            value = nulls_of(a, value);
        if (value == NULL || (value->kind == YAML_SCALAR && !yaml_is_null(value)) ||
            value->kind == YAML_SEQUENCE)
            continue;
        if (nulls == NULL)
            nulls = yaml_new(a, YAML_MAPPING);
        yaml_add(a, nulls, setting->key, value);
    }
    return nulls;
}

/* Notes which settings the user has switched off: no profile and no platform sets them. Those of a
 * foreign format mean something else. */
static void note_nulls(struct job_maker *m, const struct yaml_node *foreign)
{
    struct yaml_node *nulls = nulls_of(m->arena, m->settings);

    m->off = yaml_new(m->arena, YAML_MAPPING);
    YAML_FOREACH_PAIR(pair, nulls) {
        if (yaml_get(m->known, pair->key->text) != NULL &&
            yaml_get(foreign, pair->key->text) == NULL)
            yaml_add(m->arena, m->off, pair->key, pair->value);
    }
}

/* Translates the settings from the input format to our own. */
static bool translate(struct job_maker *m)
{
    const char *name = m->options->input_format;
    const struct yaml_node *foreign;
    struct yaml_node *known;

    m->format =
        name == NULL ? recognise(m) : embedded_load(&m->job->data, "formats", name, NULL, m->diag);
    if (m->format == NULL)
        return false;
    options_note(m->diag, "read as %s", yaml_text(yaml_get(m->format, "about")));
    foreign = yaml_get(m->format, "settings");
    note_nulls(m, foreign);
    if (yaml_get(m->format, "becomes") == NULL)
        return check_settings(m, m->known, NULL);
    known = settings_of_format(m);
    if (!check_settings(m, known, foreign))
        return false;
    if (yaml_is(yaml_get(m->format, "needs"), "release") &&
        yaml_get(m->settings, "release") == NULL)
        return diag_error(
            m->diag, m->file, (struct yaml_mark){0, 1, 1},
            "release is missing: give the name that helm would get, as --release my-run");
    m->absent.vars = input_format_nulls(m->arena, known);
    return run_checks(m, yaml_get(m->format, "checks"), DIAG_ERROR, &m->given) &&
           run_checks(m, yaml_get(m->format, "notes"), DIAG_NOTE, &m->given) &&
           m->diag->errors == 0 && replace_by_own(m);
}

/* Puts the settings of a profile or platform below those that are set. */
static bool put_below(struct job_maker *m, const struct yaml_node *template)
{
    struct schema s = {m->arena, m->diag};
    struct yaml_node *below;

    if (template == NULL)
        return true;
    m->given.vars = m->settings;
    below = template_fill(&m->template, template, &m->given);
    if (below != NULL)
        below = schema_check(&s, m->known, NULL, below, template->file);
    if (m->diag->errors > 0)
        return false;
    if (below != NULL)
        below = merge_nodes(MERGE_VALUES, m->arena, below, m->off);
    m->settings = merge_nodes(MERGE_OVER_DEFAULTS, m->arena, below, m->settings);
    m->given.vars = m->settings;
    return true;
}

static bool apply_profile(struct job_maker *m, const char *name, const struct yaml_node *at)
{
    const struct yaml_node *profile = embedded_load(&m->job->data, "profiles", name, at, m->diag);

    return profile != NULL && put_below(m, yaml_get(profile, "settings"));
}

static bool apply_profiles(struct job_maker *m)
{
    const struct yaml_node *list = yaml_get(m->settings, "profile");

    /* The last profile wins over those before it, so it comes first. */
    for (size_t i = m->options->profile_count; i > 0; i--) {
        if (!apply_profile(m, m->options->profiles[i - 1], NULL))
            return false;
    }
    for (size_t i = list == NULL ? 0 : list->count; i > 0; i--) {
        if (!apply_profile(m, list->items[i - 1]->text, list->items[i - 1]))
            return false;
    }
    return true;
}

static bool choose_platform(struct job_maker *m)
{
    const struct yaml_node *wish = yaml_get(m->settings, "platform");

    m->platform = embedded_load(&m->job->data, "platforms",
                                wish == NULL ? "appwrapper-v1beta2" : wish->text, wish, m->diag);
    if (m->platform == NULL)
        return false;
    m->template.parts =
        merge_nodes(MERGE_VALUES, m->arena, m->template.parts, yaml_get(m->platform, "parts"));
    return put_below(m, yaml_get(m->platform, "defaults"));
}

/* Notes settings that this platform does not use: usually they are left over. */
static void note_unused(struct job_maker *m)
{
    const char *platform = yaml_text(yaml_get(m->platform, "platform"));

    YAML_FOREACH_PAIR(setting, m->settings) {
        const struct yaml_node *key = setting->key;
        const struct yaml_node *only = yaml_get(yaml_get(m->known, key->text), "only");

        if (only != NULL && platform != NULL && !yaml_contains(only, platform))
            yaml_note(m->diag, key, "%s: %s has no use for it: remove it", key->text, platform);
    }
}

/* --- The placement. --- */

/* Fills in what `from` has at the key. */
static struct yaml_node *fill(struct job_maker *m, const struct yaml_node *from, const char *key)
{
    return template_fill(&m->template, yaml_get(from, key), &m->vars);
}

static void *fail_placement(struct job_maker *m, const struct yaml_node *wish, const char *name)
{
    const struct yaml_node *supported = yaml_path(m->platform, "placements.supported");
    const char *list = "";

    YAML_FOREACH(placement, supported)
        list = arena_joined(m->arena, list, ", ", placement->text);
    return yaml_error(m->diag, wish, "rdzv.placement: %s cannot be on %s: choose one of %s", name,
                      yaml_text(yaml_get(m->platform, "platform")), list);
}

/* Chooses the placement: the user's or the platform's default, translated by the platform's table
 * of placements. */
static bool choose_placement(struct job_maker *m)
{
    const struct yaml_node *wish = yaml_path(m->settings, "rdzv.placement"), *name = wish;
    const struct yaml_node *placements = yaml_get(m->platform, "placements"), *meant;

    if (name == NULL)
        name = fill(m, placements, "default");
    if (m->template.failed || yaml_text(name) == NULL)
        return m->template.failed ? false : fail_placement(m, wish, "nothing");
    meant = yaml_get(placements, name->text);
    if (meant != NULL && !text_is(name->text, "supported", "default"))
        name = template_fill(&m->template, meant, &m->vars);
    if (yaml_text(name) == NULL)
        return false;
    m->placement = embedded_load(&m->job->data, "placements", name->text, wish, m->diag);
    if (m->placement == NULL)
        return false;
    m->placement_name = yaml_text(yaml_get(m->placement, "placement"));
    return (m->placement_name != NULL &&
            yaml_contains(yaml_get(placements, "supported"), m->placement_name)) ||
           fail_placement(m, wish, m->placement_name == NULL ? name->text : m->placement_name);
}

/* --- Variables and checks. --- */

static void set_variable(struct job_maker *m, const char *name, const struct yaml_node *value)
{
    yaml_put(m->arena, m->vars.vars, name,
             value == NULL ? yaml_new_plain(m->arena, "null") : value);
}

static bool set_variables(struct job_maker *m, const struct yaml_node *from, const char *key)
{
    return template_fill_variables(&m->template, yaml_get(from, key), &m->vars);
}

static bool make_variables(struct job_maker *m)
{
    m->vars = (struct scope){yaml_new(m->arena, YAML_MAPPING), &m->given};
    set_variable(m, "platform", yaml_get(m->platform, "platform"));
    set_variable(m, "found", m->found);
    if (!set_variables(m, m->model, "first") || !choose_placement(m))
        return false;
    set_variable(m, "placement", yaml_get(m->placement, "placement"));
    return set_variables(m, m->placement, "first") && set_variables(m, m->platform, "let") &&
           set_variables(m, m->model, "let") && set_variables(m, m->placement, "let");
}

static bool run_all_checks(struct job_maker *m, const char *key, enum diag_kind kind)
{
    return run_checks(m, yaml_get(m->model, key), kind, &m->vars) &&
           run_checks(m, yaml_get(m->platform, key), kind, &m->vars) &&
           run_checks(m, yaml_get(m->placement, key), kind, &m->vars) && m->diag->errors == 0;
}

static bool make_documents(struct job_maker *m)
{
    struct yaml_node *of_placement = fill(m, m->placement, "documents");

    if (of_placement == NULL)
        of_placement = yaml_new(m->arena, YAML_SEQUENCE);
    yaml_put(m->arena, m->vars.vars, "placementDocuments", of_placement);
    m->job->documents = fill(m, m->platform, "documents");
    if (m->template.failed)
        return false;
    if (m->job->documents == NULL || m->job->documents->kind != YAML_SEQUENCE)
        return diag_error(m->diag, m->platform->file, (struct yaml_mark){0, 1, 1},
                          "documents: a list is expected: see deploy/data/platforms");
    return true;
}

static bool load_data(struct job_maker *m)
{
    m->known = embedded_load(&m->job->data, "", "settings", NULL, m->diag);
    m->model = embedded_load(&m->job->data, "", "model", NULL, m->diag);
    m->template.parts = embedded_load(&m->job->data, "", "parts", NULL, m->diag);
    if (m->known == NULL || m->model == NULL || m->template.parts == NULL)
        return false;
    m->absent = (struct scope){input_format_nulls(m->arena, m->known), NULL};
    m->given = (struct scope){m->settings, &m->absent};
    return true;
}

/* A name for each run: what a GitOps controller applies under a new name is a new job. */
static void add_suffix(struct job_maker *m)
{
    const struct yaml_node *suffix = yaml_get(m->settings, "nameSuffix");
    struct yaml_node *name = yaml_get(m->settings, "jobName"), *longer;
    const char *all, *end;

    if (suffix == NULL)
        return;
    all = yaml_write(m->arena, m->settings);
    end = suffix->text;
    if (yaml_is(suffix, "hash")) /* of all settings: other settings, another name */
        end = arena_text(m->arena, "%08x", (unsigned)text_hash(all, strlen(all)));
    longer = yaml_new_string(m->arena, arena_text(m->arena, "%s-%s", name->text, end));
    longer->file = name->file;
    longer->start = name->start;
    yaml_put(m->arena, m->settings, "jobName", longer);
}

static struct job_maker *new_maker(struct emit_job *job, struct yaml_node *settings,
                                   const char *file, struct diag *d)
{
    *job = (struct emit_job){0};
    job->maker = arena_alloc(&job->arena, sizeof *job->maker);
    *job->maker = (struct job_maker){
        .job = job,
        .arena = &job->arena,
        .diag = d,
        .template = {.arena = &job->arena, .diag = d},
        .file = file,
        .settings = settings,
    };
    return job->maker;
}

bool emit_job_make(struct emit_job *job, const struct userfile *u, const struct emit_options *o,
                   struct diag *d)
{
    struct job_maker *m = new_maker(job, u->settings, u->first, d);

    m->options = o;
    if (!load_data(m))
        return false;
    set_option(m, "--platform", "platform", o->platform);
    set_option(m, "--rdzv", "rdzv.placement", o->placement);
    set_option(m, "--backend", "rdzv.protocol", o->protocol);
    set_option(m, "--release", "release", o->release);
    set_option(m, "--suffix", "nameSuffix", o->suffix);
    if (!translate(m) || !apply_profiles(m))
        return false;
    m->absent.vars = input_format_nulls(m->arena, m->known);
    if (!choose_platform(m) || !check_settings(m, m->known, m->known))
        return false;
    note_unused(m);
    add_suffix(m);
    return make_variables(m) && run_all_checks(m, "checks", DIAG_ERROR) && make_documents(m) &&
           run_all_checks(m, "notes", DIAG_NOTE);
}

bool emit_job_open(struct emit_job *job, struct yaml_node *settings, const struct yaml_node *found,
                   const char *file, struct diag *d)
{
    struct job_maker *m = new_maker(job, settings, file, d);

    m->found = found;
    return load_data(m) && choose_platform(m) && make_variables(m) &&
           run_checks(m, yaml_get(m->model, "checks"), DIAG_ERROR, &m->vars) &&
           run_checks(m, yaml_get(m->placement, "checks"), DIAG_ERROR, &m->vars) &&
           d->errors == 0 && run_checks(m, yaml_get(m->placement, "notes"), DIAG_NOTE, &m->vars);
}

void emit_job_set(struct emit_job *job, const char *name, const struct yaml_node *value)
{
    set_variable(job->maker, name, value);
}

struct yaml_node *emit_job_part(struct emit_job *job, const char *name)
{
    struct job_maker *m = job->maker;
    const struct yaml_node *part = yaml_get(m->template.parts, name);

    return template_fill(&m->template, part != NULL ? part : yaml_get(m->placement, name),
                         &m->vars);
}

void emit_job_free(struct emit_job *job)
{
    embedded_free(&job->data);
    arena_free(&job->arena);
    *job = (struct emit_job){0};
}
