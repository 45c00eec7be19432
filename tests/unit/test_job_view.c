/* deploy/kube/job_view: which settings a container comes to, from which source, and which store it
 * meets. */
#include "deploy/kube/job_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct yaml_file file;
static struct diag diag;
static struct kube_bundle bundle;
static struct job_view view;

static void look(const char *text)
{
    if (!yaml_file_parse(&file, "t.yaml", text, strlen(text), &diag))
        fail_msg("%s: %s", text, diag.entries[0].text);
    kube_add_file(&bundle, &file);
    job_find(&view, &bundle);
}

static int end(void **state)
{
    (void)state;
    kube_free(&bundle);
    yaml_file_free(&file);
    diag_free(&diag);
    view = (struct job_view){0};
    return 0;
}

/* The only run of a pod with this command and these variables, in flow style. */
static const struct job_run *run_of(const char *command, const char *env)
{
    char text[4096];

    snprintf(text, sizeof text,
             "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ml}\nspec:\n  containers:\n"
             "  - name: c\n    command: %s\n    env: %s\n",
             command, env);
    look(text);
    if (view.count != 1)
        fail_msg("%zu runs of %s", view.count, command);
    return view.runs[0];
}

static void options_are_read_in_every_spelling(void **state)
{
    static const char *const commands[] = {
        "[torchrun, --rdzv_id=x, --rdzv-backend, c10d, --nnodes, '2:4', t.py, --rdzv_id=y]",
        "[torchrun, --rdzv-id, x, --rdzv_backend=c10d, --nn=2:4, t.py]",
        "[python3, -u, -m, torch.distributed.run, --rdzv_id=x, --rdzv_backend=c10d, --nnodes=2:4]",
        "[sh, -c, 'cd /w && exec torchrun --nnodes 2:4 --rdzv-backend=c10d --rdzv-id \"x\" t.py']",
        "[bash, -euxo, pipefail, -c, \"A='--nnodes=2:4 --rdzv-id=x'\\ntorchrun $A "
        "--rdzv-backend=c10d t.py\"]",
        "[/bin/bash, -lc, \"torchrun \\\\\\n --nnodes=2:4 \\\\\\n --rdzv-backend=c10d "
        "--rdzv-id=x\"]",
        "[sh, -c, 'PET_RDZV_ID=x PET_NNODES=2:4 torchrun --rdzv_backend=c10d t.py']",
        "[sh, -c, 'export PET_RDZV_ID=\"x\"; torchrun --nnodes=2:4 --rdzv_backend=c10d t.py']",
        "[sh, -c, \"exec bash -c 'torchrun --nnodes=2:4 --rdzv_backend=c10d --rdzv_id=x t.py'\"]",
        "[sh, -c, 'C=\"torchrun --nnodes=2:4 --rdzv_backend=c10d --rdzv_id=x\"; eval $C']",
        "[conda, run, -n, e, --live-stream, torchrun, --nnodes=2:4, --rdzv_backend=c10d, "
        "--rdzv_id=x, t.py]",
        "[uv, run, --module, torch.distributed.run, --nnodes=2:4, --rdzv_backend=c10d, "
        "--rdzv_id=x, t.py]",
    };

    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const struct job_run *r = run_of(commands[i], "[]");

        if (strcmp(r->settings[TORCHRUN_RDZV_ID].value.text, "x") != 0 || r->nodes_min != 2 ||
            r->nodes_max != 4 || strcmp(r->backend, "c10d") != 0 || r->args->opaque)
            fail_msg("%s: id %s, backend %s, %ld:%ld", commands[i],
                     r->settings[TORCHRUN_RDZV_ID].value.text, r->backend, r->nodes_min,
                     r->nodes_max);
        end(state);
    }
}

