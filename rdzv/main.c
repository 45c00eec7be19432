/* rdzvd: from argv to an exit code. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rdzv/check_health.h"
#include "rdzv/http/access.h"
#include "rdzv/memory.h"
#include "rdzv/net/certificate.h"
#include "rdzv/notify.h"
#include "rdzv/server.h"
#include "store/memory/account.h"

#ifndef RDZV_VERSION
#error "the build gives RDZV_VERSION"
#endif

extern char **environ;

/* Sockets that systemd passed on (socket activation). 0, or -1 after it logged why not. */
static int adopt_sockets(struct config *config)
{
    const struct notify_env env = {
        .listen_pid = getenv("LISTEN_PID"),
        .listen_fds = getenv("LISTEN_FDS"),
        .listen_fdnames = getenv("LISTEN_FDNAMES"),
        .self = getpid(),
        .first_fd = NOTIFY_FIRST_FD,
    };
    struct notify_socket *sockets = NULL;
    size_t count = 0;
    int bad_fd = -1, err = notify_take_sockets(&env, &sockets, &count, &bad_fd);

    if (err < 0) {
        log_event(LOG_ERROR, "bad_socket", log_i64("fd", bad_fd), log_errno("reason", err),
                  log_str("hint", "pass listening TCP sockets alone (ListenStream=ADDRESS:PORT)"));
        return -1;
    }
    for (size_t i = 0; i < count; i++)
        config_adopt_socket(config, sockets[i].fd, sockets[i].host, sockets[i].port,
                            sockets[i].name);
    free(sockets);
    return 0;
}

static void log_somaxconn(uint64_t *out)
{
    FILE *f = fopen("/proc/sys/net/core/somaxconn", "re");
    unsigned long v;

    if (f != NULL && fscanf(f, "%lu", &v) == 1)
        *out = v;
    if (f != NULL)
        fclose(f);
}

/* As many descriptors as we may have: each peer takes one, a legacy one two. */
static void raise_nofile(uint64_t *out)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        log_event(LOG_WARN, "rlimit_failed", log_errno("reason", errno));
    getrlimit(RLIMIT_NOFILE, &limit);
    *out = limit.rlim_cur;
}

static void log_start(const struct config *config)
{
    uint64_t backlog = 0, nofile = 0;

    log_somaxconn(&backlog);
    raise_nofile(&nofile);
    log_event(LOG_INFO, "starting", log_str("version", RDZV_VERSION), log_i64("pid", getpid()),
              log_str("mode", config_is_relay(config) ? "relay"
                              : config->etcd_mode     ? "etcd"
                                                      : "rdzvd"),
              log_u64("nofile", nofile), log_u64("backlog", backlog));
    FOREACH(const struct config_note, note, config->notes, config->note_count) {
        bool ignored = note->kind == CONFIG_NOTE_IGNORED;

        log_event(ignored ? LOG_INFO : LOG_WARN, ignored ? "flag_ignored" : "config_warning",
                  log_str("flag", note->flag), log_str("reason", note->why));
    }
    if (!config_is_relay(config) && config->journal.url == NULL &&
        (config->data_dir == NULL || config->sync == CONFIG_SYNC_OFF))
        log_event(LOG_INFO, "memory_only",
                  log_str("reason", config->data_dir == NULL
                                        ? "without --data-dir, a restart starts empty, so the "
                                          "agents behind relays end"
                                        : "with --sync=off, a restart starts empty"));
}

static void limit_memory(const struct config *config)
{
    const struct memory_limit limit =
        memory_limit_find(config->limits.memory_max, "", memory_of_machine());

    account_set_limit(limit.bytes < SIZE_MAX ? (size_t)limit.bytes : 0);
    account_keep_spare();
    log_event(LOG_INFO, "memory_limit", log_u64("bytes", limit.bytes),
              log_str("reason", limit.reason));
}

/* A server closes the sockets that systemd passed to the daemon, but the next server
 * (SERVER_RESTART) needs these sockets as well, so duplicate them. False with errno if no
 * descriptor is left. */
static bool keep_sockets(struct config *config)
{
    FOREACH(struct listen_spec, spec, config->listeners, config->listener_count) {
        if (spec->fd < 0)
            continue;
        spec->kept_fd = fcntl(spec->fd, F_DUPFD_CLOEXEC, 0);
        if (spec->kept_fd < 0)
            return false;
    }
    return true;
}

/* From the beginning of a server to its end. */
static int run_server(struct config *config, struct server *server)
{
    int code = 1;

    if (server_init(server, config) == 0) {
        const char *notify = getenv("NOTIFY_SOCKET");

        log_event(LOG_INFO, "ready", log_str("msg", "ready to serve client requests"));
        if (notify_send(notify, "READY=1\nSTATUS=serving") < 0)
            log_event(LOG_WARN, "notify_failed", log_str("socket", notify));
        code = server_run(server);
    }
    server_fini(server);
    return code;
}

