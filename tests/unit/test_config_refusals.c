/* Invalid settings: their error messages. Random bytes and random words cause an error message too,
 * and never a crash. */
#include "rdzv/config/config.h"

#include "rdzv/config/config_file.h"
#include "tests/support/sanitized.h"
#include "tests/unit/config_start.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const struct {
    struct start start;
    int exit_code;
    const char *text;
} refusals[] = {
    /* Words that are no flags. */
    {{.words = {"--lisen", "x"}}, 2, "--lisen: no such setting; did you mean --listen?"},
    {{.words = {"--enable-v3"}}, 2, "--enable-v3: no such setting; did you mean --enable-v2?"},
    {{.words = {"--linger=1s"}}, 2, "--linger: no such setting; `rdzvd --help` lists them"},
    {{.words = {"--nothing=1"}}, 2, "--nothing: no such setting; `rdzvd --help` lists them"},
    {{.words = {"--snapshot-coumtt=1"}},
     2,
     "--snapshot-coumtt: no such setting; `rdzvd --help` lists them"},
    {{.words = {"-l"}}, 2, "--l: no such setting; `rdzvd --help` lists them"},
    {{.words = {"--space-idle-tmeout=1s"}},
     2,
     "--space-idle-tmeout: no such setting; did you mean --space-idle-timeout?"},
    {{.words = {"--a-flag-far-too-long-to-be-a-slip-of-any-flag-of-ours"}},
     2,
     "--a-flag-far-too-long-to-be-a-slip-of-any-flag-of-ours: no such setting; `rdzvd --help` "
     "lists "
     "them"},
    {{.words = {"--listen=a-host-name-as-long-as-an-address-of-ipv6-never-is.example.org:x"}},
     2,
     "--listen: \"a-host-name-as-long-as-an-address-of-ipv6-never-is.example.org:x\": the port is "
     "a "
     "number from 0 to 65535; write ADDR:PORT"},
    {{.words = {"--frobnicate"}}, 2, "--frobnicate: no such setting; `rdzvd --help` lists them"},
    {{.words = {"/etcd", "--frobnicate"}},
     2,
     "--frobnicate: no such setting; `etcd --help` lists them"},
    {{.words = {"---listen"}}, 2, "\"---listen\" is no flag; write --name or --name=value"},
    {{.words = {"--=x"}}, 2, "\"--=x\" is no flag; write --name or --name=value"},
    {{.words = {"start"}}, 2, "\"start\" is not a flag; flags start with --"},
    {{.words = {"-"}}, 2, "\"-\" is not a flag; flags start with --"},
    {{.words = {"--", "x"}}, 2, "\"x\" is not a flag; flags start with --"},
    {{.words = {"/bin/etcd", "gateway"}}, 1, "\"gateway\" is not a flag; flags start with --"},
    {{.words = {"--enable-v2", "true"}},
     1,
     "\"true\" is not a flag; join a value of --enable-v2 to the flag: --enable-v2=true"},
    {{.words = {"--listen"}}, 2, "--listen: needs a value: --listen=VALUE or --listen VALUE"},
    {{.words = {"--check-config=yes"}}, 2, "--check-config: \"yes\": takes no value"},
    {{.words = {"--data-dir="}},
     2,
     "--data-dir: is empty; write DIR, or leave the setting out: then a restart starts empty"},
    {{.words = {"--data-dir", "--check-config"}},
     2,
     "--data-dir: needs a value: --data-dir=VALUE or --data-dir VALUE"},
    {{.environment = {"RDZVD_DATA_DIR="}},
     2,
     "RDZVD_DATA_DIR: is empty; write DIR, or leave the setting out: then a restart starts empty"},
    {{.environment = {"RDZVD_EXPECT=two"}},
     2,
     "RDZVD_EXPECT: \"two\": not a whole number; write one, or off"},
    {{.environment = {"RDZVD_LISTEN=b"}},
     2,
     "RDZVD_LISTEN: \"b\": there is no port; write ADDR:PORT, such as 127.0.0.1:29400"},
    {{.environment = {"RDZVD_CONFIG=nothing.yaml"}},
     2,
     "RDZVD_CONFIG: cannot read \"nothing.yaml\": No such file or directory"},
    {{.words = {"--port=1"}}, 2, "--port: no such setting; did you mean --listen?"},
    {{.words = {"-p29400"}}, 2, "--p29400: no such setting; did you mean --listen?"},
    {{.words = {"--verbose"}}, 2, "--verbose: no such setting; did you mean --log-level?"},
    {{.words = {"--memory=1GiB"}}, 2, "--memory: no such setting; did you mean --memory-limit?"},
    {{.words = {"--memory-limit=1"}},
     2,
     "--memory-limit: \"1\": must be 1MiB at least: a number alone counts bytes"},

    /* The journal on etcd. */
    {{.words = {"--journal=/var/lib/rdzvd"}},
     2,
     "--journal: \"/var/lib/rdzvd\": write etcd://HOST:PORT[,HOST:PORT...]/NAME, such as "
     "etcd://etcd-0.etcd:2379,etcd-1.etcd:2379/rdzv"},
    {{.words = {"--journal=etcd://a:1"}},
     2,
     "--journal: \"etcd://a:1\": write etcd://HOST:PORT[,HOST:PORT...]/NAME, such as "
     "etcd://etcd-0.etcd:2379,etcd-1.etcd:2379/rdzv"},
    {{.words = {"--journal=etcd:///n"}},
     2,
     "--journal: \"etcd:///n\": write etcd://HOST:PORT[,HOST:PORT...]/NAME, such as "
     "etcd://etcd-0.etcd:2379,etcd-1.etcd:2379/rdzv"},
    {{.words = {"--journal=etcd://a:1,b/n"}},
     2,
     "--journal: \"etcd://a:1,b/n\": write etcd://HOST:PORT[,HOST:PORT...]/NAME, such as "
     "etcd://etcd-0.etcd:2379,etcd-1.etcd:2379/rdzv"},
    {{.words = {"--journal=etcd://a:1/n/m"}},
     2,
     "--journal: \"etcd://a:1/n/m\": write etcd://HOST:PORT[,HOST:PORT...]/NAME, such as "
     "etcd://etcd-0.etcd:2379,etcd-1.etcd:2379/rdzv"},
    {{.words = {"--journal=etcd://a:1/n", "--data-dir=/d"}},
     2,
     "--data-dir: is for files; --journal=etcd://... keeps all state in etcd"},
    {{.words = {"--journal=etcd://a:1/n", "--journal-user=u"}},
     2,
     "--journal-user: needs --journal-password-file=FILE"},
    {{.words = {"--journal-user=u", "--journal-password-file=f"}},
     2,
     "--journal-user: is for --journal=etcd://..."},
    {{.words = {"--journal=etcd://a:1/n", "--journal-password-file=f"}},
     2,
     "--journal-password-file: goes with --journal-user=NAME"},
    {{.words = {"--journal-lease=5s", "--upstream=a:1"}},
     2,
     "--journal-lease: a relay (--upstream) keeps no keys; give this to the store"},
    {{.words = {"--read-token-file=f", "--upstream=a:1"}},
     2,
     "--read-token-file: a relay (--upstream) keeps no keys; give this to the store"},
    {{.words = {"--journal=etcd://a:1/n", "--upstream=a:1", "--space=b"}},
     2,
     "--space: is a setting of relays (--upstream without --journal); name a store's spaces with "
     "--listen=ADDR:PORT/SPACE"},
    {{.words = {"--node-label=index=3", "--exit-on-restart=off"}},
     2,
     "--node-label: is a setting of relays (--upstream without --journal)"},
    {{.words = {"--journal=etcd://a:1/n", "--upstream=a"}},
     2,
     "--upstream: \"a\": write HOST:PORT[,HOST:PORT...], such as job-rdzv.default.svc:29400 or "
     "[fd00::1]:29400"},

    /* Listeners. */
    {{.words = {"--listen="}},
     2,
     "--listen: \"\": there is no port; write ADDR:PORT, such as 127.0.0.1:29400"},
    {{.words = {"--listen=29400"}},
     2,
     "--listen: \"29400\": this is a port alone; write *:PORT for every address, or ADDR:PORT"},
    {{.words = {"--listen=0.0.0.0"}},
     2,
     "--listen: \"0.0.0.0\": there is no port; write ADDR:PORT, such as 127.0.0.1:29400"},
    {{.words = {"--listen=host"}},
     2,
     "--listen: \"host\": there is no port; write ADDR:PORT, such as 127.0.0.1:29400"},
    {{.words = {"--listen=host:"}},
     2,
     "--listen: \"host:\": the port is a number from 0 to 65535; write ADDR:PORT"},
    {{.words = {"--listen=host:http"}},
     2,
     "--listen: \"host:http\": the port is a number from 0 to 65535; write ADDR:PORT"},
    {{.words = {"--listen=host:65536"}},
     2,
     "--listen: \"host:65536\": the port is a number from 0 to 65535; write ADDR:PORT"},
    {{.words = {"--listen=host:-1"}},
     2,
     "--listen: \"host:-1\": the port is a number from 0 to 65535; write ADDR:PORT"},
    {{.words = {"--listen=::1:29400"}},
     2,
     "--listen: \"::1:29400\": an IPv6 address stands in brackets, as in [::1]:29400"},
    {{.words = {"--listen=[::1:29400"}},
     2,
     "--listen: \"[::1:29400\": there is no ] behind the IPv6 address; write [ADDR]:PORT"},
    {{.words = {"--listen=[::g]:1"}},
     2,
     "--listen: \"[::g]:1\": there is no IPv6 address between [ and ]"},
    {{.words = {"--listen=[127.0.0.1]:1"}},
     2,
     "--listen: \"[127.0.0.1]:1\": there is no IPv6 address between [ and ]"},
    {{.words = {"--listen=[::1]"}},
     2,
     "--listen: \"[::1]\": there is no port; write ADDR:PORT, such as 127.0.0.1:29400"},
    {{.words = {"--listen=[::1]x:1"}},
     2,
     "--listen: \"[::1]x:1\": there is no port; write ADDR:PORT, such as 127.0.0.1:29400"},
    {{.words = {"--listen=256.0.0.1:1"}},
     2,
     "--listen: \"256.0.0.1:1\": this is no IPv4 address; write four numbers from 0 to 255"},
    {{.words = {"--listen=1.2.3:1"}},
     2,
     "--listen: \"1.2.3:1\": this is no IPv4 address; write four numbers from 0 to 255"},
    {{.words = {"--listen=-a:1"}},
     2,
     "--listen: \"-a:1\": this is no host name; write ADDR:PORT, such as 127.0.0.1:29400 or "
     "*:29400"},
    {{.words = {"--listen=a b:1"}},
     2,
     "--listen: \"a b:1\": this is no host name; write ADDR:PORT, such as 127.0.0.1:29400 or "
     "*:29400"},
    {{.words = {"--listen=http://0.0.0.0:1"}},
     2,
     "--listen: \"http://0.0.0.0:1\": this is a URL; write ADDR:PORT, or use "
     "--listen-client-urls"},
    {{.words = {"--listen=/run/rdzvd.sock"}},
     2,
     "--listen: \"/run/rdzvd.sock\": this is a path; write unix:/PATH, or ADDR:PORT"},
    {{.words = {"--listen=unix:run/x"}},
     2,
     "--listen: \"unix:run/x\": the path of a Unix socket begins with / and has 107 bytes at most; "
     "write unix:/PATH"},
    {{.words = {"--listen=unix:/run/x", "--listen=unix:/run/x"}},
     2,
     "--listen: unix:/run/x is there twice; keep one"},
    {{.words = {"--listen=*:1/"}},
     2,
     "--listen: \"*:1/\": a space is named with 1 to 253 letters, digits, `.`, `_` or `-`, a "
     "letter or digit first"},
    {{.words = {"--listen=*:1/a/b"}},
     2,
     "--listen: \"*:1/a/b\": a space is named with 1 to 253 letters, digits, `.`, `_` or `-`, a "
     "letter or digit first"},
    {{.words = {"--listen=*:1/.a"}},
     2,
     "--listen: \"*:1/.a\": a space is named with 1 to 253 letters, digits, `.`, `_` or `-`, a "
     "letter or digit first"},
    {{.words = {"--listen=*:1\n/a"}},
     2,
     "--listen: \"*:1\\x0a/a\": the port is a number from 0 to 65535; write ADDR:PORT"},
    {{.words = {"--listen=*:1\xff"}},
     2,
     "--listen: \"*:1\xff\": is not UTF-8 text; write it in UTF-8"},
    {{.words = {"--listen=127.0.0.1:1/a", "--listen=127.0.0.1:1/b"}},
     2,
     "--listen: 127.0.0.1:1 is there twice; keep one"},
    {{.words = {"--listen=*:1", "--listen=127.0.0.1:1"}},
     2,
     "--listen: rdzvd cannot listen on both *:1 and 127.0.0.1:1; drop one, or change a port"},
    {{.words = {"--listen=10.0.0.1:1", "--listen=0.0.0.0:1"}},
     2,
     "--listen: rdzvd cannot listen on both 10.0.0.1:1 and 0.0.0.0:1; drop one, or change a port"},
    {{.words = {"--listen=[::]:1", "--listen=[::1]:1"}},
     2,
     "--listen: rdzvd cannot listen on both [::]:1 and [::1]:1; drop one, or change a port"},
    {{.words = {"--listen-client-urls=http://0.0.0.0:1,http://127.0.0.1:1",
                "--advertise-client-urls=http://a:1"}},
     1,
     "--listen-client-urls: rdzvd cannot listen on both *:1 and 127.0.0.1:1; drop one, or change a "
     "port"},

    /* Amounts and choices. */
    {{.words = {"--space-idle-timeout=30x"}},
     2,
     "--space-idle-timeout: \"30x\": no unit of time; use ms, s, m, h or d, as in 500ms, 30s or "
     "1h30m"},
    {{.words = {"--space-idle-timeout="}},
     2,
     "--space-idle-timeout: \"\": not a duration; write a number and a unit, such as 500ms, 30s or "
     "2m"},
    {{.words = {"--space-idle-timeout=-1s"}},
     2,
     "--space-idle-timeout: \"-1s\": not a duration; write a number and a unit, such as 500ms, 30s "
     "or 2m"},
    {{.words = {"--value-limit=8M"}},
     2,
     "--value-limit: \"8M\": could mean 1000s or 1024s; add iB (as in 8MiB) or B (as in 8MB)"},
    {{.words = {"--value-limit=off"}},
     2,
     "--value-limit: \"off\": not a size; write a number and a unit, such as 64KiB, 8MiB or 4GiB"},
    {{.words = {"--value-limit=0"}}, 2, "--value-limit: \"0\": must be 1B at least"},
    {{.words = {"--key-size-limit=1GiB"}},
     2,
     "--key-size-limit: no such setting; `rdzvd --help` lists them"},
    {{.words = {"--connection-limit=many"}},
     2,
     "--connection-limit: \"many\": not a whole number; write one, or off"},
    {{.words = {"--connection-limit=99999999999999999999999"}},
     2,
     "--connection-limit: \"99999999999999999999999\": must be from 0 to 4294967295"},
    {{.words = {"--elastic-fixes=maybe"}}, 2, "--elastic-fixes: \"maybe\": must be one of on|off"},
    {{.words = {"--log-level=trace"}},
     2,
     "--log-level: \"trace\": must be one of debug|info|warn|error"},
    {{.words = {"--log-format=xml"}}, 2, "--log-format: \"xml\": must be one of logfmt|json"},
    {{.words = {"--space-idle-timeout=bad", "--space-idle-timeout=5s"}},
     2,
     "--space-idle-timeout: \"bad\": not a duration; write a "
     "number and a unit, such as 500ms, 30s or 2m"},
    {{.words = {"--name="}}, 2, "--name: is empty; give the member a name"},
    {{.words = {"--cors="}}, 2, "--cors: is empty; write * for any origin, or URLs"},
    {{.words = {"--cors=*,http://a:1"}},
     2,
     "--cors: \"*\": URL scheme must be http, https, unix, or unixs; write http://HOST:PORT"},
    {{.words = {"--advertise-client-urls=foo"}},
     2,
     "--advertise-client-urls: \"foo\": URL scheme must be http, https, unix, or unixs; write "
     "http://HOST:PORT"},

    /* etcd's own refusals. */
    {{.words = {"--listen-client-urls=http://127.0.0.1:1"}},
     1,
     "--listen-client-urls: --advertise-client-urls is required when --listen-client-urls is set "
     "explicitly; name the URLs by which clients reach this process"},
    {{.environment = {"ETCD_LISTEN_CLIENT_URLS=http://127.0.0.1:1"}},
     1,
     "ETCD_LISTEN_CLIENT_URLS: --advertise-client-urls is required when --listen-client-urls is "
     "set explicitly; name the URLs by which clients reach this process"},
    {{.words = {"--listen-client-urls=127.0.0.1:2379"}},
     2,
     "--listen-client-urls: \"127.0.0.1:2379\": URL scheme must be http, https, unix, or unixs; "
     "write http://HOST:PORT"},
    {{.words = {"--listen-client-urls=http://127.0.0.1"}},
     2,
     "--listen-client-urls: \"http://127.0.0.1\": URL address does not have the form "
     "\"host:port\"; write http://HOST:PORT"},
    {{.words = {"--listen-client-urls=http://::1:5"}},
     2,
     "--listen-client-urls: \"http://::1:5\": URL address does not have the form \"host:port\"; "
     "write http://HOST:PORT"},
    {{.words = {"--listen-client-urls=http://127.0.0.1:99999"}},
     2,
     "--listen-client-urls: \"http://127.0.0.1:99999\": URL address does not have the form "
     "\"host:port\"; write http://HOST:PORT"},
    {{.words = {"--listen-client-urls=http://127.0.0.1:1/"}},
     2,
     "--listen-client-urls: \"http://127.0.0.1:1/\": URL must not contain a path; end it behind "
     "the port"},
    {{.words = {"--listen-client-urls=http://127.0.0.1:1?x"}},
     2,
     "--listen-client-urls: \"http://127.0.0.1:1?x\": URL must not contain a query or fragment; "
     "end it behind the port"},
    {{.words = {"--listen-client-urls=http://127.0. 0.1:1"}},
     2,
     "--listen-client-urls: \"http://127.0. 0.1:1\": URL must not contain blanks or control "
     "characters; write http://HOST:PORT"},
    {{.words = {"--listen-client-urls=http://127.0.0.1:1,"}},
     2,
     "--listen-client-urls: \"\": URL scheme must be http, https, unix, or unixs; write "
     "http://HOST:PORT"},
    {{.words = {"--listen-client-urls=http://foo:1", "--advertise-client-urls=http://a:1"}},
     1,
     "--listen-client-urls: expected IP in URL for binding (http://foo:1); write an address of "
     "this machine, localhost, or 0.0.0.0 for all"},
    {{.words = {"--listen-metrics-urls=http://foo:1"}},
     1,
     "--listen-metrics-urls: expected IP in URL for binding (http://foo:1); write an address of "
     "this machine, localhost, or 0.0.0.0 for all"},
    {{.words = {"--listen-client-urls=https://127.0.0.1:1", "--advertise-client-urls=https://a:1"}},
     1,
     "--listen-client-urls: TLS (https://, or tls:) needs a certificate: --cert=FILE and "
     "--key=FILE"},
    {{.words = {"--cert=a", "--key=b", "--client-ca="}},
     2,
     "--client-ca: is empty; write FILE, or leave the setting out: then clients need no "
     "certificate"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "cert: a\nkey: b\ncrl: \"\"\n"},
     2,
     "rdzvd.yaml:3:6: crl: is empty; write FILE, or leave the setting out: then no certificate "
     "counts as revoked"},
    {{.words = {"--admin-token-file", ""}},
     2,
     "--admin-token-file: is empty; write FILE, or leave the setting out: then no token lets "
     "clients change things"},
    {{.words = {"--read-token-file="}},
     2,
     "--read-token-file: is empty; write FILE, or leave the setting out: then readers need no "
     "token"},
    {{.words = {"--upstream=a:1", "--upstream-ca="}},
     2,
     "--upstream-ca: is empty; write FILE|system, or leave the setting out: then the relay speaks "
     "plain text"},
    {{.words = {"--cert=a", "--cert-file=b", "--key=c"}},
     2,
     "--cert-file: sets what --cert sets, to another value; keep one of the two"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "trusted-ca-file: a\nclient-ca: b\n"},
     2,
     "rdzvd.yaml:2:12: client-ca: sets what rdzvd.yaml:1:18: trusted-ca-file sets, to another "
     "value; keep one of the two"},
    {{.words = {"--cert=a"}}, 2, "--cert: needs its key: --key=FILE"},
    {{.words = {"--key-file=a"}}, 2, "--key-file: needs its certificate: --cert=FILE"},
    {{.words = {"--client-ca=a"}},
     2,
     "--client-ca: needs a certificate of ours: --cert=FILE and --key=FILE"},
    {{.words = {"--cert=a", "--key=b", "--client-cert-auth"}},
     2,
     "--client-cert-auth: needs the CA of the clients: --trusted-ca-file=FILE"},
    {{.words = {"--cert=a", "--key=b", "--client-names=c"}},
     2,
     "--client-names: needs the CA whose certificates they are: --client-ca=FILE"},
    {{.words = {"--cert=a", "--key=b", "--crl=c"}},
     2,
     "--crl: needs the CA whose list it is: --client-ca=FILE, --upstream-ca=FILE or "
     "--journal-ca=FILE"},
    {{.words = {"--journal-ca=a"}}, 2, "--journal-ca: is for --journal=etcd://..."},
    {{.words = {"--journal=etcd://a:1/b", "--journal-server-name=c"}},
     2,
     "--journal-server-name: needs the CA of etcd: --journal-ca=FILE, or system"},
    {{.words = {"--journal=etcd://a:1/b", "--journal-ca=c", "--journal-cert=d"}},
     2,
     "--journal-cert: needs its key: --journal-key=FILE"},
    {{.words = {"--journal=etcd://a:1/b", "--journal-ca=c", "--journal-key=d"}},
     2,
     "--journal-key: needs its certificate: --journal-cert=FILE"},
    {{.words = {"--journal-lease=2m"}}, 2, "--journal-lease: \"2m\": must be from 2s to 1m"},
    {{.words = {"--plaintext=sometimes"}},
     2,
     "--plaintext: \"sometimes\": write on, loopback, off, or networks as in "
     "10.0.0.0/8,fd00::/8"},
    {{.words = {"--allow=10.0.0.0/33"}},
     2,
     "--allow: \"10.0.0.0/33\": write networks, as in 10.0.0.0/8,fd00::/8"},
    {{.words = {"--listen-client-urls=unix://localhost:1", "--advertise-client-urls=http://a:1"}},
     1,
     "--listen-client-urls: \"unix://localhost:1\": a Unix socket is --listen=unix:/PATH here; "
     "write that, or listen on http://127.0.0.1:PORT"},
    {{.words = {"--enable-v2=maybe"}}, 2, "--enable-v2: \"maybe\": must be one of true|false"},
    {{.words = {"--initial-cluster-state=foo"}},
     2,
     "--initial-cluster-state: \"foo\": must be one of new|existing"},
    {{.words = {"--logger=foo"}}, 2, "--logger: \"foo\": must be one of capnslog|zap"},
    {{.words = {"/etcd", "--name="}}, 1, "--name: is empty; give the member a name"},
    {{.words = {"/etcd", "--name=b"}, .environment = {"ETCD_NAME=a"}},
     1,
     "ETCD_NAME: conflicting environment variable is shadowed by corresponding command-line flag "
     "--name; unset the variable or remove the flag"},
    {{.environment = {"ETCD_ENABLE_V2=maybe"}},
     1,
     "ETCD_ENABLE_V2: \"maybe\": must be one of true|false"},
    {{.words = {"/etcd", "--name=b", "--initial-cluster=a=http://localhost:2380"}},
     1,
     "--initial-cluster: couldn't find local name \"b\" in the initial cluster configuration; "
     "write --initial-cluster b=http://localhost:2380, or give another --name"},
    {{.words = {"--initial-cluster="}},
     1,
     "--initial-cluster: couldn't find local name \"default\" in the initial cluster "
     "configuration; write --initial-cluster default=http://localhost:2380, or give another "
     "--name"},
    {{.words = {"--initial-cluster=foo"}},
     1,
     "--initial-cluster: \"foo\": URL scheme must be http, https, unix, or unixs; write "
     "http://HOST:PORT, as in NAME=http://HOST:2380"},
    {{.words = {"--initial-cluster=default=http://localhost:2380,b=http://10.0.0.2:2380"}},
     1,
     "--initial-cluster: names \"b\" beside \"default\", but this is a cluster of one; run one, "
     "and point all clients at it"},

    /* Files. */
    {{.words = {"--config=/nonexistent"}},
     2,
     "--config: cannot read \"/nonexistent\": No such file or directory"},
    {{.words = {"--config=."}}, 2, "--config: cannot read \".\": Is a directory"},
    {{.words = {"--config=/dev/zero"}},
     2,
     "--config: \"/dev/zero\" is longer than 1048576 bytes, so it is no file of settings"},
    {{.words = {"--config-file=/nonexistent"}},
     1,
     "--config-file: cannot read \"/nonexistent\": No such file or directory"},
    {{.words = {"--config=rdzvd.yaml", "--config-file=rdzvd.yaml"}, .file = ""},
     2,
     "--config-file: --config is given too; keep one of the two"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "space-idle-timeout: 5s\nlisen: x\n"},
     2,
     "rdzvd.yaml:2:1: lisen: no such setting; did you mean listen?"},
    {{.words = {"--config=rdzvd.yaml"},
      .file = "space-idle-timeout: 5s\n\nspace-idle-timeout:   6s\n"},
     2,
     "rdzvd.yaml:3:1: space-idle-timeout: is there twice, first in line 1; keep one"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "space-idle-timeout:   6x\n"},
     2,
     "rdzvd.yaml:1:23: space-idle-timeout: \"6x\": no unit of time; use ms, s, m, h or d, as in "
     "500ms, 30s or "
     "1h30m"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "space-idle-timeout: [5s]\n"},
     2,
     "rdzvd.yaml:1:1: space-idle-timeout: one value is expected here, not a list"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "space-idle-timeout:\n  a: b\n"},
     2,
     "rdzvd.yaml:1:1: space-idle-timeout: a value is expected here, not a mapping"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "a: {b: {c: d}}\n"},
     2,
     "rdzvd.yaml:1:8: a.b: a value is expected, not a mapping"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "space-idle-timeout:\n"},
     2,
     "rdzvd.yaml:1:20: space-idle-timeout: the value is missing; write a value or remove the line"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "listen:\n  - 127.0.0.1:1\n  - ~\n"},
     2,
     "rdzvd.yaml:3:5: listen: the value is missing; write a value or remove the line"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "listen:\n  - 127.0.0.1:1\n  - [a]\n"},
     2,
     "rdzvd.yaml:3:5: listen: a list of plain values is expected, not a list inside it"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "listen:\n  - 127.0.0.1:1\n  - a: b\n"},
     2,
     "rdzvd.yaml:3:5: listen: a list of plain values is expected, not a mapping inside it"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "listen:\n  - 127.0.0.1:1\n  - 127.0.0.1\n"},
     2,
     "rdzvd.yaml:3:5: listen: \"127.0.0.1\": there is no port; write ADDR:PORT, such as "
     "127.0.0.1:29400"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "listen: [127.0.0.1:1, 127.0.0.1:1]\n"},
     2,
     "rdzvd.yaml:1:23: listen: 127.0.0.1:1 is there twice; keep one"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: &n a\ndata-dir: *n\n"},
     2,
     "rdzvd.yaml:1:7: anchors are not taken here; remove the &name"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: *n\n"},
     2,
     "rdzvd.yaml:1:7: aliases are not taken here; quote a value that starts with *"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: !!str a\n"},
     2,
     "rdzvd.yaml:1:7: tags are not taken here; remove the !tag"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "listen: &l [a]\n"},
     2,
     "rdzvd.yaml:1:9: anchors are not taken here; remove the &name"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "<<: {a: b}\n"},
     2,
     "rdzvd.yaml:1:1: <<: no such setting; `rdzvd --help` lists them"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "? [a]\n: b\n"},
     2,
     "rdzvd.yaml:1:3: a setting's name is expected here, as in `listen: ...`"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "- listen\n"},
     2,
     "rdzvd.yaml:1:1: settings are expected, as lines of `key: value`"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "listen\n"},
     2,
     "rdzvd.yaml:1:1: settings are expected, as lines of `key: value`"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: a\n---\nname: b\n"},
     2,
     "rdzvd.yaml:2:1: a second document starts here; a file holds one"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: \"a\\0b\"\n"},
     2,
     "rdzvd.yaml:1:7: there is a NUL character in this text; remove it"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: a: b\n"},
     2,
     "rdzvd.yaml:1:8: mapping values are not allowed in this context; quote a value that contains "
     "`: `"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: a\n\tspace-idle-timeout: 5s\n"},
     2,
     "rdzvd.yaml:2:1: found a tab character that violates indentation; indent with spaces"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: @a\n"},
     2,
     "rdzvd.yaml:1:7: found character that cannot start any token; indent with spaces, not tabs, "
     "and quote a value that starts with @, ` or %"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "listen: *:29400\n"},
     2,
     "rdzvd.yaml:1:10: did not find expected alphabetic or numeric character; quote a value that "
     "starts with * or &, as in \"*:29400\""},
    {{.words = {"--config=rdzvd.yaml"}, .file = "\"a\\nb\": c\n"},
     2,
     "rdzvd.yaml:1:1: a?b: no such setting; `rdzvd --help` lists them"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: [a\n"},
     2,
     "rdzvd.yaml:2:1: did not find expected ',' or ']'; settings are lines of `key: value`"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: a\nspace-idle-timeout\n"},
     2,
     "rdzvd.yaml:3:1: could not find expected ':'; settings are lines of `key: value`"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "name: a\ncors: \xff\n"},
     2,
     "rdzvd.yaml:2:7: invalid leading UTF-8 octet; the file must be UTF-8 text"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "config: x\n"},
     2,
     "rdzvd.yaml:1:1: config: belongs on the command line, not into a file"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "help: true\n"},
     2,
     "rdzvd.yaml:1:1: help: belongs on the command line, not into a file"},
    {{.words = {"--config=rdzvd.yaml"}, .file = "config-file: x\n"},
     2,
     "rdzvd.yaml:1:1: config-file: belongs on the command line, not into a file"},
    {{.words = {"--config-file=rdzvd.yaml"}, .file = "enable-v2: \"maybe\"\n"},
     1,
     "rdzvd.yaml:1:12: enable-v2: \"maybe\": must be one of true|false"},
    {{.words = {"--config-file=rdzvd.yaml"}, .file = "a: b: c\n"},
     1,
     "rdzvd.yaml:1:5: mapping values are not allowed in this context; quote a value that contains "
     "`: `"},
    {{.words = {"--config-file=rdzvd.yaml"}, .file = "listen-client-urls: http://foo/\n"},
     1,
     "rdzvd.yaml:1:21: listen-client-urls: \"http://foo/\": URL address does not have the form "
     "\"host:port\"; write http://HOST:PORT"},
};

