"""The one table of rdzvctl's commands and options. texts.py makes of it, in C, what the parser of the command line
knows, and all texts: help, the manual page and the completions of shells.

An option's `words`, and a command's, say what a shell completes: the names that "runs", "spaces" or "keys" list,
"files", "commands", or the words themselves.
"""


class Option:
    def __init__(self, name, letter, value, words, help, member=None):
        self.name, self.letter, self.value, self.words, self.help = name, letter, value, words, help
        self.member = member  # of struct ctl, which takes the text, or true; None: options.c reads it


class Command:
    def __init__(self, name, syntax, least, most, words, options, summary, about, *examples):
        self.name, self.syntax, self.words, self.summary, self.examples = name, syntax, words, summary, examples
        self.least, self.most = least, most  # how many words
        self.options = options.split()       # without those of all commands
        self.about = paragraphs(about)


def paragraphs(text):
    """Without the line ends and blanks that this file adds."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


FORMATS = "table wide name json yaml"
SHELLS = "bash zsh fish"
MANY = 64  # CTL_ARGS_MOST

OPTIONS = [
    Option("server", "s", "ADDRESS", "",
           "ask the store at HOST:PORT, https://HOST:PORT (TLS) or unix:/PATH (default: $RDZVCTL_SERVER, else "
           "localhost:29400)"),
    Option("space", "", "NAME", "spaces",
           "show this space alone (default: all that this client may see); orders and forget: the space of the run or "
           "node (default: the one that has it)", "space"),
    Option("token-file", "", "FILE", "files",
           "read the token of operators or readers from FILE (default: $RDZVCTL_TOKEN_FILE)", "token_file"),
    Option("cacert", "", "FILE", "files",
           "use TLS, and take a store whose certificate is of a CA in FILE (default: $RDZVCTL_CACERT, else those "
           "of this machine)", "tls_with.ca"),
    Option("cert", "", "FILE", "files",
           "use TLS, and show the certificate in FILE (default: $RDZVCTL_CERT)", "tls_with.cert"),
    Option("key", "", "FILE", "files",
           "its key (default: $RDZVCTL_KEY)", "tls_with.key"),
    Option("tls-server-name", "", "NAME", "",
           "expect NAME in the store's certificate, such as behind `kubectl port-forward` (default: "
           "$RDZVCTL_TLS_SERVER_NAME, else the host)", "tls_with.name"),
    Option("output", "o", "FORMAT", FORMATS,
           "print a table, wide (more columns), name (names alone), json or yaml"),
    Option("timeout", "", "DURATION", "",
           "give up after this time: 500ms, 5s, 1m30s, or seconds; monitor and status --watch: if the store has not begun to "
           "answer by then"),
    Option("help", "h", None, "",
           "print this help, or that of a command", "help"),
    Option("version", "", None, "",
           "print the version", "version"),
    Option("watch", "w", None, "",
           "print it again every --interval; status without --interval: after each change", "watch"),
    Option("interval", "", "DURATION", "",
           "wait so long between two of them (default: 2s; latency: 100ms)"),
    Option("count", "c", "COUNT", "",
           "end after so many pings (latency; default: 20) or lines (monitor; default: no end)"),
    Option("wait", "", None, "",
           "get: if the key is absent, wait for it; drain: return when the nodes have left", "wait"),
    Option("raw", "", None, "",
           "print the bytes of the value alone, with no newline behind them", "raw"),
    Option("yes", "y", None, "",
           "do not ask", "yes"),
    Option("reason", "", "TEXT", "",
           "the reason, which is kept and shown with the order", "reason"),
    Option("in", "", "DURATION", "",
           "the time that the workers have to save their work (default: 120s)"),
    Option("for", "", "DURATION", "",
           "hold and cordon: end it by itself after this time"),
    Option("until", "", "WHEN", "",
           "hold: end it when so many nodes are there; drain and evict: with gone, end it when such nodes are not", "until"),
    Option("end", "", None, "",
           "evict: the agents of such nodes also end, with exit code 1", "end"),
    Option("ready", "", None, "",
           "ask /readyz, whether the store is ready, in place of /livez", "ready"),
    Option("ended", "", None, "",
           "list the runs that have ended in the last day", "ended"),
    Option("man", "", None, "",
           "print the manual page, as groff reads it", "man"),
]

# Those that every command takes.
COMMON = "server space token-file cacert cert key tls-server-name output timeout help version".split()

OF_KEYS = """

