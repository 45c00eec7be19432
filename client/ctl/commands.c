/* What rdzvctl can do, as data; see commands.h. */
#include "client/ctl/commands.h"

#include <string.h>

#include "client/ctl/run.h"

const struct ctl_option ctl_options[OPTION_COUNT_OF_ALL] = {
    [OPTION_SERVER] =
        {"server", 's', "ADDRESS",
         "the store: HOST:PORT, http://HOST:PORT or unix:/PATH ($RDZVCTL_SERVER, else "
         "localhost:29400)",
         WORD_NONE},
    [OPTION_SPACE] = {"space", 0, "NAME",
                      "this space alone; without it, all that the store shows here", WORD_SPACE},
    [OPTION_TOKEN_FILE] = {"token-file", 0, "FILE",
                           "the operators' token is in FILE ($RDZVCTL_TOKEN_FILE)", WORD_FILE},
    [OPTION_OUTPUT] = {"output", 'o', "FORMAT",
                       "table, wide (more columns), name (names alone), json or yaml", WORD_OUTPUT},
    [OPTION_TIMEOUT] = {"timeout", 0, "DURATION", "give up after this time: 500ms, 5s, 2m",
                        WORD_NONE},
    [OPTION_HELP] = {"help", 'h', NULL, "print this, or what a command does", WORD_NONE},
    [OPTION_VERSION] = {"version", 0, NULL, "print the version", WORD_NONE},
    [OPTION_WATCH] = {"watch", 'w', NULL,
                      "show it again every --interval; status without it: when it changes",
                      WORD_NONE},
    [OPTION_INTERVAL] = {"interval", 0, "DURATION", "how often (2s; latency: 100ms)", WORD_NONE},
    [OPTION_COUNT] = {"count", 'c', "COUNT",
                      "how many times (latency: 20), or lines (monitor: no end)", WORD_NONE},
    [OPTION_WAIT] = {"wait", 0, NULL, "wait for the key if it is not there", WORD_NONE},
    [OPTION_RAW] = {"raw", 0, NULL, "the bytes of the value and nothing else, no line's end",
                    WORD_NONE},
    [OPTION_YES] = {"yes", 'y', NULL, "do not ask", WORD_NONE},
    [OPTION_READY] = {"ready", 0, NULL, "ask whether it is ready (/readyz), not only alive",
                      WORD_NONE},
    [OPTION_MAN] = {"man", 0, NULL, "print the manual page, as groff reads it", WORD_NONE},
};

#define WATCHED (1u << OPTION_WATCH | 1u << OPTION_INTERVAL)

#define OF_KEYS                                                                                   \
    "\n\nKeys go over c10d, and are those of the listener's space. A KEY is named as the store "  \
    "has it: torch's TCPStore puts a / before each. While a run is alive, rdzvd takes every "     \
    "client that "                                                                                \
    "is no agent for one of its workers: get, set, add, delete, wait and watch then work on the " \
    "keys "                                                                                       \
    "of its workers, and keys lists those of the agents."