/* Starts a new server when a replica's state is outdated. */
static int run_servers(struct config *config, struct server *server)
{
    int code;

    if (config->journal.url == NULL)
        return run_server(config, server);
    do {
        if (!keep_sockets(config)) {
            log_event(LOG_ERROR, "bad_socket", log_errno("reason", errno));
            return 1;
        }
        code = run_server(config, server);
        for (size_t i = 0; i < config->listener_count; i++) {
            if (config->listeners[i].fd >= 0)
                config->listeners[i].fd = config->listeners[i].kept_fd;
        }
    } while (code == SERVER_RESTART);
    return code;
}

static int run_daemon(struct config *config)
{
    struct server *server;
    int code;

    const struct log_options options = {
        .format = config->log_format, .level = config->log_level, .fd = 2};

    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN); /* these three never end rdzvd, also while it starts */
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    log_init(&options);
    if (adopt_sockets(config) < 0)
        return 1;
    server = calloc(1, sizeof *server);
    if (server == NULL)
        return 1;
    log_start(config);
    /* malloc() puts small freed blocks into "fast bins", and joins all these blocks at once when it
     * needs a large piece: with a million blocks that takes a quarter of a second. Without fast
     * bins malloc() joins each block with its neighbours in free(). */
    mallopt(M_MXFAST, 0);
    limit_memory(config);
    code = run_servers(config, server);
    free(server);
    return code;
}

/* --- --check-config. --- */

/* rdzvd makes the directory, and none above it. */
static bool check_data_dir(const char *path)
{
    char copy[PATH_MAX], place[PATH_MAX + 2];

    snprintf(copy, sizeof copy, "%s", path);
    snprintf(place, sizeof place, "%s/.", access(path, F_OK) == 0 ? path : dirname(copy));
    if (access(place, R_OK | W_OK | X_OK) == 0)
        return true;
    log_event(LOG_ERROR, "data_dir_failed", log_str("data_dir", path), log_errno("reason", errno),
              log_str("detail", place));
    return false;
}

/* What a start would meet on this machine: files, the place of its data, and memory. Makes nothing,
 * and binds no address. False: the log says why. */
static bool check_machine(const struct config *config)
{
    struct certificate certificates[] = {
        certificate_of_server(&config->tls),
        certificate_of_client(&config->upstream_tls, "the store", "--upstream-"),
        certificate_of_client(&config->journal.tls, "etcd", "--journal-")};
    uint64_t limit = config->limits.memory_max;
    uint64_t machine = memory_limit_find(CONFIG_AUTO, "", memory_of_machine()).bytes;
    bool ok = config->data_dir == NULL;

    log_init(&(struct log_options){
        .format = config->log_format, .level = LOG_WARN, .fd = STDERR_FILENO});
    ok = ok || check_data_dir(config->data_dir);
    for (size_t i = 0; i < sizeof certificates / sizeof *certificates; i++) {
        ok = certificate_start(&certificates[i]) == 0 && ok;
        certificate_fini(&certificates[i]);
    }
    http_check_token_files(config);
    if (limit == CONFIG_AUTO || machine == 0 || limit / 100 <= machine / MEMORY_SHARE_PERCENT)
        return ok;
    log_event(LOG_ERROR, "memory_limit", log_u64("bytes", limit),
              log_str("reason", "--memory-limit is above the memory of this machine"));
    return false;
}

int main(int argc, char **argv)
{
    struct config config;
    struct config_error error;
    int code = 0;

    if (!config_parse(argc, argv, environ, &config, &error)) {
        fprintf(stderr, "rdzvd: %s\n", error.text);
        return error.exit_code;
    }
    switch (config.action) {
    case CONFIG_HELP: /* called as etcd, it answers every Host header */
        fputs(config.host_whitelist.count > 0 ? config_help_of_etcd : config_help, stdout);
        break;
    case CONFIG_VERSION:
        config_write_version(stdout, &config, RDZV_VERSION);
        break;
    case CONFIG_CHECK:
        code = check_machine(&config) ? 0 : 1;
        config_write_check(stdout, &config, code == 0);
        break;
    case CONFIG_CHECK_DATA:
        code = data_dir_check(config.check_data, stdout) ? 0 : 1;
        break;
    case CONFIG_CHECK_HEALTH:
        code = check_health(config.check_health, stdout) ? 0 : 1;
        break;
    case CONFIG_RUN:
        code = run_daemon(&config);
        break;
    }
    config_free(&config);
    return code;
}