rdzvctl asks for keys over c10d, so it reaches those of the listener's space. Write a KEY as the store has it: torch's
TCPStore puts a / before each. While a run is alive, rdzvd takes rdzvctl for one of the run's workers: get, set, add,
delete, wait and watch then work on the workers' keys, and keys lists the agents' keys."""

FOR_OPERATORS = """

Only operators may do this: use a Unix socket, or --token-file."""

COMMANDS = [
    Command("status", "[RUN]", 0, 1, "runs", "watch interval", "missing nodes, and the keys that clients wait for",
            """Shows each run (one rendezvous of torch, named by --rdzv-id): first the missing nodes, then
            the absent ones, without which the run continues, then what clients wait for, then the nodes that are
            here, then why earlier rounds ended, and earlier runs of this id that failed. Runs that wait for missing nodes come first; runs that all nodes have left
            come last. The nodes that are there are summed up; -o wide lists them.

            If a node of a shown run is missing or has failed, if a client waits for a key for 30 s (except an agent at the
            end of its job), or if there is no such RUN, rdzvctl exits with 1. As json or yaml, RUN is one object; if several
            spaces have a RUN, it is a list of them. Of RUN, rdzvctl also shows how many workers are connected, even if
            all of them are.""",
            ("status", "all runs that the store shows here"),
            ("status JOB -o wide", "one run, every node of it"),
            ("-s rdzvd:29400 status -w", "the same again whenever something changes"),
            ("status JOB -o json", "for a script; the members are those of /rdzv/v1/status")),
    Command("runs", "", 0, 0, "", "watch interval ended", "the runs, a line each",
            """A run is one rendezvous of torch, named by --rdzv-id. With --ended, rdzvctl lists the runs that have
            ended in the last day: how and when, after how many rounds, why, and which nodes were missing. A run that
            all agents have left counts after a minute; it goes on if agents come back.""",
            ("runs", "runs with their state, nodes and missing nodes"),
            ("runs --ended", "the morning after: how each run has ended"),
            ("runs -o name", "their names alone")),
    Command("spaces", "", 0, 0, "", "watch interval", "the spaces, a line each",
            """A space is a complete set of keys, apart from all others. Operators see all spaces; other clients see
            the space of the listener that they ask.""",
            ("spaces", "keys, bytes, clients and runs of each")),
    Command("waiters", "[RUN]", 0, 1, "runs", "watch interval", "clients that wait for keys, and since when",
            """Lists the clients that wait for keys that are not written yet: those of RUN, or all. The store names at
            most 100 of a run.""",
            ("waiters", "every client, the longest wait first"),
            ("waiters JOB", "those of one run")),
    Command("goodput", "RUN", 1, 1, "runs", "watch interval", "how long a run has trained, and what it has waited for",
            """Lists the parts of the time of a run: training, from a complete round to the first sign of its end, and
            each cause for which its nodes have waited: first_nodes, lost_node, node_left (mostly after workers failed),
            new_node, operator, store_start. The start of workers counts as training, and also work that is lost with a
            round: only the job knows when it has saved its state. A c10d run keeps its times over a start of a store
            with --data-dir or etcd. Of a run that has ended, rdzvctl shows the line of `runs --ended`, and exits with 1.""",
            ("goodput JOB", "each part, its share, and how often it began"),
            ("goodput JOB -o json", "for a script")),
    Command("ranks", "RUN", 1, 1, "runs", "watch interval", "the rank of each node, and its domain",
            """Lists the nodes of the last complete round by rank, with their domains of the store's --topology-file,
            such as racks. Ranks form a ring, in which the last rank is followed by rank 0: NEXT names the domain of
            the next rank, if it is another one, and the last line says how many such edges there are.

            If the round is not complete, there are no ranks, and rdzvctl exits with 1.""",
            ("ranks JOB", "who has which rank"),
            ("ranks JOB -o json", "for a script")),
    Command("why", "RUN", 1, 1, "runs", "watch interval", "why the last round ended, and which worker failed first",
            """Shows the last end of a complete round of the run: which worker's connection ended first, why the round ended,
            and after how many milliseconds others followed; then what the workers wait for now. If workers waited for
            keys at that end, rdzvctl also shows the oldest wait. If no round of the run has ended, it shows the end of the
            run of this id that failed last; if there is none, it exits with 1. A rank that is "inferred" was not seen: it follows from the order of the process ids on its host.
            If the log of the rank that ended first says that a collective timed out, another rank stood still.

            rdzvd knows no ranks if worker 0 hosts the workers' store (torch before 2.5,
            TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1), or if the workers were there before rdzvd was started.
            Of a run that has ended, rdzvctl shows the line of `runs --ended`, and exits with 1.""",
            ("why JOB", "after a restart of the workers"),
            ("why JOB -o json", "for a script")),
    Command("top", "", 0, 0, "", "watch interval", "requests per second, connections, memory, spaces",
            """Reads /metrics twice, --interval apart, and prints what happened in between. With --watch, rdzvctl
            repeats this until you stop it.""",
            ("top -w", "a screen that is kept up to date"),
            ("top -o json", "one sample for a script")),
    Command("monitor", "", 0, 0, "", "count", "who asks the store for what, just now",
            """Prints requests as the store carries them out: time, client, space, operation, length and key; of HTTP,
            method and path. It never prints values. The store sends a sample: at most 500 requests a second, and of
            each client the first few that come together. rdzvctl prints how many more there were. While monitor
            runs, it costs the store less than a tenth of its throughput; later, nothing. -o json prints one object
            a line. Only operators may do this: use a Unix socket, or --token-file.""",
            ("-s unix:/run/rdzvd.sock monitor", "until you end it"),
            ("monitor --space JOB -c 100", "the next hundred of one space")),
    Command("keys", "[PREFIX]", 0, 1, "keys", "", "the names of the keys",
            """Lists the keys that begin with PREFIX, or all keys, in order. -o wide adds their sizes and the first
            bytes of their values.""" + OF_KEYS,
            ("keys", "all keys"),
            ("keys /torch.rendezvous. -o wide", "torch's runs, with their sizes")),
    Command("get", "KEY", 1, 1, "keys", "wait raw", "the value of a key",
            """Prints the value, with escapes where it is no text; --raw prints the bytes. If the key is absent,
            rdzvctl exits with 1.""" + OF_KEYS,
            ("get /init", "a value"),
            ("get --wait --timeout 1m /ready", "wait for it for a minute"),
            ("get --raw /torch.rendezvous.JOB > state", "the bytes as they are")),
    Command("set", "KEY VALUE", 2, 2, "keys", "", "write a key",
            """Returns when the store has written the key. If VALUE is -, rdzvctl reads it from standard
            input.""" + OF_KEYS,
            ("set /ready 1", "write it"),
            ("set /config - < config.yaml", "a file")),
    Command("add", "KEY [NUMBER]", 1, 2, "keys", "", "add a number to a key, and print the sum",
            """Adds NUMBER (default: 1) to the value of the key, which is a number as text, and prints the sum. An
            absent key counts as 0.""" + OF_KEYS,
            ("add /counter", "one more"),
            ("add /counter -5", "five less")),
    Command("delete", "KEY...", 1, MANY, "keys", "", "delete keys",
            """Deletes the keys, and prints the names of keys that existed. If a key was absent, rdzvctl exits
            with 1.""" + OF_KEYS,
            ("delete /ready /config", "two of them")),
    Command("wait", "KEY...", 1, MANY, "keys", "", "wait until all keys are there",
            """Returns when all these keys are written. If that takes longer than --timeout (default: no end), rdzvctl
            exits with 1.""" + OF_KEYS,
            ("wait --timeout 5m /ready", "in a script that starts after another")),
    Command("watch", "KEY", 1, 1, "keys", "interval", "print a key each time it changes",
            """Waits for the key, prints its value, and then prints each new value. c10d does not report changes, so
            rdzvctl asks every --interval: if a value is replaced sooner, rdzvctl misses it.""" + OF_KEYS,
            ("watch /step --interval 500ms", "look twice a second")),
    Command("latency", "", 0, 0, "", "interval count", "the round trip of a c10d request",
            """Sends --count pings over one connection, --interval apart, and prints how long they took. The first one
            also connects: the summary leaves it out.""",
            ("latency -c 100", "a hundred of them")),
    Command("preflight", "", 0, 0, "", "", "can this machine use the store?",
            """Looks the name up, connects, with TLS checks the certificates, greets over c10d, asks rdzvd whether it
            is ready, measures the round trip, compares the clocks, and with --token-file asks whether the store lets this
            token read its status. A store that takes no changes is not ready,
            nor is a relay whose store is away, nor a replica that does not lead. If the store cannot be used, it
            says why and tries again until --timeout (default: 1m), so it replaces `nc -z` in an init container. If
            the clocks differ by more than 5 s, it warns: torch compares times of several nodes. The step `self`
            looks up the name that torch takes for this machine ($PET_LOCAL_ADDR, or what Python's getfqdn() finds).
            It warns if the name does not resolve here, or to no address of this machine: agent 0 of torch connects
            to its own name, and hangs for minutes if it cannot. `torchrun --local-addr=ADDRESS` is the remedy.

            If the store can be used, rdzvctl exits with 0; if not, with 3; if it refuses the token, with 4. preflight takes
            the way of torch's agents, so it needs HOST:PORT: at a Unix socket, use `health --ready`.""",
            ("-s rdzvd:29400 preflight --timeout 5m", "in an init container"),
            ("preflight -o json", "the steps, for a script")),
    Command("health", "", 0, 0, "", "ready", "is the store alive? (for probes)",
            """Asks /livez once, as `rdzvd --check-health` does. If the store lives, rdzvctl exits with 0. With
            --ready, it asks /readyz: a relay is ready when it has reached its store, and a replica when it leads,
            or passes clients on to the one that leads. If it is not ready, rdzvctl prints what it checks; -o wide
            and -o json always do.""",
            ("health --timeout 2s", "a liveness probe of a container"),
            ("health --ready", "a readiness probe"),
            ("health --ready -o json", "each check, for a script")),
    Command("cordon", "NODE", 1, 1, "", "reason for", "keep a node out of all further rounds",
            """NODE is the name of a host, as status has it, or a pattern such as 'node-1*'. A node that is kept out, and is
            in no round, waits as a spare for any time; one that trains goes on until the nodes meet again. The order
            holds for all runs of the space, also after rdzvd was started again, until you take it back with uncordon, or for
            the time of --for. `rdzvctl status` shows it.

            An agent of torch before 2.3 cannot wait: it ends when its join_timeout is over.""" + FOR_OPERATORS,
            ("cordon node-7 --reason 'ECC errors'", "node-7 gets no place any more"),
            ("uncordon node-7", "it joins again")),
    Command("uncordon", "NODE", 1, 1, "", "reason", "let a node take part again",
            """Takes back a cordon or an eviction. NODE is the same name or pattern as before.""" + FOR_OPERATORS,
            ("uncordon node-7", "it joins again, or stays a spare if the round is full")),
    Command("evict", "NODE", 1, 1, "", "reason until end yes", "take a node out of its round, and keep it out",
            """Does what cordon does, and a node that trains leaves its round: the other nodes end their workers in the
            same moment and meet again without it, and no restart is used up. A spare takes the place. The agent of the
            node lives on as a spare; that of torch before 2.3 ends. With --end, the agent ends in any case. A new
            agent of the node waits as a spare; before torch 2.3, it ends when its join_timeout is over.""" +
            FOR_OPERATORS,
            ("evict node-7 --reason 'ECC errors' --yes", "a bad node leaves at once"),
            ("evict node-7 --end --until gone --yes", "its container starts again, and takes part again")),
    Command("drain", "NODE", 1, 1, "", "in until wait reason", "take a node out once its workers have saved their work",
            """Does what cordon does, and asks the workers to save their work: they find the key rdzvd/drain, and set the key
            rdzvd/checkpointed to its id. Then, or when the time of --in is over, the node is evicted. With --wait, rdzvctl
            returns when no such node trains any more: use it in a hook that stops a pod or a machine. If no run has such a
            node, --wait exits with 1, and the order holds. The same order once
            more begins the time anew. With --until=gone, the order ends when no agent of such a node is connected: a later
            node of this name takes part.""" +
            FOR_OPERATORS,
            ("drain node-7 --in 5m --reason maintenance", "before node-7 is switched off"),
            ("drain $(hostname) --wait --until gone", "in a hook on the node itself")),
    Command("restart", "RUN", 1, 1, "runs", "reason yes", "let the nodes of a run meet again",
            """All agents of the run end their workers in the same moment, meet, and start new workers. No restart
            (--max-restarts) is used up.""" + FOR_OPERATORS,
            ("restart JOB --yes", "new workers on the same nodes")),
    Command("hold", "RUN", 1, 1, "runs", "reason until for yes", "end the workers of a run, and let its agents wait",
            """All workers end, and all agents wait as spares, for any time, also those that come later. The order
            holds until `rdzvctl release`, until --until nodes are there, or for the time of --for. Given again, it replaces the
            hold before. Agents of torch before 2.3 cannot wait, so rdzvd refuses the order.""" + FOR_OPERATORS,
            ("hold JOB --for 2h --reason 'storage is down' --yes", "nobody trains for two hours"),
            ("hold JOB --until 8 --yes", "all train again when the job has 8 nodes"),
            ("release JOB", "all meet again")),
    Command("release", "RUN", 1, 1, "runs", "reason", "end the hold of a run",
            """All agents that wait meet again.""" + FOR_OPERATORS,
            ("release JOB", "the job goes on")),
    Command("rules", "RUN [RULE,...]", 1, 2, "runs", "reason", "the rules of a run",
            """Replaces the rules of the run. Without a RULE, the run has the rules of the store again (rdzvd --rules,
            which also takes rank-zero=NODE).

            nodes-multiple=COUNT: each round has a multiple of COUNT nodes; the other nodes wait as spares.

            grow-interval=DURATION: for this time after a meeting, new nodes do not make the others meet again.

            group=COLUMN: nodes whose domains in the store's table begin with the same COLUMN names take part together, or
            wait as spares together.

            restart-budget=COUNT/DURATION: after COUNT failures of workers or nodes within this time, the next failure closes
            the run.

            no-progress=COUNT/DURATION: COUNT failures in a row close the run, if none of these rounds took this time, or
            raised the number in the key rdzvd/progress.

            cordon-after=COUNT/DURATION: a node is cordoned if its workers failed first COUNT times within this time; with
            cordon-after=COUNT/DURATION/DURATION, for the second time.""" + FOR_OPERATORS,
            ("rules JOB nodes-multiple=4,grow-interval=30m", "4, 8, 12 nodes, and growth twice an hour"),
            ("rules JOB group=2", "whole racks, where the table has row1/rack1"),
            ("rules JOB", "those of the store")),
    Command("close", "RUN", 1, 1, "runs", "reason yes", "end a run for all its agents",
            """All agents end with RendezvousClosedError and exit code 1. Agents that start again find the run closed,
            until `rdzvctl forget` frees its id, or no agent was connected for --idle-run-ttl.""" + FOR_OPERATORS,
            ("close JOB --reason 'wrong data' --yes", "all agents end")),
    Command("dump", "RUN", 1, 1, "runs", "reason yes", "let all workers write NCCL's flight records, and end",
            """Sets torch's key exception_dump in the workers' store of the run. The threads of NCCL that watch over
            collectives (HeartbeatMonitor) look for it each second: all ranks write their flight records, and end, and their agents start them again if a
            restart is left. rdzvd refuses the order if no worker looks for the key, such as with gloo, or if it does not
            host the workers' store.""" + FOR_OPERATORS,
            ("dump JOB --reason 'it hangs' --yes", "before the time-out of the collective")),
    Command("forget", "RUN", 1, 1, "runs", "yes", "forget a run and its keys",
            """Removes the run's keys and closes the connections of its agents. The agents end, and whatever started
            torchrun has to start them again. Only operators may do this: use a Unix socket, or --token-file.""",
            ("forget JOB", "asks first"),
            ("-s unix:/run/rdzvd.sock forget JOB --yes", "does not ask")),
    Command("clear", "SPACE", 1, 1, "spaces", "yes", "empty a space",
            """Removes all keys of the space, of c10d and of etcd. Connections stay open. Only operators may do this:
            use a Unix socket, or --token-file.""",
            ("clear default", "asks first")),
    Command("completion", "SHELL", 1, 1, SHELLS, "", "completion for bash, zsh or fish",
            """Prints a script. With it, the shell completes commands, options, runs, spaces and keys.""",
            ("completion bash > /etc/bash_completion.d/rdzvctl", "for everybody"),
            ("completion zsh > ~/.zfunc/_rdzvctl", "for zsh")),
    Command("help", "[COMMAND]", 0, 1, "commands", "man", "what a command does",
            """Prints what --help prints behind the command.""",
            ("help status", "about one command"),
            ("help --man | man -l -", "the manual page")),
]

