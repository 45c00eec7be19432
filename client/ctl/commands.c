/* What rdzvctl can do, as data; see commands.h. */
#include "client/ctl/commands.h"

#include <string.h>

#include "client/ctl/run.h"

const struct ctl_option ctl_options[OPTION_COUNT_OF_ALL] = {
    [OPTION_SERVER] = {"server", 's', "ADDRESS",
                       "ask the store at HOST:PORT, https://HOST:PORT (TLS) or unix:/PATH "
                       "(default: $RDZVCTL_SERVER, else localhost:29400)",
                       WORD_NONE},
    [OPTION_SPACE] = {"space", 0, "NAME",
                      "show this space alone (default: all that this client may see)", WORD_SPACE},
    [OPTION_TOKEN_FILE] = {"token-file", 0, "FILE",
                           "read the token of operators or readers from FILE (default: "
                           "$RDZVCTL_TOKEN_FILE)",
                           WORD_FILE},
    [OPTION_CACERT] = {"cacert", 0, "FILE",
                       "use TLS, and take a store whose certificate is of a CA in FILE (default: "
                       "$RDZVCTL_CACERT, else those of this machine)",
                       WORD_FILE},
    [OPTION_CERT] = {"cert", 0, "FILE",
                     "use TLS, and show the certificate in FILE (default: $RDZVCTL_CERT)",
                     WORD_FILE},
    [OPTION_KEY] = {"key", 0, "FILE", "its key (default: $RDZVCTL_KEY)", WORD_FILE},
    [OPTION_TLS_SERVER_NAME] = {"tls-server-name", 0, "NAME",
                                "expect NAME in the store's certificate, such as behind `kubectl "
                                "port-forward` (default: $RDZVCTL_TLS_SERVER_NAME, else the host)",
                                WORD_NONE},
    [OPTION_OUTPUT] = {"output", 'o', "FORMAT",
                       "print a table, wide (more columns), name (names alone), json or yaml",
                       WORD_OUTPUT},
    [OPTION_TIMEOUT] = {"timeout", 0, "DURATION",
                        "give up after this time: 500ms, 5s, 2m; monitor and status --watch: if "
                        "the store has not begun to answer by then",
                        WORD_NONE},
    [OPTION_HELP] = {"help", 'h', NULL, "print this help, or that of a command", WORD_NONE},
    [OPTION_VERSION] = {"version", 0, NULL, "print the version", WORD_NONE},
    [OPTION_WATCH] = {"watch", 'w', NULL,
                      "print it again every --interval; status without --interval: after each "
                      "change",
                      WORD_NONE},
    [OPTION_INTERVAL] = {"interval", 0, "DURATION",
                         "wait so long between two of them "
                         "(default: 2s; latency: 100ms)",
                         WORD_NONE},
    [OPTION_COUNT] = {"count", 'c', "COUNT",
                      "end after so many pings (latency; default: 20) or lines (monitor; "
                      "default: no end)",
                      WORD_NONE},
    [OPTION_WAIT] = {"wait", 0, NULL, "if the key is absent, wait for it", WORD_NONE},
    [OPTION_RAW] = {"raw", 0, NULL,
                    "print the bytes of the value alone, with no newline "
                    "behind them",
                    WORD_NONE},
    [OPTION_YES] = {"yes", 'y', NULL, "do not ask", WORD_NONE},
    [OPTION_READY] = {"ready", 0, NULL,
                      "ask /readyz, whether the store is ready, in place of "
                      "/livez",
                      WORD_NONE},
    [OPTION_MAN] = {"man", 0, NULL, "print the manual page, as groff reads it", WORD_NONE},
};

#define WATCHED (1u << OPTION_WATCH | 1u << OPTION_INTERVAL)