const struct ctl_command ctl_commands[] = {
    {"status",
     "[RUN]",
     0,
     1,
     WORD_RUN,
     WATCHED,
     "which nodes are missing, and what everyone waits for",
     "Shows each run (one rendezvous of torch, named by --rdzv-id): first the nodes that are "
     "missing, then what clients wait for, then who is there, then why earlier rounds ended. Runs "
     "in which others wait for missing nodes come first, those that all nodes have left last. "
     "Nodes that are there are summed up; -o wide lists them.\n\n"
     "Exits with 1 if a node is missing from a run that is shown, or if there is no such RUN.",
     {{"status", "all runs that the store shows here"},
      {"status JOB -o wide", "one run, every node of it"},
      {"-s rdzvd:29400 status -w", "the same again whenever something changes"},
      {"status JOB -o json", "for a script; the members are those of /rdzv/v1/status"}},
     run_status},
    {"runs",
     "",
     0,
     0,
     WORD_NONE,
     WATCHED,
     "the runs, a line each",
     "A run is one rendezvous of torch, named by --rdzv-id.",
     {{"runs", "runs with their state, nodes and missing nodes"},
      {"runs -o name", "their names alone"}},
     run_runs},
    {"spaces",
     "",
     0,
     0,
     WORD_NONE,
     WATCHED,
     "the spaces, a line each",
     "A space is a complete set of keys, apart from all others. Who is no operator sees the "
     "listener's own.",
     {{"spaces", "keys, bytes, clients and runs of each"}},
     run_spaces},
    {"waiters",
     "[RUN]",
     0,
     1,
     WORD_RUN,
     WATCHED,
     "who waits for which key, and since when",
     "Clients that wait for keys that are not written yet: those of a run, or of all. The store "
     "names at most 100 per run.",
     {{"waiters", "all of them, those that wait longest first"},
      {"waiters JOB", "those of one run"}},
     run_waiters},
    {"top",
     "",
     0,
     0,
     WORD_NONE,
     WATCHED,
     "requests per second, connections, memory, spaces",
     "Two looks at /metrics, --interval apart, and what lies between them. With --watch it goes on "
     "for ever.",
     {{"top -w", "a screen that is kept up to date"}, {"top -o json", "one sample for a script"}},
     run_top},
    {"monitor",
     "",
     0,
     0,
     WORD_NONE,
     1u << OPTION_COUNT,
     "who asks the store for what, just now",
     "Prints requests as the store carries them out: time, client, space, operation, length and "
     "key; of HTTP, method and path. It never shows values. This is a sample, of at most 500 "
     "requests a second, and of each client the first few that come together; how many more there "
     "were is said. It costs the store less than a tenth of its throughput, and nothing when it "
     "has ended. -o json prints one object a line. For operators: use a Unix socket, or "
     "--token-file.",
     {{"-s unix:/run/rdzvd.sock monitor", "until you end it"},
      {"monitor --space JOB -c 100", "the next hundred of one space"}},
     run_monitor},
    {"keys",
     "[PREFIX]",
     0,
     1,
     WORD_KEY,
     0,
     "the names of the keys",
     "The keys that begin with PREFIX, or all, in order. -o wide adds their sizes and the begin of "
     "their values." OF_KEYS,
     {{"keys", "all keys"}, {"keys /torch.rendezvous. -o wide", "torch's runs, with their sizes"}},
     run_keys},
    {"get",
     "KEY",
     1,
     1,
     WORD_KEY,
     1u << OPTION_WAIT | 1u << OPTION_RAW,
     "the value of a key",
     "Prints the value. What is no text is shown with escapes; --raw prints the bytes. Exits with "
     "1 "
     "if there is no such key." OF_KEYS,
     {{"get /init", "a value"},
      {"get --wait --timeout 1m /ready", "wait for it for a minute"},
      {"get --raw /torch.rendezvous.JOB > state", "the bytes as they are"}},
     run_get},
    {"set",
     "KEY VALUE",
     2,
     2,
     WORD_KEY,
     0,
     "write a key",
     "Returns when the store has written it. A VALUE of - is read from standard input." OF_KEYS,
     {{"set /ready 1", "write it"}, {"set /config - < config.yaml", "a file"}},
     run_set},
    {"add",
     "KEY [NUMBER]",
     1,
     2,
     WORD_KEY,
     0,
     "add a number to a key, and print the sum",
     "Without a NUMBER, 1. The key's value is the text of a number; an absent key counts as "
     "0." OF_KEYS,
     {{"add /counter", "one more"}, {"add /counter -5", "five less"}},
     run_add},
    {"delete",
     "KEY...",
     1,
     CTL_ARGS_MOST,
     WORD_KEY,
     0,
     "delete keys",
     "Prints each key that was there. Exits with 1 if one was not." OF_KEYS,
     {{"delete /ready /config", "two of them"}},
     run_delete},
    {"wait",
     "KEY...",
     1,
     CTL_ARGS_MOST,
     WORD_KEY,
     0,
     "wait until all keys are there",
     "Without --timeout, for ever. Exits with 1 if time was up." OF_KEYS,
     {{"wait --timeout 5m /ready", "in a script that starts after another"}},
     run_wait},
    {"watch",
     "KEY",
     1,
     1,
     WORD_KEY,
     1u << OPTION_INTERVAL,
     "print a key each time it changes",
     "Waits for the key, prints its value, and again whenever another is there. c10d tells of no "
     "changes, so rdzvctl asks every --interval: it can miss a value that was there for "
     "less." OF_KEYS,
     {{"watch /step --interval 500ms", "look twice a second"}},
     run_watch},
    {"latency",
     "",
     0,
     0,
     WORD_NONE,
     1u << OPTION_COUNT | 1u << OPTION_INTERVAL,
     "the round trip of a c10d request",
     "Sends --count pings, --interval apart, over one connection, and prints how long they took. "
     "The "
     "first is left out of the sum: it connects.",
     {{"latency -c 100", "a hundred of them"}},
     run_latency},
    {"preflight",
     "",
     0,
     0,
     WORD_NONE,
     0,
     "can this machine use the store?",
     "Looks the name up, connects, greets over c10d, asks rdzvd whether it is ready, measures the "
     "round trip, and compares the clocks. A store that takes no changes is not ready, nor is a "
     "relay whose store is away: it says why. Tries again until --timeout (1m): it replaces `nc "
     "-z` in an init container. A clock "
     "that differs by more than 5 s is a warning: torch compares times of several nodes.\n\n"
     "Exits with 0 when the store can be used, with 3 when it cannot.",
     {{"-s rdzvd:29400 preflight --timeout 5m", "in an init container"},
      {"preflight -o json", "the steps, for a script"}},
     run_preflight},
    {"health",
     "",
     0,
     0,
     WORD_NONE,
     1u << OPTION_READY,
     "is it alive? For probes",
     "Asks /livez once, as `rdzvd --check-live` does, and exits with 0 if it lives. With --ready, "
     "/readyz: of a relay, whether it has reached its store.",
     {{"health --timeout 2s", "a liveness probe of a container"},
      {"health --ready", "a readiness probe"}},
     run_health},
    {"forget",
     "RUN",
     1,
     1,
     WORD_RUN,
     1u << OPTION_YES,
     "forget a run and its keys",
     "Closes the connections of the run's agents: they end, and whatever started torchrun has to "
     "start them again. For operators: use a Unix socket, or --token-file.",
     {{"forget JOB", "asks first"}, {"-s unix:/run/rdzvd.sock forget JOB --yes", "does not ask"}},
     run_forget},
    {"clear",
     "SPACE",
     1,
     1,
     WORD_SPACE,
     1u << OPTION_YES,
     "empty a space",
     "Removes all its keys, of c10d and of etcd, with its users and roles; connections stay. For "
     "operators: use a Unix socket, or --token-file.",
     {{"clear default", "asks first"}},
     run_clear},
    {"completion",
     "SHELL",
     1,
     1,
     WORD_SHELL,
     0,
     "completion for bash, zsh or fish",
     "Prints a script that makes the shell complete commands, options, runs, spaces and keys.",
     {{"completion bash > /etc/bash_completion.d/rdzvctl", "for everybody"},
      {"completion zsh > ~/.zfunc/_rdzvctl", "for zsh"}},
     run_completion},
    {"help",
     "[COMMAND]",
     0,
     1,
     WORD_COMMAND,
     1u << OPTION_MAN,
     "what a command does",
     "The same as --help behind it.",
     {{"help status", "about one command"}, {"help --man | man -l -", "the manual page"}},
     run_help},
};

const size_t ctl_command_count = sizeof ctl_commands / sizeof *ctl_commands;

const struct ctl_command *command_find(const char *name)
{
    for (size_t i = 0; i < ctl_command_count; i++) {
        if (strcmp(ctl_commands[i].name, name) == 0)
            return &ctl_commands[i];
    }
    return NULL;
}
