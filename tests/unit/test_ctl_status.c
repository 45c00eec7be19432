/* What rdzvctl makes of a status: the missing first, on one screen, of 3 nodes and of 512; and JSON
 * as YAML. The answers are as /rdzv/v1/status gives them. */
#include "client/ctl/print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOW "2026-11-20T20:58:18.000000Z"

static char *printed;
static size_t printed_len;

/* `asked`: the run that the command names; NULL: none. */
static void show_asked(const char *json, enum ctl_output output, const char *asked)
{
    const struct ctl ctl = {.output = output, .args = {asked}, .arg_count = asked != NULL};
    cJSON *run = cJSON_Parse(json);
    FILE *out = open_memstream(&printed, &printed_len);

    assert_non_null(run);
    status_print_run(out, &ctl, "team-a", run, text_time_us(NOW));
    fclose(out);
    cJSON_Delete(run);
}

static void show(const char *json, enum ctl_output output)
{
    show_asked(json, output, NULL);
}

static void done(const char *want)
{
    assert_string_equal(printed, want);
    free(printed);
}

static void an_order_says_what_ends_it(void **state)
{
    static const struct ctl ctl = {.output = OUTPUT_TABLE};
    cJSON *space = cJSON_Parse(
        "{\"name\":\"s\",\"orders\":[{\"order\":\"evict\",\"node\":\"a\",\"ends\":\"gone\"},"
        "{\"order\":\"drain\",\"node\":\"b\",\"until\":\"2026-11-20T21:00:18Z\"},"
        "{\"order\":\"hold\",\"run\":\"J\",\"nodes\":8}]}");
    FILE *out = open_memstream(&printed, &printed_len);

    (void)state;
    status_print_orders(out, &ctl, space, text_time_us("2026-11-20T21:00:00Z"));
    fclose(out);
    cJSON_Delete(space);
    done("ORDERS of operators in the space s\n"
         "  ORDER  ABOUT  UNTIL NODES  ENDS    RULES  FOR  BY  REASON\n"
         "  evict  a      -            gone    -      -    -   -\n"
         "  drain  b      -            in 18s  -      -    -   -\n"
         "  hold   J      8            -       -      -    -   -\n");
}

static void missing_nodes_come_first(void **state)
{
    (void)state;
    show(
        "{\"id\":\"JOB\",\"backend\":\"c10d\",\"state\":\"last_call\",\"since\":"
        "\"2026-11-20T20:58:08Z\",\"round\":2,\"min\":2,\"max\":4,\"expect\":4,\"participants\":2,"
        "\"waiting\":1,\"spares\":0,\"silent\":1,\"seconds_left\":12.3,\"agents\":3,"
        "\"agents_waiting\":0,\"nodes\":["
        "{\"addr\":\"node-a\",\"pid\":41,\"local_id\":0,\"role\":\"participant\"},"
        "{\"addr\":\"node-c\",\"pid\":41,\"local_id\":0,\"role\":\"waiting\"},"
        "{\"addr\":\"node-d\",\"pid\":41,\"local_id\":0,\"role\":\"participant\",\"silent\":true}],"
        "\"missing\":[{\"addr\":\"node-b\",\"pid\":41,\"local_id\":0,\"rank\":3,\"why\":"
        "\"disconnected\",\"since\":\"2026-11-20T20:56:08Z\",\"peer\":\"10.0.0.12:40312\"}],"
        "\"missing_count\":2,\"hints\":[\"look here\"],\"rounds\":["
        "{\"round\":2,\"began\":\"2026-11-20T20:58:08Z\",\"nodes\":2},"
        "{\"round\":1,\"began\":\"2026-11-20T20:00:00Z\",\"nodes\":4,\"seconds\":2.31,\"lasted\":"
        "95,"
        "\"why\":"
        "\"node-b (pid 41) was lost\"}],"
        "\"waits_count\":7,\"workers\":8,\"workers_connected\":7,\"absent_keys\":["
        "{\"key\":\"/default_pg/0//cuda//0\",\"waiters\":6,\"what\":\"NCCL's id\","
        "\"written_by\":\"rank 0 of default_pg, on node-a (pid 41), at its first collective\"},"
        "{\"key\":\"/default_pg/0//x\",\"waiters\":1}],"
        "\"barriers\":[{\"key\":\"worker_count\",\"arrived\":7,\"size\":8,\"absent\":[3],"
        "\"absent_nodes\":[\"node-b\"]}]}",
        OUTPUT_TABLE);
    done("RUN JOB  last call, 12 s left, round 2, for 10s  (c10d, space team-a)\n"
         "  2 of 4 nodes (--nnodes=2:4), 1 waits for the next round, 1 silent\n"
         "  MISSING: 2\n"
         "    NODE    RANK  WHY           FOR    PID  LAST SEEN AT\n"
         "    node-b  3     disconnected  2m10s  41   10.0.0.12:40312\n"
         "    1 more has not been seen yet\n"
         "  WAITING: 7 clients for keys that are not written yet (rdzvctl waiters); 7 of 8 workers "
         "are connected\n"
         "    CLIENTS  WAIT FOR THE KEY        VALUE      WRITTEN BY\n"
         "    6        /default_pg/0//cuda//0  NCCL's id  rank 0 of default_pg, on node-a (pid "
         "41), at "
         "its first collective\n"
         "    1        /default_pg/0//x        -          -\n"
         "  BARRIER worker_count: 7 of 8 are there; absent: rank 3 of node-b\n"
         "  HINT: look here\n"
         "  SILENT: node-d\n"
         "  HERE: node-a\n"
         "  WAIT FOR THE NEXT ROUND: node-c\n"
         "  EARLIER ROUNDS\n"
         "    ROUND  NODES  MET IN  LASTED  BEGAN       WHY IT ENDED\n"
         "    1      4      2.3s    1m35s   58m18s ago  node-b (pid 41) was lost\n");
}