static void a_command_that_only_mentions_torchrun_is_no_run(void **state)
{
    static const char *const commands[] = {
        "[python, train.py, --launcher, torchrun]",
        "[uv, run, --frozen, train.py, --launcher, torchrun]",
        "[sh, -c, 'echo torchrun --rdzv_id=1']",
        "[sh, -c, 'pip install torchrun']",
        "[sh, -c, \"cat <<E\\ntorchrun\\nE\"]",
        "[sh, -c, '# torchrun']",
        "[sh, -c, 'echo \"torchrun --rdzv_id=1\"']",
        "[python, train.py, --rdzv]",
        "[]",
    };

    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char text[512];

        snprintf(text, sizeof text,
                 "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - {name: c, command: %s}\n",
                 commands[i]);
        look(text);
        if (view.count != 0)
            fail_msg("%s is taken for torchrun", commands[i]);
        end(state);
    }
}

static void the_command_line_wins(void **state)
{
    const struct job_run *r =
        run_of("[torchrun, --rdzv_backend=c10d, t.py]", "[{name: PET_RDZV_BACKEND, value: etcd-v2},"
                                                        " {name: PET_RDZV_ID, value: one},"
                                                        " {name: PET_RDZV_ID, value: two}]");

    (void)state;
    assert_string_equal(r->backend, "c10d");
    assert_int_equal(r->settings[TORCHRUN_RDZV_BACKEND].from, JOB_FROM_FLAG);
    assert_string_equal(r->settings[TORCHRUN_RDZV_BACKEND].weaker->value.text, "etcd-v2");
    assert_string_equal(r->settings[TORCHRUN_RDZV_ID].value.text, "two");
    assert_int_equal(r->settings[TORCHRUN_RDZV_ID].from, JOB_FROM_ENV);
}

static void variables_are_replaced_by_who_replaces_them(void **state)
{
    static const struct {
        const char *command, *text;
        bool known;
    } cases[] = {
        {"[torchrun, '--rdzv_id=$(A)-$(N)', t.py]", "one-ml", true},
        {"[torchrun, '--rdzv_id=$A', t.py]", "$A", true}, /* no shell */
        {"[torchrun, '--rdzv_id=$$(A)', t.py]", "$(A)", true},
        {"[torchrun, '--rdzv_id=$(B)', t.py]", "two-one", true},
        {"[torchrun, '--rdzv_id=$(U).x', t.py]", "$(U).x", false},
        {"[sh, -c, 'torchrun --rdzv_id=${A}$B t.py']", "onetwo-one", true},
        {"[sh, -c, 'A=three; torchrun --rdzv_id=$A t.py']", "three", true},
        {"[sh, -c, 'A=three; torchrun --rdzv_id=$(A) t.py']", "one", true}, /* not by the shell */
        {"[sh, -c, 'torchrun --rdzv_id=$(date) t.py']", "$(date)", false},
        {"[sh, -c, 'torchrun --rdzv_id=$NOT t.py']", "$NOT", false},
        {"[sh, -c, \"torchrun --rdzv_id='$A' t.py\"]", "$A", true},
        {"[sh, -c, 'X=$X$X$X$X$X$X; torchrun --rdzv_id=$X t.py']", NULL, false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct job_run *r = run_of(
            cases[i].command, "[{name: A, value: one}, {name: B, value: 'two-$(A)'},"
                              " {name: N, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}},"
                              " {name: U, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}]");
        const struct job_value *id = &r->settings[TORCHRUN_RDZV_ID].value;

        if (id->known != cases[i].known ||
            (cases[i].text != NULL && strcmp(id->text, cases[i].text) != 0))
            fail_msg("%s: %s, %d", cases[i].command, id->text, id->known);
        if (strstr(cases[i].command, "$(U)") != NULL)
            assert_string_equal(id->fields[0], "metadata.uid");
        end(state);
    }
}

/* The manifest names no namespace: the user who applies it does. Nothing else may be missing. */
static void a_namespace_may_be_left_open(void **state)
{
    static const struct {
        const char *value;
        bool lacks_namespace;
    } cases[] = {
        {"$(N).train", true}, {"$(INDIRECT)", true}, {"$(N).$(U)", false},
        {"$(U)", false},      {"train", false},
    };
    char text[2048];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct job_value *id;

        snprintf(text, sizeof text,
                 "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
                 "  - name: c\n    command: [torchrun, --rdzv_id=%s, t.py]\n"
                 "    env: [{name: N, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}},"
                 " {name: U, valueFrom: {fieldRef: {fieldPath: metadata.uid}}},"
                 " {name: INDIRECT, value: 'a.$(N)'}]\n",
                 cases[i].value);
        look(text);
        id = &view.runs[0]->settings[TORCHRUN_RDZV_ID].value;
        if (id->lacks_namespace != cases[i].lacks_namespace ||
            id->known != (strcmp(cases[i].value, "train") == 0))
            fail_msg("%s: %s, %d, %d", cases[i].value, id->text, id->known, id->lacks_namespace);
        end(state);
    }
}

