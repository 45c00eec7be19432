/* Takes the options of the rendezvous out of a command: emit writes them as variables, and an
 * option would win over these. */
#include "deploy/import/import.h"

#include "deploy/yaml/text_edit.h"

#include <string.h>

/* Whether emit always writes this option: every one except those of the command and of restarts. */
bool import_is_of_rendezvous(enum torchrun_option o)
{
    return o < TORCHRUN_OPTIONS && o != TORCHRUN_NNODES && o != TORCHRUN_NPROC_PER_NODE &&
           o != TORCHRUN_MAX_RESTARTS;
}

/* The restarts that emit lets torchrun have without an option of the command; NULL: none. */
static const char *usual_restarts(const struct importer *m)
{
    const struct yaml_node *spec = m->job->spec;

    if (job_is_elastic(m->run))
        return JOB_USUAL_RESTARTS;
    if (!job_is_multi_node(m->run) || kube_restart_of(m->pods) != KUBE_RESTART_ALONE ||
        strcmp(m->platform, "jobset") == 0)
        return NULL;
    if (strcmp(m->platform, "job") == 0)
        return kube_text(spec, "backoffLimit");
    return strcmp(m->platform, "volcano") == 0 && kube_int(spec, "maxRetry", 1000) != 1000
               ? kube_text(spec, "maxRetry")
               : JOB_USUAL_RESTARTS;
}

const char *import_restarts(const struct importer *m)
{
    const struct job_setting *s = &m->run->settings[TORCHRUN_MAX_RESTARTS];
    const char *number = s->value.text, *usual = usual_restarts(m);

    /* For these platforms `restarts` is a number of their own, too. */
    if (s->from != JOB_FROM_FLAG || text_is(m->platform, "volcano", "jobset", "job") ||
        number[0] == '\0' || strlen(number) != strspn(number, "0123456789") || strlen(number) > 6)
        return NULL;
    return usual != NULL && strcmp(number, usual) == 0 ? NULL : number;
}

/* Emit writes these, if it writes the command. */
static bool is_of_command(const struct importer *m, enum torchrun_option o)
{
    const char *usual = o == TORCHRUN_MAX_RESTARTS ? usual_restarts(m) : NULL;

    /* What a shell computes stays in the command. */
    return ((o == TORCHRUN_NNODES || o == TORCHRUN_NPROC_PER_NODE) &&
            m->run->settings[o].value.known) ||
           (usual != NULL && strcmp(m->run->settings[o].value.text, usual) == 0) ||
           (o == TORCHRUN_MAX_RESTARTS && import_restarts(m) != NULL);
}

/* --- Words. --- */

/* A word is an option that goes, or the value of one. */
static bool goes(const struct importer *m, const struct yaml_node *word, bool whole)
{
    return ANY(JOB_FOREACH_FLAG(f, m->run),
               (import_is_of_rendezvous(f->option) || (whole && is_of_command(m, f->option))) &&
                   (f->flag.node == word || (f->separate && f->value.node == word)));
}

/* The words behind torchrun as mainProgram; NULL: a word is unknown here, or Kubernetes would
 * expand it. */
static const char *program_of_words(struct importer *m, const struct arg_word *words, size_t count)
{
    struct buf b = {.arena = &m->arena};
    size_t first = torchrun_find(words, count);

    /* torchrun, or python -m torch.distributed.run, and nothing before it. */
    if (!(first == 1 && strcmp(words[0].text, "torchrun") == 0) &&
        !(first == 3 && strncmp(words[0].text, "python", 6) == 0 &&
          strcmp(words[1].text, "-m") == 0))
        return NULL;
    for (size_t i = first; i < count; i++) {
        if (strpbrk(words[i].text, "\n") != NULL || strstr(words[i].text, "$(") != NULL)
            return NULL;
        if (!goes(m, words[i].node, true))
            buf_print(&b, "%s%s", b.len > 0 ? " " : "", shell_quote(&m->arena, words[i].text));
    }
    return b.text;
}

/* The list without these options; `text` becomes the text of the script in it, if there is one. */
static void put_words(struct importer *m, const char *key, const struct yaml_node *script,
                      const char *text)
{
    const struct yaml_node *old = kube_field(m->container, key);
    struct yaml_node *list = yaml_new(&m->arena, YAML_SEQUENCE);

    YAML_FOREACH(item, old) {
        if (item == script)
            yaml_append(&m->arena, list, yaml_new_string(&m->arena, text));
        else if (!goes(m, item, false))
            yaml_append(&m->arena, list, item);
    }
    if (old != NULL)
        import_put(m, m->facts, key, list);
}

/* --- Scripts. --- */

struct cut {
    size_t from, to;
};

/* The bytes of an option in the script, with the blanks and continued lines before it. A line that
 * is not continued may end in a comment. */
static struct cut cut_of(const struct yaml_node *script, const struct torchrun_flag *f)
{
    struct cut c = {f->flag.start, f->flag.end};

    if (f->separate && f->value.node == script)
        c.to = f->value.end;
    while (c.from > 0 && (strchr(" \t\\", script->text[c.from - 1]) != NULL ||
                          (c.from > 1 && strncmp(script->text + c.from - 2, "\\\n", 2) == 0)))
        c.from--;
    return c;
}