# Of those, the orders to runs and nodes, which one function sends.
ORDERS = "cordon uncordon evict drain restart hold release close dump rules".split()

# Of those, the lists made of what /rdzv/v1/status says: run_list() gets it, and print_NAME() prints it.
LISTS = "runs spaces waiters goodput ranks why".split()

# What is asked before a command, unless there is --yes: of its first word, the space and the store.
QUESTIONS = {
    "forget": "Forget the run %.200s of the space %.100s at %.100s, and end its agents?",
    "evict": "Take the node %.200s out of its round, in the space %.100s at %.100s?",
    "restart": "End the workers of the run %.200s of the space %.100s at %.100s, and start them again?",
    "hold": "End the workers of the run %.200s of the space %.100s at %.100s, and let its agents wait?",
    "close": "End the run %.200s of the space %.100s at %.100s for all its agents?",
    "dump": "End the workers of the run %.200s of the space %.100s at %.100s, with their flight records?",
    "clear": "Remove all keys of the space %.0s%.200s at %.100s?",  # its first word is the space
}

# Tables of JSON objects: of each column the heading, the member (-: several), and the kind of its cells: a text, if none is
# named, or as cell_KIND() writes it.
TABLES = {
    "runs": "RUN id, SPACE space, BACKEND backend, STATE - state, ROUND round count, NODES - nodes, "
            "MISSING missing_count count, WAITS waits_count count, FOR since age",
    "ended": "RUN id, SPACE space, END end, AGO ended age, TOOK seconds took, TRAINED trained took, ROUNDS rounds count, NODES nodes count, "
             "MISSING missing names, WHY why",
    "spaces": "SPACE name, KEYS keys count, BYTES bytes bytes, QUEUES queues count, ETCD NODES etcd_nodes count, "
              "C10D CLIENTS c10d_clients count, WAITERS waiters count, RUNS runs runs, MISSING runs missing",
    "waiters": "FOR since age, RUN run, NODE node, RANK rank number, PEER peer, KEY keys wait_keys",
    "goodput": "PART part, TIME seconds took, SHARE share, TIMES times count",
    "ranks": "RANK rank number, NODE addr, PID pid number, DOMAIN domain, NEXT next_domain, PEER peer",
    # Each figure of a space is the metric rdzvd_space_MEMBER.
    "top": "SPACE name, KEYS keys count, BYTES bytes bytes, QUEUES queues count, ETCD NODES etcd_nodes count, "
           "C10D CLIENTS c10d_connections count, WAITERS waiters count, RUNS runs count",
    # Of a run:
    "absent": "NODE addr, RANK rank number, WHY why, FOR since age, PID pid number, LAST SEEN AT peer",
    "waits": "CLIENTS waiters count, WAIT FOR THE KEY key, VALUE what, WRITTEN BY written_by",
    "nodes": "NODE addr, PID pid number, ROLE role role, RANK rank number, FOR since age, HEARTBEAT heartbeat age, PEER peer",
    "rounds": "ROUND round count, NODES nodes count, MET IN seconds took, LASTED lasted took, BEGAN began ago, WHY IT ENDED why",
    "orders": "ORDER order, ABOUT - about, UNTIL NODES nodes number, ENDS ends ends, RULES rules, "
              "FOR since age, BY by, REASON reason",
}

