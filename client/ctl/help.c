/* rdzvctl's help and its manual page, from the table of commands. */
#include <stdio.h>
#include <string.h>

#include "client/ctl/commands.h"
#include "client/ctl/run.h"

#define LINE 80 /* columns of a terminal */

static const char about[] = "rdzvctl shows what a rendezvous store of PyTorch knows: which "
                            "nodes of a job are there, which are missing, and what everyone "
                            "waits for. It also reads and writes keys, and checks whether this "
                            "machine can use the store. Commands about runs, spaces and "
                            "operators need rdzvd. Commands about keys, latency and preflight "
                            "also work with torch's own store.";

static const struct {
    enum ctl_exit code;
    const char *text;
} exits[] = {
    {CTL_FINE, "fine"},
    {CTL_MISSING,
     "something is missing: a node, a run, a key; the store is not ready; time was up"},
    {CTL_USAGE, "the command line is wrong, or a file that an option names is of no use"},
    {CTL_UNREACHABLE, "the store cannot be reached, or does not answer"},
    {CTL_REFUSED, "the store refuses this client"},
    {CTL_FAILED, "anything else"},
};

static const struct {
    const char *name, *text;
} environment[] = {
    {"RDZVCTL_SERVER", "the store, if there is no --server"},
    {"RDZVCTL_TOKEN_FILE", "the file of the token, if there is no --token-file"},
    {"RDZVCTL_CACERT", "the file of the store's CA, if there is no --cacert"},
    {"RDZVCTL_CERT", "the file of the client's certificate, if there is no --cert"},
    {"RDZVCTL_KEY", "the file of its key, if there is no --key"},
    {"RDZVCTL_TLS_SERVER_NAME", "the name in the store's certificate, if there is no "
                                "--tls-server-name"},
    {"NO_COLOR", "if it is set and not empty, rdzvctl prints no colours (else on terminals)"},
};

/* --- For a terminal. --- */

/* A paragraph, wrapped, every line but the first behind `indent` blanks; `at` is where the first
 * begins. */
static void wrap(FILE *out, const char *text, size_t at, int indent)
{
    while (*text != '\0') {
        size_t len = strcspn(text, " \n");

        if (*text == '\n') {
            fprintf(out, "\n%*s", indent, "");
            at = (size_t)indent;
            text++;
            continue;
        }
        if (at > (size_t)indent && at + 1 + len > LINE) {
            fprintf(out, "\n%*s", indent, "");
            at = (size_t)indent;
        } else if (at > (size_t)indent) {
            fputc(' ', out);
            at++;
        }
        fwrite(text, 1, len, out);
        at += len;
        text += len;
        text += *text == ' ';
    }
    fputc('\n', out);
}

/* "  -s, --server ADDRESS", and what it is from the 29th column on. */
static void print_option(FILE *out, const struct ctl_option *o)
{
    char head[64];
    int n = snprintf(head, sizeof head, "  %c%c%s --%s%s%s", o->letter != 0 ? '-' : ' ',
                     o->letter != 0 ? o->letter : ' ', o->letter != 0 ? "," : " ", o->name,
                     o->value != NULL ? " " : "", o->value != NULL ? o->value : "");

    fprintf(out, "%-27s", head);
    fputs(n < 28 ? " " : "\n                            ", out);
    wrap(out, o->help, 28, 28);
}

static void print_options(FILE *out, unsigned which)
{
    for (int id = 0; id < OPTION_COUNT_OF_ALL; id++) {
        if ((which & 1u << id) != 0)
            print_option(out, &ctl_options[id]);
    }
}

static void print_all(FILE *out)
{
    fputs("usage: rdzvctl [OPTION...] COMMAND [WORD...]\n\n", out);
    wrap(out, about, 0, 0);
    fputs("\nCommands (`rdzvctl help COMMAND` says more):\n", out);
    for (size_t i = 0; i < ctl_command_count; i++)
        fprintf(out, "  %-12s %s\n", ctl_commands[i].name, ctl_commands[i].summary);
    fputs("\nOptions of all commands, before or behind them:\n", out);
    print_options(out, OPTIONS_OF_ALL);
    fputs("\nExit codes:\n", out);
    for (size_t i = 0; i < sizeof exits / sizeof *exits; i++)
        fprintf(out, "  %d  %s\n", exits[i].code, exits[i].text);
    fputs("\nEnvironment:\n", out);
    for (size_t i = 0; i < sizeof environment / sizeof *environment; i++)
        fprintf(out, "  %-24s %s\n", environment[i].name, environment[i].text);
}