static void unknown_words_make_it_opaque(void **state)
{
    (void)state;
    assert_true(run_of("[sh, -c, 'torchrun $MORE t.py']", "[]")->args->opaque);
    end(state);
    assert_true(run_of("[sh, -c, 'torchrun \"$@\"']", "[]")->args->opaque);
    end(state);
    assert_false(run_of("[sh, -c, 'torchrun --nnodes=2 ${DIR}/t.py $REST']", "[]")->args->opaque);
}

static void values_have_their_bytes(void **state)
{
    const struct job_run *r =
        run_of("[sh, -c, 'torchrun --rdzv-id \"a b\" --rdzv-conf=k=v t.py']", "[]");
    const struct arg_word *id = &r->settings[TORCHRUN_RDZV_ID].written;
    const struct arg_word *conf = &r->settings[TORCHRUN_RDZV_CONF].written;

    (void)state;
    assert_memory_equal(id->node->text + id->start, "\"a b\"", id->end - id->start);
    assert_int_equal(id->end - id->start, 5);
    assert_memory_equal(conf->node->text + conf->start, "k=v", conf->end - conf->start);
    assert_int_equal(conf->end - conf->start, 3);
}

static void launchers_hand_options_on(void **state)
{
    static const char *const commands[] = {
        "[accelerate, launch, --multi_gpu, --rdzv_backend=c10d, '--rdzv_endpoint=a:1', t.py]",
        "[sh, -c, 'uv run x --rdzv_backend=c10d --rdzv_endpoint=a:1 t.py']",
    };

    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const struct job_run *r = run_of(commands[i], "[]");

        if (strcmp(r->backend, "c10d") != 0 || strcmp(r->host, "a") != 0 || r->port != 1 ||
            r->args->opaque == r->args->is_accelerate)
            fail_msg("%s: backend %s, host %s, port %ld", commands[i], r->backend, r->host,
                     r->port);
        end(state);
    }
}