/* An order of an operator, or the end of the last run, keeps the agents waiting. */
static void a_run_says_what_it_waits_for(void **state)
{
    static const char *const rows[][2] = {
        {"\"joining\",\"held\":true", "RUN J  held, round 0"},
        {"\"empty\",\"agents_waiting\":1",
         "0 nodes, 1 agent waits until another host begins the run, none missing"},
        {"\"closed\",\"agents_waiting\":2",
         "0 nodes, 2 agents wait until the last agent of the closed run has ended, none missing"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char json[200];

        snprintf(json, sizeof json, "{\"id\":\"J\",\"state\":%s}", rows[i][0]);
        show(json, OUTPUT_TABLE);
        assert_non_null(strstr(printed, rows[i][1]));
        free(printed);
    }
}

/* What an older store, or one that knows little, leaves out. */
static void members_may_be_absent(void **state)
{
    (void)state;
    show("{\"id\":\"J\\u001b[2J\"}", OUTPUT_TABLE);
    done("RUN J\\x1b[2J  , round 0  (, space team-a)\n"
         "  0 nodes, none missing\n");
    show("{\"id\":\"J\",\"missing_count\":1,\"missing\":[{\"why\":\"left\"}],\"nodes\":[{}],"
         "\"barriers\":[{}],\"hints\":[7],\"rounds\":[{\"why\":\"x\"}],\"absent_keys\":[{}]}",
         OUTPUT_WIDE);
    free(printed);
}

/* Workers that have never come to their store wait for no key, and workers in a collective neither.
 * A status counts only workers that have not come for long. */
static void workers_that_are_not_connected_are_counted(void **state)
{
    static const struct {
        const char *since, *connected, *asked;
        const char *says; /* NULL: nothing */
    } rows[] = {
        {"57:40", "6", NULL, "6 of 8 are connected: have the others called init_process_group()?"},
        {"57:50", "6", NULL, NULL},
        {"57:40", "6", "J", "6 of 8 are connected: have the others called init_process_group()?"},
        {"57:50", "6", "J", NULL},
        {"57:40", "0", NULL,
         "0 of 8 are connected: have they called init_process_group(), with torchrun's MASTER_ADDR "
         "and MASTER_PORT?"},
        {"57:40", "8", NULL, NULL},
        {"57:40", "8", "J",
         "8 of 8 are connected, and none waits for a key. If the job stands still, one is outside "
         "the collective of the others, or their network fails."},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char json[500], want[400] = "";

        snprintf(json, sizeof json,
                 "{\"id\":\"J\",\"state\":\"complete\",\"workers\":8,\"workers_connected\":%s,"
                 "\"since\":\"2026-11-20T20:%sZ\",\"nodes\":[{\"addr\":\"a\",\"pid\":41,"
                 "\"role\":\"participant\"},{\"addr\":\"b\",\"pid\":7,\"role\":"
                 "\"participant\"},{\"addr\":\"c\",\"pid\":8,\"role\":\"spare\"}]}",
                 rows[i].connected, rows[i].since);
        if (rows[i].says != NULL)
            snprintf(want, sizeof want,
                     "  WORKERS: %s To see each: py-spy dump -s --pid 41 on a, 7 on b\n",
                     rows[i].says);
        show_asked(json, OUTPUT_TABLE, rows[i].asked);
        strncat(want, "  HERE: a, b\n  SPARE: c\n", sizeof want - strlen(want) - 1);
        assert_string_equal(strchr(strchr(printed, '\n') + 1, '\n') + 1, want);
        free(printed);
    }
    show_asked("{\"id\":\"J\",\"state\":\"complete\",\"workers\":8,\"workers_connected\":8,\"waits_"
               "count\":1}",
               OUTPUT_TABLE, "J"); /* of an agent, for a key that is there by now */
    done("RUN J  complete, round 0  (, space team-a)\n"
         "  0 nodes, none missing\n");
}

/* The keys of a run show its minimum and its maximum at different times. */
static void an_unknown_minimum_or_maximum_is_not_shown_as_0(void **state)
{
    (void)state;
    show("{\"id\":\"J\",\"min\":3,\"participants\":1}", OUTPUT_TABLE);
    done("RUN J  , round 0  (, space team-a)\n"
         "  1 of 3 nodes (at least 3), none missing\n");
    show("{\"id\":\"J\",\"max\":4,\"participants\":1}", OUTPUT_TABLE);
    done("RUN J  , round 0  (, space team-a)\n"
         "  1 node (at most 4), none missing\n");
}

static void five_hundred_and_twelve_nodes_fit(void **state)
{
    cJSON *run = cJSON_CreateObject(), *nodes, *missing;
    char *json;
    size_t lines = 0;

    (void)state;
    cJSON_AddStringToObject(run, "id", "BIG");
    cJSON_AddNumberToObject(run, "participants", 412);
    cJSON_AddNumberToObject(run, "missing_count", 100);
    nodes = cJSON_AddArrayToObject(run, "nodes");
    missing = cJSON_AddArrayToObject(run, "missing");
    for (int i = 0; i < 512; i++) {
        cJSON *node = cJSON_CreateObject();
        char name[64];

        snprintf(name, sizeof name, "worker-%d.train.svc", i);
        cJSON_AddStringToObject(node, "addr", name);
        cJSON_AddStringToObject(node, i < 100 ? "why" : "role", i < 100 ? "silent" : "participant");
        cJSON_AddItemToArray(i < 100 ? missing : nodes, node);
    }
    json = cJSON_PrintUnformatted(run);
    show(json, OUTPUT_TABLE);
    for (const char *p = printed; *p != '\0'; p++)
        lines += *p == '\n';
    assert_in_range(lines, 4, 10);
    assert_non_null(strstr(printed, "412 of 512 nodes"));
    assert_non_null(
        strstr(printed, "100 silent: worker-[0-9].train.svc, worker-[10-99].train.svc"));
    assert_non_null(strstr(printed, "HERE: worker-[100-511].train.svc\n"));
    free(printed);
    show(json, OUTPUT_WIDE);
    assert_non_null(strstr(printed, "worker-511.train.svc"));
    free(printed);
    cJSON_free(json);
    cJSON_Delete(run);
}

static void json_is_written_as_yaml(void **state)
{
    cJSON *json =
        cJSON_Parse("{\"a\":1,\"b c\":\"x: \\\"y\\\"\\n\",\"list\":[1,[2,[]],{\"k\":null,\"o\":"
                    "{\"deep\":true}},{}],\"none\":[],\"\":false}");
    FILE *out = open_memstream(&printed, &printed_len);

    (void)state;
    print_yaml(out, json);
    fclose(out);
    cJSON_Delete(json);
    done("a: 1\n"
         "\"b c\": \"x: \\\"y\\\"\\n\"\n"
         "list:\n"
         "  - 1\n"
         "  -\n"
         "    - 2\n"
         "    - []\n"
         "  - k: null\n"
         "    o:\n"
         "      deep: true\n"
         "  - {}\n"
         "none: []\n"
         "\"\": false\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_nodes_come_first),
        cmocka_unit_test(members_may_be_absent),
        cmocka_unit_test(an_unknown_minimum_or_maximum_is_not_shown_as_0),
        cmocka_unit_test(a_run_says_what_it_waits_for),
        cmocka_unit_test(workers_that_are_not_connected_are_counted),
        cmocka_unit_test(an_order_says_what_ends_it),
        cmocka_unit_test(five_hundred_and_twelve_nodes_fit),
        cmocka_unit_test(json_is_written_as_yaml),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