/* The script of the container without the options; errors are in diag. */
static const char *cut_script(struct importer *m, const struct yaml_node *script)
{
    struct text_edits cuts = {0};
    struct buf out;
    size_t where;

    JOB_FOREACH(r, job_runs_in(&m->jobs, m->pods)) {
        JOB_FOREACH_FLAG(f, r) {
            struct cut c;

            if (r->container != m->container || !import_is_of_rendezvous(f->option) ||
                (r->standalone && r != m->run))
                continue;
            if (f->flag.node != script || (f->separate && f->value.node != script)) {
                import_error(m, f->flag.node,
                             "import can take %s out of the torchrun command alone: write it there",
                             f->flag.text);
                continue;
            }
            c = cut_of(script, f);
            text_edits_add(&cuts, &m->arena, c.from, c.to - c.from, "");
        }
    }
    return text_edits_apply(&cuts, &m->arena, script->text, script->len, &out, &where)
               ? out.text
               : script->text;
}

/* A script that consists of one torchrun command of plain words, as mainProgram. NULL: the script
 * has more, and sh might expand it differently from the shell that the author used. */
static const char *program_of_script(struct importer *m, const struct yaml_node *script)
{
    struct buf b = {.arena = &m->arena};
    const struct torchrun_args *args = m->run->args;
    const char *text = script->text, *p = text + strspn(text, " \t\n");
    size_t at, end = script->len;

    if (strncmp(p, "exec ", 5) == 0)
        p += 5;
    if (args->command.node != script || p != text + args->command.start ||
        job_runs_in(&m->jobs, m->pods).count > 1)
        return NULL;
    while (end > 0 && strchr(" \t\n", text[end - 1]) != NULL)
        end--;
    for (at = args->command.end; at < end;) {
        struct cut cut = {at, at};

        FOREACH(const struct torchrun_flag, f, args->flags, args->count) {
            if ((import_is_of_rendezvous(f->option) || is_of_command(m, f->option)) &&
                f->flag.node == script && f->flag.start == at)
                cut = cut_of(script, f);
        }
        if (cut.to > at) {
            at = cut.to;
        } else if (text[at] == '\\' && text[at + 1] == '\n') {
            at += 2;
        } else if (strchr(" \t", text[at]) != NULL) {
            if (b.len > 0 && b.text[b.len - 1] != ' ')
                buf_add(&b, " ", 1);
            at++;
        } else if (strchr(";&|<>(){}`#\n!*?[]~", text[at]) != NULL || text[at] == '\\') {
            return NULL;
        } else {
            buf_add(&b, text + at++, 1);
        }
    }
    while (b.len > 0 && b.text[b.len - 1] == ' ')
        b.text[--b.len] = '\0';
    return b.text;
}

/* Variables that the script sets win over those of emit. */
static void refuse_assignments(struct importer *m)
{
    for (enum torchrun_option o = 0; o < TORCHRUN_OPTIONS; o++) {
        const struct job_setting *s = &m->run->settings[o];

        for (; s != NULL; s = s->weaker) {
            if (s->from == JOB_FROM_SCRIPT && import_is_of_rendezvous(o))
                import_error(m, s->written.node,
                             "the script sets %s, and would undo what emit sets: remove that from "
                             "the script first",
                             torchrun_variables[o]);
        }
    }
}

/* The variables of emit are those of every launch in the container, --standalone ones excepted. */
static void refuse_other_runs(struct importer *m)
{
    JOB_FOREACH(r, job_runs_in(&m->jobs, m->pods)) {
        if (r->container == m->container && r->args != NULL && !r->standalone &&
            job_is_multi_node(m->run) &&
            (!job_is_multi_node(r) || strcmp(job_id(r), job_id(m->run)) != 0))
            import_error(m, r->args->command.node,
                         "by the variables that emit writes, a launch with one node or another id "
                         "would join the others: give it --standalone, or use rewrite");
    }
}

bool import_command(struct importer *m)
{
    struct job_words words = job_words(&m->arena, m->container);
    const char *program = NULL, *rest;
    const struct yaml_node *text = words.script != NULL ? words.script->node : NULL;

    refuse_assignments(m);
    refuse_other_runs(m);
    if (m->run->unread != NULL && m->run->args != NULL)
        import_error(m, m->run->unread->node,
                     "`%s` may hold options of torchrun that would undo what emit sets, and these "
                     "files do not have its text: write the options into the command",
                     m->run->unread->text);
    else if (m->run->map != NULL)
        import_error(m, m->run->args->command.node,
                     "import can take options out of a command, and not out of a script of "
                     "ConfigMap %s: write the command into the job",
                     m->run->map->name);
    else if (m->run->args != NULL && m->run->args->is_accelerate)
        import_error(m, m->run->args->command.node,
                     "accelerate launch does not read the variables of torchrun that emit writes: "
                     "use rewrite, or torchrun");
    if (m->run->args == NULL || words.count == 0) {
        import_put(m, m->facts, "command", kube_field(m->container, "command"));
        import_put(m, m->facts, "args", kube_field(m->container, "args"));
        return false;
    }
    if (text == NULL)
        program = program_of_words(m, words.list, words.count);
    else if (words.script + 1 == words.list + words.count)
        program = program_of_script(m, text);
    if (program != NULL && !m->run->args->is_other) {
        import_put_text(m, m->facts, "mainProgram", program);
        return true;
    }
    rest = text == NULL ? NULL : cut_script(m, text);
    put_words(m, "command", text, rest);
    put_words(m, "args", text, rest);
    if (m->run->settings[TORCHRUN_NNODES].from == JOB_FROM_FLAG)
        import_note(
            m, m->run->settings[TORCHRUN_NNODES].written.node,
            "this command and its --nnodes stay unchanged: change it where you change numPods");
    return false;
}