static void print_command(FILE *out, const struct ctl_command *c)
{
    fprintf(out, "usage: rdzvctl %s%s%s [OPTION...]\n\n", c->name, c->words[0] != '\0' ? " " : "",
            c->words);
    wrap(out, c->about, 0, 0);
    fputs("\nExamples:\n", out);
    for (size_t i = 0; i < 4 && c->examples[i].command != NULL; i++)
        fprintf(out, "  rdzvctl %-44s  # %s\n", c->examples[i].command, c->examples[i].about);
    if (c->options != 0) {
        fputs("\nOptions:\n", out);
        print_options(out, c->options);
    }
    fputs("\nOptions of all commands:\n", out);
    print_options(out, OPTIONS_OF_ALL);
}

/* --- For groff. --- */

/* Text whose marks mean nothing to groff. */
static void roff(FILE *out, const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (p == text || p[-1] == '\n') {
            if (*p == '.' || *p == '\'')
                fputs("\\&", out);
        }
        if (p[0] == '\n' && p[1] == '\n') {
            fputs("\n.PP\n", out);
            p++;
        } else if (*p == '\\') {
            fputs("\\e", out);
        } else if (*p == '-') {
            fputs("\\-", out);
        } else {
            fputc(*p, out);
        }
    }
    fputc('\n', out);
}

static void roff_options(FILE *out, unsigned which)
{
    for (int id = 0; id < OPTION_COUNT_OF_ALL; id++) {
        const struct ctl_option *o = &ctl_options[id];

        if ((which & 1u << id) == 0)
            continue;
        fputs(".TP\n\\fB", out);
        if (o->letter != 0)
            fprintf(out, "\\-%c\\fR, \\fB", o->letter);
        fputs("\\-\\-", out);
        for (const char *p = o->name; *p != '\0'; p++)
            fprintf(out, *p == '-' ? "\\-" : "%c", *p);
        fprintf(out, "\\fR%s%s%s\n", o->value != NULL ? " \\fI" : "",
                o->value != NULL ? o->value : "", o->value != NULL ? "\\fR" : "");
        roff(out, o->help);
    }
}

static void roff_command(FILE *out, const struct ctl_command *c)
{
    fprintf(out, ".SS %s %s\n", c->name, c->words);
    roff(out, c->about);
    roff_options(out, c->options);
    for (size_t i = 0; i < 4 && c->examples[i].command != NULL; i++) {
        fputs(".TP\n.EX\n", out);
        fputs("rdzvctl ", out);
        roff(out, c->examples[i].command);
        fputs(".EE\n", out);
        roff(out, c->examples[i].about);
    }
}

static void print_man(FILE *out)
{
    fputs(".\\\" Made by `rdzvctl help --man`.\n.TH RDZVCTL 1 \"\" \"rdzv " RDZV_VERSION "\" "
          "\"rdzv\"\n.SH NAME\nrdzvctl \\- look into a rendezvous store of PyTorch\n"
          ".SH SYNOPSIS\n\\fBrdzvctl\\fR [\\fIOPTION\\fR...] \\fICOMMAND\\fR [\\fIWORD\\fR...]\n"
          ".SH DESCRIPTION\n",
          out);
    roff(out, about);
    fputs(".SH COMMANDS\n", out);
    for (size_t i = 0; i < ctl_command_count; i++)
        roff_command(out, &ctl_commands[i]);
    fputs(".SH OPTIONS OF ALL COMMANDS\n", out);
    roff_options(out, OPTIONS_OF_ALL);
    fputs(".SH EXIT STATUS\n", out);
    for (size_t i = 0; i < sizeof exits / sizeof *exits; i++) {
        fprintf(out, ".TP\n%d\n", exits[i].code);
        roff(out, exits[i].text);
    }
    fputs(".SH ENVIRONMENT\n", out);
    for (size_t i = 0; i < sizeof environment / sizeof *environment; i++) {
        fprintf(out, ".TP\n\\fB%s\\fR\n", environment[i].name);
        roff(out, environment[i].text);
    }
    fputs(".SH SEE ALSO\n\\fBrdzvd\\fR(8), \\fBrdzv\\-manifest\\fR(1), \\fBtorchrun\\fR(1)\n", out);
}

enum ctl_exit run_help(const struct ctl *ctl)
{
    const struct ctl_command *c = ctl->arg_count > 0 ? command_find(ctl->args[0]) : NULL;

    if (ctl->arg_count > 0 && c == NULL)
        return ctl_say(CTL_USAGE, "there is no command %s: `rdzvctl help` lists them",
                       ctl->args[0]);
    if (ctl->man)
        print_man(stdout);
    else if (c != NULL)
        print_command(stdout, c);
    else
        print_all(stdout);
    return CTL_FINE;
}