#define OF_KEYS                                                                                  \
    "\n\nrdzvctl asks for keys over c10d, so it reaches those of the listener's space. Write a " \
    "KEY as the store has it: torch's TCPStore puts a / before each. While a run is alive, "     \
    "rdzvd takes rdzvctl for one of the run's workers: get, set, add, delete, wait and watch "   \
    "then work on the workers' keys, and keys lists the agents' keys."

const struct ctl_command ctl_commands[] = {
    {"status",
     "[RUN]",
     0,
     1,
     WORD_RUN,
     WATCHED,
     "which nodes are missing, and what everyone waits for",
     "Shows each run (one rendezvous of torch, named by --rdzv-id): first the missing nodes "
     "and those that are gone, without which the others go on, then what clients wait for, then "
     "the nodes that are there, then why earlier rounds "
     "ended. Runs that wait for missing nodes come first; runs that all nodes have left come "
     "last. The nodes that are there are summed up; -o wide lists them.\n\nIf a node of a "
     "shown run is missing or has failed, or if there is no such RUN, rdzvctl exits with 1. As "
     "json or yaml, RUN "
     "is one object; if several spaces have a RUN, it is a list of them.",
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
     "A space is a complete set of keys, apart from all others. Operators see all spaces; "
     "other clients see the space of the listener that they ask.",
     {{"spaces", "keys, bytes, clients and runs of each"}},
     run_spaces},
    {"waiters",
     "[RUN]",
     0,
     1,
     WORD_RUN,
     WATCHED,
     "who waits for which key, and since when",
     "Lists the clients that wait for keys that are not written yet: those of RUN, or all. The "
     "store names at most 100 of a run.",
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
     "Reads /metrics twice, --interval apart, and prints what happened in between. With "
     "--watch, it goes on until you end it.",
     {{"top -w", "a screen that is kept up to date"}, {"top -o json", "one sample for a script"}},
     run_top},
    {"monitor",
     "",
     0,
     0,
     WORD_NONE,
     1u << OPTION_COUNT,
     "who asks the store for what, just now",
     "Prints requests as the store carries them out: time, client, space, operation, length "
     "and key; of HTTP, method and path. It never prints values. The store sends a sample: at "
     "most 500 requests a second, and of each client the first few that come together. rdzvctl "
     "prints how many more there were. While monitor runs, it costs the store less than a "
     "tenth of its throughput; later, nothing. -o json prints one object a line. Only "
     "operators may do this: use a Unix socket, or --token-file.",
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
     "Lists the keys that begin with PREFIX, or all keys, in order. -o wide adds their sizes "
     "and the first bytes of their values." OF_KEYS,
     {{"keys", "all keys"}, {"keys /torch.rendezvous. -o wide", "torch's runs, with their sizes"}},
     run_keys},
    {"get",
     "KEY",
     1,
     1,
     WORD_KEY,
     1u << OPTION_WAIT | 1u << OPTION_RAW,
     "the value of a key",
     "Prints the value, with escapes where it is no text; --raw prints the bytes. If the key "
     "is absent, rdzvctl exits with 1." OF_KEYS,
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
     "Returns when the store has written the key. If VALUE is -, rdzvctl reads it from "
     "standard input." OF_KEYS,
     {{"set /ready 1", "write it"}, {"set /config - < config.yaml", "a file"}},
     run_set},
    {"add",
     "KEY [NUMBER]",
     1,
     2,
     WORD_KEY,
     0,
     "add a number to a key, and print the sum",
     "Adds NUMBER (default: 1) to the value of the key, which is a number as text, and prints "
     "the sum. An absent key counts as 0." OF_KEYS,
     {{"add /counter", "one more"}, {"add /counter -5", "five less"}},
     run_add},
    {"delete",
     "KEY...",
     1,
     CTL_ARGS_MOST,
     WORD_KEY,
     0,
     "delete keys",
     "Deletes the keys, and prints those that were there. If one was absent, rdzvctl exits "
     "with 1." OF_KEYS,
     {{"delete /ready /config", "two of them"}},
     run_delete},
    {"wait",
     "KEY...",
     1,
     CTL_ARGS_MOST,
     WORD_KEY,
     0,
     "wait until all keys are there",
     "Returns when all these keys are written. If that takes longer than --timeout (default: "
     "no end), rdzvctl exits with 1." OF_KEYS,
     {{"wait --timeout 5m /ready", "in a script that starts after another"}},
     run_wait},
    {"watch",
     "KEY",
     1,
     1,
     WORD_KEY,
     1u << OPTION_INTERVAL,
     "print a key each time it changes",
     "Waits for the key, prints its value, and then prints each new value. c10d does not "
     "report changes, so rdzvctl asks every --interval: if a value is replaced sooner, rdzvctl "
     "misses it." OF_KEYS,
     {{"watch /step --interval 500ms", "look twice a second"}},
     run_watch},
    {"latency",
     "",
     0,
     0,
     WORD_NONE,
     1u << OPTION_COUNT | 1u << OPTION_INTERVAL,
     "the round trip of a c10d request",
     "Sends --count pings over one connection, --interval apart, and prints how long they "
     "took. The first one also connects: the summary leaves it out.",
     {{"latency -c 100", "a hundred of them"}},
     run_latency},
    {"preflight",
     "",
     0,
     0,
     WORD_NONE,
     0,
     "can this machine use the store?",
     "Looks the name up, connects, with TLS checks the certificates, greets over c10d, asks rdzvd "
     "whether it is ready, measures the "
     "round trip, and compares the clocks. A store that takes no changes is not ready, nor is a "
     "relay whose store is away, nor a replica that does not lead. If the store cannot be used, it "
     "says why and tries again until "
     "--timeout (default: 1m), so it replaces `nc -z` in an init container. If the clocks differ "
     "by "
     "more than 5 s, it warns: torch compares times of several nodes.\n\nIf the store can be used, "
     "rdzvctl exits with 0; if not, with 3.",
     {{"-s rdzvd:29400 preflight --timeout 5m", "in an init container"},
      {"preflight -o json", "the steps, for a script"}},
     run_preflight},
    {"health",
     "",
     0,
     0,
     WORD_NONE,
     1u << OPTION_READY,
     "is the store alive? (for probes)",
     "Asks /livez once, as `rdzvd --check-health` does. If the store lives, rdzvctl exits with "
     "0. With --ready, it asks /readyz: a relay is ready when it has reached its store, and a "
     "replica when it leads, or passes clients on to the one that leads. If it is not ready, "
     "rdzvctl prints what it checks; -o wide and -o json always do.",
     {{"health --timeout 2s", "a liveness probe of a container"},
      {"health --ready", "a readiness probe"},
      {"health --ready -o json", "each check, for a script"}},
     run_health},
    {"forget",
     "RUN",
     1,
     1,
     WORD_RUN,
     1u << OPTION_YES,
     "forget a run and its keys",
     "Removes the run's keys and closes the connections of its agents. The agents end, and "
     "whatever started torchrun has to start them again. Only operators may do this: use a "
     "Unix socket, or --token-file.",
     {{"forget JOB", "asks first"}, {"-s unix:/run/rdzvd.sock forget JOB --yes", "does not ask"}},
     run_forget},
    {"clear",
     "SPACE",
     1,
     1,
     WORD_SPACE,
     1u << OPTION_YES,
     "empty a space",
     "Removes all keys of the space, of c10d and of etcd. "
     "Connections stay open. Only operators may do this: use a Unix socket, or --token-file.",
     {{"clear default", "asks first"}},
     run_clear},
    {"completion",
     "SHELL",
     1,
     1,
     WORD_SHELL,
     0,
     "completion for bash, zsh or fish",
     "Prints a script. With it, the shell completes commands, options, runs, spaces and keys.",
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
     "Prints what --help prints behind the command.",
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