/* Scripts that give $H a value in branches, and the endpoint that is known then; NULL: none. */
static void branches_are_those_of_one_pod_or_unknown(void **state)
{
    static const struct {
        const char *script, *endpoint;
    } cases[] = {
        {"if a; then H=localhost; else H=m; fi", "m:1"},
        {"if a; then H=m; else H=localhost; fi", "m:1"},
        {"if a; then\\n  H=m\\nelse\\n  H=$(hostname -f)\\nfi", "m:1"},
        {"H=m; if a; then H=localhost; fi", "m:1"},
        {"if a; then H=m; elif b; then H=m; fi", "m:1"},
        {"if a; then H=x; H=m; fi", "m:1"},
        {"if a; then H=x; fi; if b; then H=m; fi", "m:1"},
        {"if a; then if b; then H=localhost; else H=m; fi; fi", "m:1"},
        {"if a; then H=localhost; fi", "localhost:1"},
        {"if a; then H=m; else H=n; fi", NULL},
        {"if a; then if b; then H=m; else H=n; fi; fi", NULL},
        {"if a; then H=m; elif b; then H=m; else export H=n; fi", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[512];
        const struct job_value *v;

        snprintf(command, sizeof command,
                 "[sh, -c, \"%s; torchrun --rdzv-backend=c10d --rdzv-endpoint=$H:1 t.py\"]",
                 cases[i].script);
        v = &run_of(command, "[]")->settings[TORCHRUN_RDZV_ENDPOINT].value;
        if (v->known != (cases[i].endpoint != NULL) ||
            (v->known && strcmp(v->text, cases[i].endpoint) != 0))
            fail_msg("%s: endpoint %s, known: %d", cases[i].script, v->text, v->known);
        end(NULL);
    }
}

static void an_endpoint_may_be_known_in_part(void **state)
{
    const struct job_run *r = run_of("[sh, -c, 'torchrun --rdzv_endpoint=a:$P t.py']", "[]");

    assert_string_equal(r->host, "a");
    assert_int_equal(r->port, -1);
    end(state);
    r = run_of("[sh, -c, 'torchrun --rdzv_endpoint=$(first $HOSTS):23456 t.py']", "[]");
    assert_string_equal(r->host, "");
    assert_int_equal(r->port, 23456);
}

/* What a value that replaces this one replaces: without the quotes around the whole word. */
static void values_are_where_they_can_be_replaced(void **state)
{
    static const struct {
        const char *command, *bytes;
    } cases[] = {
        {"[torchrun, --rdzv_id=x, t.py]", "x"},
        {"[torchrun, --rdzv_id, x, t.py]", "x"},
        {"[sh, -c, 'torchrun --rdzv_id=\"x\" t.py']", "\"x\""},
        {"[sh, -c, 'torchrun \"--rdzv_id=x\" t.py']", "x"},
        {"[sh, -c, 'F=\"--nnodes=2 --rdzv_id=x\"; torchrun $F t.py']", "x"},
        {"[sh, -c, \"bash -c 'torchrun --rdzv_id=x'\"]", "x"},
        {"[sh, -c, \"torchrun --rdzv_id=x\\\\\\n t.py\"]", "x"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct job_run *r = run_of(cases[i].command, "[]");
        const struct arg_word *s = &r->settings[TORCHRUN_RDZV_ID].written;

        if (s->end - s->start != strlen(cases[i].bytes) ||
            strncmp(s->node->text + s->start, cases[i].bytes, s->end - s->start) != 0)
            fail_msg("%s: %.*s", cases[i].command, (int)(s->end - s->start),
                     s->node->text + s->start);
        assert_string_equal(s->text, "x");
        end(state);
    }
}

static void scripts_in_config_maps_stand_apart(void **state)
{
    (void)state;
    look("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n"
         "  run.sh: |\n    torchrun --rdzv_endpoint=a:1 t.py\n  note: about torch\n");
    assert_int_equal(view.count, 0);
    assert_int_equal(view.all_count, 1);
    assert_string_equal(view.runs[0]->host, "a");
    assert_string_equal(job_run_object(view.runs[0])->name, "m");
}

static void endpoints_are_split_as_torch_does(void **state)
{
    static const struct {
        const char *endpoint, *host;
        long port;
    } cases[] = {
        {"h:1", "h", 1},           {"h", "h", 29400},
        {"'[::1]:5'", "[::1]", 5}, {"'[fe80::1]'", "[fe80::1]", 29400},
        {"' h:2 '", "h", 2},       {"':3'", "localhost", 3},
        {"h:x", "h", -1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char env[256];
        const struct job_run *r;

        snprintf(env, sizeof env,
                 "[{name: PET_RDZV_BACKEND, value: c10d}, {name: PET_RDZV_ENDPOINT, value: %s}]",
                 cases[i].endpoint);
        r = run_of("[torchrun, t.py]", env);
        assert_string_equal(r->host, cases[i].host);
        assert_int_equal(r->port, cases[i].port);
        end(state);
    }
}

static void stores_are_found_behind_services(void **state)
{
    static const char job[] =
        "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: ml}\n"
        "spec: {selector: {a: b}, ports: [{port: 29400}]}\n---\n"
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: st, namespace: ml}\n"
        "spec: {serviceName: s, template: {metadata: {labels: {a: b}}, spec: {containers: "
        "[{name: x, image: 'h:5000/p/rdzvd:1@sha256:00', args: "
        "['--listen=0.0.0.0:29400']}]}}}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ml}\nspec:\n  containers:\n"
        "  - {name: c, command: [torchrun, --rdzv_backend=c10d, '--rdzv_endpoint=%s', t.py]}\n";
    static const char *const hosts[] = {"s",      "s:29400",       "s.ml", "s.ml.svc.cluster.local",
                                        "st-0.s", "st-12.s.ml.svc"};
    static const char *const strangers[] = {"t", "s.other", "st-x.s", "st-0", "sx", "1.2.3.4"};

    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        char text[2048];

        snprintf(text, sizeof text, job, hosts[i]);
        look(text);
        assert_int_equal(view.count, 1);
        assert_int_equal(view.store_count, 1);
        if (view.runs[0]->store != &view.stores[0])
            fail_msg("%s does not lead to the store", hosts[i]);
        assert_false(view.runs[0]->hosted);
        end(state);
        snprintf(text, sizeof text, job, strangers[i]);
        look(text);
        if (view.runs[0]->store != NULL)
            fail_msg("%s leads to the store", strangers[i]);
        end(state);
    }
}

#define RELAY_STORE                                                                     \
    "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: ml}\n"               \
    "spec: {selector: {a: b}, ports: [{port: 29400}]}\n---\n"                           \
    "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: st, namespace: ml}\n"     \
    "spec: {serviceName: s, template: {metadata: {labels: {a: b}}, spec: {containers: " \
    "[{name: x, image: rdzvd, args: ['--listen=0.0.0.0:29400']}]}}}\n---\n"
#define RELAY_POD                                                                            \
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ml, labels: {c: d}}\nspec:\n" \
    "  initContainers:\n"                                                                    \
    "  - {name: r, image: rdzvd, restartPolicy: Always, args: [%s],\n"                       \
    "     env: [{name: HOST, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]}\n"         \
    "  containers:\n"                                                                        \
    "  - {name: c, command: [torchrun, --rdzv_backend=c10d, '--rdzv_endpoint=%s', t.py]}\n"

static void relays_lead_to_their_store(void **state)
{
    static const struct {
        const char *args, *host;
        long port;
        bool known, well_formed, store;
    } cases[] = {
        {"'--upstream=s:29400'", "s", 29400, true, true, true},
        {"--upstream, 's.ml.svc:29400,t:1'", "s.ml.svc", 29400, true, true, true},
        {"'--upstream=t:1,st-0.s:29400', --space=x", "t", 1, true, true, true},
        {"'--upstream=t:29400'", "t", 29400, true, true, false},
        {"'--upstream=s'", "", -1, true, false, false},
        {"'--upstream=s:'", "s", 0, true, false, false},
        {"'--upstream=s:70000'", "s", 70000, true, false, false},
        {"'--upstream=:29400'", "", 29400, true, false, false},
        {"'--upstream=$(HOST):29400'", "$(HOST)", 29400, false, true, false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job_upstream u;
        struct job_setting space;
        char text[2048];

        snprintf(text, sizeof text, RELAY_STORE RELAY_POD, cases[i].args, "localhost:29400");
        look(text);
        assert_int_equal(view.store_count, 2);
        assert_int_equal(view.stores[1].kind, JOB_STORE_RELAY);
        assert_true(job_relay_upstream(&view, &view.stores[1], 0, &u));
        if (strcmp(u.host, cases[i].host) != 0 || u.known != cases[i].known ||
            u.well_formed != cases[i].well_formed || u.port != cases[i].port)
            fail_msg("%s: %s, %ld, %d, %d", cases[i].args, u.host, u.port, u.known, u.well_formed);
        if (job_store_behind(&view.stores[1]) != (cases[i].store ? &view.stores[0] : NULL))
            fail_msg("%s leads elsewhere", cases[i].args);
        assert_int_equal(job_relay_upstream(&view, &view.stores[1], 1, &u),
                         strchr(cases[i].args, ',') != NULL && strstr(cases[i].args, "t:1"));
        assert_false(job_relay_upstream(&view, &view.stores[1], 2, &u));
        assert_int_equal(job_relay_space(&view, &view.stores[1], &space),
                         strstr(cases[i].args, "--space") != NULL);
        assert_string_equal(space.value.text, strstr(cases[i].args, "--space") ? "x" : "default");
        assert_ptr_equal(view.runs[0]->store, &view.stores[1]);
        assert_ptr_equal(job_store_behind(&view.stores[0]), &view.stores[0]);
        assert_false(job_relay_upstream(&view, &view.stores[0], 0, &u));
        end(state);
    }
    assert_null(job_store_behind(NULL));
}

/* A replica passes clients on while it does not lead: a store, however its words are given. */
static void replicas_that_pass_on_are_stores(void **state)
{
    static const char *const args[] = {
        "'--upstream=s:29400', '--journal=etcd://e:2379/n'",
        "--journal, 'etcd://e:2379/n', --upstream, 's:29400'",
    };

    for (size_t i = 0; i < sizeof args / sizeof *args; i++) {
        char text[2048];

        snprintf(text, sizeof text, RELAY_STORE RELAY_POD, args[i], "localhost:29400");
        look(text);
        assert_int_equal(view.store_count, 2);
        assert_int_equal(view.stores[1].kind, JOB_STORE_RDZVD);
        assert_ptr_equal(job_store_behind(&view.stores[1]), &view.stores[1]);
        end(state);
    }
}

/* Other pods do not reach a relay: who is sent to a training pod meets in that pod. */
static void a_relay_serves_its_own_pod(void **state)
{
    char text[2048];

    (void)state;
    snprintf(text, sizeof text,
             "apiVersion: v1\nkind: Service\nmetadata: {name: t, namespace: ml}\n"
             "spec: {selector: {c: d}, ports: [{port: 29400}]}\n---\n" RELAY_POD,
             "'--upstream=s:29400'", "t:29400");
    look(text);
    assert_int_equal(view.store_count, 1);
    assert_null(view.runs[0]->store);
    assert_true(view.runs[0]->hosted);
    assert_null(job_server_in(&view, view.runs[0]->container->pods));
    assert_ptr_equal(job_store_in(&view, view.runs[0]->container->pods), &view.stores[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(options_are_read_in_every_spelling, end),
        cmocka_unit_test_teardown(a_command_that_only_mentions_torchrun_is_no_run, end),
        cmocka_unit_test_teardown(the_command_line_wins, end),
        cmocka_unit_test_teardown(variables_are_replaced_by_who_replaces_them, end),
        cmocka_unit_test_teardown(a_namespace_may_be_left_open, end),
        cmocka_unit_test_teardown(unknown_words_make_it_opaque, end),
        cmocka_unit_test_teardown(values_have_their_bytes, end),
        cmocka_unit_test_teardown(launchers_hand_options_on, end),
        cmocka_unit_test_teardown(branches_are_those_of_one_pod_or_unknown, end),
        cmocka_unit_test_teardown(an_endpoint_may_be_known_in_part, end),
        cmocka_unit_test_teardown(values_are_where_they_can_be_replaced, end),
        cmocka_unit_test_teardown(scripts_in_config_maps_stand_apart, end),
        cmocka_unit_test_teardown(endpoints_are_split_as_torch_does, end),
        cmocka_unit_test_teardown(stores_are_found_behind_services, end),
        cmocka_unit_test_teardown(relays_lead_to_their_store, end),
        cmocka_unit_test_teardown(replicas_that_pass_on_are_stores, end),
        cmocka_unit_test_teardown(a_relay_serves_its_own_pod, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