static void every_refusal_names_place_and_hint(void **state)
{
    size_t wrong = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(refusals); i++) {
        struct config c = {.name = (char *)(uintptr_t) "untouched"};
        struct config_error error;
        bool ok = parse(&refusals[i].start, &c, &error);

        if (ok) {
            print_error("case %zu was not refused: %s\n", i, refusals[i].text);
            config_free(&c);
            wrong++;
        } else if (strcmp(error.text, refusals[i].text) != 0 ||
                   error.exit_code != refusals[i].exit_code || strcmp(c.name, "untouched") != 0) {
            print_error("case %zu: exit %d, expected %d\n     got: %s\nexpected: %s\n", i,
                        error.exit_code, refusals[i].exit_code, error.text, refusals[i].text);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* A file is bounded in settings and in values, so that no search through them takes long. */
static void a_file_of_thousands_is_refused(void **state)
{
    static const struct {
        const char *start;
        size_t count;
        const char *text;
    } cases[] = {
        {"", 1001, "more than 1000 settings in one file"},
        {"cors: [", 10001, "cors: more than 10000 values"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = NULL;
        size_t len;
        FILE *out = open_memstream(&text, &len);
        struct config_file file;
        struct config_file_error error;

        fputs(cases[i].start, out);
        for (size_t j = 0; j < cases[i].count; j++)
            fprintf(out, i == 0 ? "a%zu: b\n" : "%zu,", j);
        fclose(out);
        assert_false(config_file_parse((const uint8_t *)text, len, &file, &error));
        assert_string_equal(error.text, cases[i].text);
        free(text);
    }
}

/* A file with a bit of everything, to be broken in every place. */
static const char sample[] = "# settings\n"
                             "listen:\n"
                             "  - \"127.0.0.1:0/jobA\"\n"
                             "  - localhost:29400\n"
                             "space-idle-timeout: 30s # a while\n"
                             "'value-limit': 8KiB\n"
                             "cors: [http://a:1, \"http://b:2\"]\n"
                             "name: >\n"
                             "  folded\n"
                             "  text\n"
                             "client-transport-security: {cert-file: x}\n";

/* What libyaml and we make of any bytes: an error with a place inside the text, or settings. */
static void check_file_bytes(const uint8_t *bytes, size_t len, const char *what, size_t at)
{
    uint8_t *copy = malloc(len == 0 ? 1 : len); /* the exact size, for ASan */
    struct config_file file;
    struct config_file_error error;

    memcpy(copy, bytes, len);
    if (config_file_parse(copy, len, &file, &error))
        config_file_free(&file);
    else if (error.at.line == 0 || error.at.line > 20 || error.at.column == 0 ||
             error.text[0] == '\0')
        fail_msg("%s at %zu: %u:%u: %s", what, at, error.at.line, error.at.column, error.text);
    free(copy);
}

static void every_prefix_of_a_file_is_settings_or_an_error(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof sample; len++)
        check_file_bytes((const uint8_t *)sample, len, "prefix", len);
}

static void every_broken_byte_is_settings_or_an_error(void **state)
{
    static const uint8_t bytes[] = "\0\n\t :-[]{}\"'#&*!|>%@`,?\xff\xc3\xe2";
    uint8_t text[sizeof sample];

    (void)state;
    for (size_t at = 0; at + 1 < sizeof sample; at++) {
        for (size_t i = 0; i < sizeof bytes - 1; i++) {
            memcpy(text, sample, sizeof sample);
            text[at] = bytes[i];
            check_file_bytes(text, sizeof sample - 1, "replaced", at);
            memmove(text + at + 1, sample + at, sizeof sample - 1 - at);
            check_file_bytes(text, sizeof sample, "inserted", at);
        }
    }
}

/* Command lines of random words: whatever comes, there is a config or an error with a text. */
static void random_command_lines_end_well(void **state)
{
    static const char *const pieces[] = {"--listen",
                                         "--listen=",
                                         "127.0.0.1:0",
                                         "*:1",
                                         "*:1/a",
                                         "[::1]:1",
                                         "--enable-v2",
                                         "--listen-client-urls",
                                         "http://127.0.0.1:1",
                                         "--advertise-client-urls=http://a:1",
                                         "-",
                                         "--",
                                         "--space-idle-timeout",
                                         "5s",
                                         "bad",
                                         "--name",
                                         "--name=x",
                                         "--initial-cluster=x=http://a:1",
                                         "--config=rdzvd.yaml",
                                         "--config-file=rdzvd.yaml",
                                         "--version",
                                         "-h",
                                         "--cors=*",
                                         "",
                                         "--log-level=debug",
                                         "--proxy=on",
                                         "--snapshot-count=5",
                                         "--elastic-fixes",
                                         "off",
                                         "=",
                                         "--="};
    static const char *const variables[] = {"ETCD_NAME=x",
                                            "ETCD_NAME=",
                                            "ETCD_LISTEN_CLIENT_URLS=http://localhost:5",
                                            "ETCD_ADVERTISE_CLIENT_URLS=http://a:1",
                                            "ETCD_",
                                            "ETCD_=",
                                            "ETCD",
                                            "=",
                                            "",
                                            "ETCD_PORT=1",
                                            "ETCD_CONFIG_FILE=rdzvd.yaml",
                                            "ETCD_ENABLE_V2=1",
                                            "ETCD_LOG_LEVEL=info",
                                            "RDZVD_",
                                            "RDZVD_=x",
                                            "RDZVD_NAME=",
                                            "RDZVD_LISTEN=*:2",
                                            "RDZVD_CONFIG=rdzvd.yaml",
                                            "PATH=/"};
    uint32_t seed = 20261120;

    (void)state;
    write_file(sample, sizeof sample - 1);
    for (unsigned run = 0; run < SANITIZED_OR(4000, 20000); run++) {
        struct start start = {.words = {NULL}};
        struct config_error error;
        struct config c;
        uint32_t first = seed;
        size_t words, count;

        seed = seed * 1664525u + 1013904223u;
        words = (seed >> 16) % (WORDS_MAX - 1);
        for (size_t i = 0; i < words; i++) {
            seed = seed * 1664525u + 1013904223u;
            start.words[i] = pieces[(seed >> 16) % COUNT(pieces)];
        }
        count = (seed >> 20) % 4;
        for (size_t i = 0; i < count; i++) {
            seed = seed * 1664525u + 1013904223u;
            start.environment[i] = variables[(seed >> 16) % COUNT(variables)];
        }
        if (parse(&start, &c, &error)) {
            if (c.listener_count == 0 && c.action != CONFIG_HELP)
                fail_msg("seed %u: no listener", first);
            config_free(&c);
        } else if (error.text[0] == '\0' || (error.exit_code != 1 && error.exit_code != 2)) {
            fail_msg("seed %u: exit code %d, text \"%s\"", first, error.exit_code, error.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_refusal_names_place_and_hint),
        cmocka_unit_test(a_file_of_thousands_is_refused),
        cmocka_unit_test(every_prefix_of_a_file_is_settings_or_an_error),
        cmocka_unit_test(every_broken_byte_is_settings_or_an_error),
        cmocka_unit_test(random_command_lines_end_well),
    };

    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