# Of those, the commands that run with a client of c10d.
OVER_C10D = "keys get set add delete wait watch latency".split()

ABOUT = paragraphs("""rdzvctl asks a rendezvous store of PyTorch about a job: its nodes, the missing nodes, and the
    keys that clients wait for. It also reads and writes keys, and checks whether this machine can use the store.
    Commands about runs, spaces and operators need rdzvd. Commands about keys, latency and preflight also work with
    torch's own store. `kubectl rdzv COMMAND` runs it at a store in a Kubernetes cluster.""")

# As enum ctl_exit has them.
EXITS = ["fine",
         "something is missing: a node, a run, a key; the store is not ready; time was up",
         "the command line is wrong, or a file that an option names is of no use",
         "the store cannot be reached, or does not answer",
         "the store refuses this client",
         "anything else",
         "of a run in its first round, it is not known how many nodes it waits for (`status`)"]

ENVIRONMENT = [("RDZVCTL_SERVER", "the store, if there is no --server"),
               ("RDZVCTL_TOKEN_FILE", "the file of the token, if there is no --token-file"),
               ("RDZVCTL_CACERT", "the file of the store's CA, if there is no --cacert"),
               ("RDZVCTL_CERT", "the file of the client's certificate, if there is no --cert"),
               ("RDZVCTL_KEY", "the file of its key, if there is no --key"),
               ("RDZVCTL_TLS_SERVER_NAME", "the name in the store's certificate, if there is no --tls-server-name"),
               ("NO_COLOR", "if it is set and not empty, rdzvctl prints no colours (else on terminals)")]
