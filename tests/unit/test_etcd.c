/* etcd's v2 keys API as bytes: parameters to operations, nodes, events and errors to JSON, as etcd
 * 3.4.23 has them (etcdserver/api/v2http/client.go, v2error). */
#include "proto/etcd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static bool parse(enum http_method method, const char *form, const char *query,
                  struct etcd_request *out, struct etcd_refusal *why)
{
    struct slice f = exact(form, strlen(form)), q = exact(query, strlen(query));
    struct etcd_request r, untouched;
    bool ok;

    memset(&r, 0x5a, sizeof r);
    memcpy(&untouched, &r, sizeof r);
    ok = etcd_parse_request(method, f, q, &r, why);
    if (!ok)
        assert_memory_equal(&r, &untouched, sizeof r);
    if (ok && out != NULL) {
        *out = r; /* after this only numbers and lengths are read */
        out->value.ptr = out->prev_value.ptr = NULL;
    }
    exact_free(f);
    exact_free(q);
    return ok;
}

static void method_and_parameters_choose_the_operation(void **state)
{
    static const struct {
        enum http_method method;
        const char *query;
        enum etcd_op op;
    } rows[] = {
        {HTTP_GET, "", ETCD_OP_GET},
        {HTTP_HEAD, "recursive=true", ETCD_OP_GET},
        {HTTP_GET, "wait=true", ETCD_OP_WATCH},
        {HTTP_GET, "wait=false", ETCD_OP_GET},
        {HTTP_GET, "wait=true&quorum=true", ETCD_OP_GET},
        {HTTP_GET, "wait=true&quorum=false", ETCD_OP_WATCH},
        {HTTP_PUT, "", ETCD_OP_SET},
        {HTTP_PUT, "value=1", ETCD_OP_SET},
        {HTTP_PUT, "prevExist=true", ETCD_OP_UPDATE},
        {HTTP_PUT, "prevExist=false", ETCD_OP_CREATE},
        {HTTP_PUT, "prevExist=false&prevValue=a&prevIndex=3", ETCD_OP_CREATE},
        {HTTP_PUT, "prevExist=true&prevValue=a", ETCD_OP_COMPARE_AND_SWAP},
        {HTTP_PUT, "prevExist=true&prevIndex=1", ETCD_OP_COMPARE_AND_SWAP},
        {HTTP_PUT, "prevValue=a", ETCD_OP_COMPARE_AND_SWAP},
        {HTTP_PUT, "prevIndex=7", ETCD_OP_COMPARE_AND_SWAP},
        {HTTP_PUT, "prevIndex=0", ETCD_OP_SET},
        {HTTP_PUT, "prevIndex=0&prevExist=true", ETCD_OP_UPDATE},
        {HTTP_POST, "", ETCD_OP_CREATE_IN_ORDER},
        {HTTP_POST, "prevExist=true&prevValue=a&prevIndex=3", ETCD_OP_CREATE_IN_ORDER},
        {HTTP_DELETE, "", ETCD_OP_DELETE},
        {HTTP_DELETE, "prevExist=true", ETCD_OP_DELETE},
        {HTTP_DELETE, "prevIndex=0", ETCD_OP_DELETE},
        {HTTP_DELETE, "prevValue=a", ETCD_OP_COMPARE_AND_DELETE},
        {HTTP_DELETE, "prevIndex=1", ETCD_OP_COMPARE_AND_DELETE},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct etcd_refusal why = {0};
        struct etcd_request r;

        print_message("  %zu: %s\n", i, rows[i].query);
        assert_true(parse(rows[i].method, "", rows[i].query, &r, &why));
        assert_int_equal(r.op, rows[i].op);
    }
}

#define BOOL_ROWS(name, quoted)                                                            \
    {HTTP_PUT, "", name "=", ETCD_INVALID_FIELD, quoted},                                  \
        {HTTP_PUT, "", name "=yes", ETCD_INVALID_FIELD, quoted},                           \
        {HTTP_PUT, "", name "=tRUE", ETCD_INVALID_FIELD, quoted},                          \
        {HTTP_PUT, "", name "=+true", ETCD_INVALID_FIELD, quoted},                         \
    {                                                                                      \
        HTTP_PUT, "", name "=truetruetruetruetruetruetruetrue", ETCD_INVALID_FIELD, quoted \
    }

static void bad_parameters_are_refused_in_etcds_words(void **state)
{
    static const struct {
        enum http_method method;
        const char *form, *query;
        enum etcd_code code;
        const char *cause;
    } rows[] = {
        BOOL_ROWS("recursive", "invalid value for \"recursive\""),
        BOOL_ROWS("sorted", "invalid value for \"sorted\""),
        BOOL_ROWS("wait", "invalid value for \"wait\""),
        BOOL_ROWS("dir", "invalid value for \"dir\""),
        BOOL_ROWS("quorum", "invalid value for \"quorum\""),
        BOOL_ROWS("stream", "invalid value for \"stream\""),
        BOOL_ROWS("noValueOnSuccess", "invalid value for \"noValueOnSuccess\""),
        BOOL_ROWS("prevExist", "invalid value for prevExist"),
        BOOL_ROWS("refresh", "invalid value for refresh"),
        {HTTP_GET, "", "prevIndex=", ETCD_INDEX_NOT_A_NUMBER, "invalid value for \"prevIndex\""},
        {HTTP_GET, "", "prevIndex=-1", ETCD_INDEX_NOT_A_NUMBER, "invalid value for \"prevIndex\""},
        {HTTP_GET, "", "prevIndex=1_0", ETCD_INDEX_NOT_A_NUMBER, "invalid value for \"prevIndex\""},
        {HTTP_GET, "", "waitIndex=x", ETCD_INDEX_NOT_A_NUMBER, "invalid value for \"waitIndex\""},
        {HTTP_GET, "", "waitIndex=18446744073709551616", ETCD_INDEX_NOT_A_NUMBER,
         "invalid value for \"waitIndex\""},
        {HTTP_GET, "", "waitIndex=99999999999999999999", ETCD_INDEX_NOT_A_NUMBER,
         "invalid value for \"waitIndex\""},
        {HTTP_PUT, "ttl=1.5", "", ETCD_TTL_NOT_A_NUMBER, "invalid value for \"ttl\""},
        {HTTP_PUT, "ttl=+", "", ETCD_TTL_NOT_A_NUMBER, "invalid value for \"ttl\""},
        {HTTP_PUT, "ttl=0x10", "", ETCD_TTL_NOT_A_NUMBER, "invalid value for \"ttl\""},
        {HTTP_PUT, "prevValue=", "", ETCD_PREV_VALUE_REQUIRED, "\"prevValue\" cannot be empty"},
        {HTTP_PUT, "", "wait=true", ETCD_INVALID_FIELD,
         "\"wait\" can only be used with GET requests"},
        {HTTP_HEAD, "", "wait=1", ETCD_INVALID_FIELD,
         "\"wait\" can only be used with GET requests"},
        {HTTP_PUT, "value=a&refresh=true&ttl=1", "", ETCD_REFRESH_VALUE,
         "A value was provided on a refresh"},
        {HTTP_PUT, "refresh=true", "", ETCD_REFRESH_TTL_REQUIRED, "No TTL value set"},
        {HTTP_PUT, "refresh=true&ttl=", "", ETCD_REFRESH_TTL_REQUIRED, "No TTL value set"},
        {HTTP_GET, "", "a=%zz", ETCD_INVALID_FORM, "invalid URL escape \"%zz\""},
        {HTTP_PUT, "a;b", "", ETCD_INVALID_FORM, "invalid semicolon separator in query"},
        /* The first that is wrong is the answer, in etcd's order and not in that of the text. */
        {HTTP_PUT, "", "ttl=x&refresh=x&prevIndex=x&a=%zz", ETCD_INVALID_FORM,
         "invalid URL escape \"%zz\""},
        {HTTP_PUT, "", "ttl=x&waitIndex=x&prevIndex=x", ETCD_INDEX_NOT_A_NUMBER,
         "invalid value for \"prevIndex\""},
        {HTTP_PUT, "", "recursive=x&waitIndex=x", ETCD_INDEX_NOT_A_NUMBER,
         "invalid value for \"waitIndex\""},
        {HTTP_PUT, "", "stream=x&quorum=x&dir=x&wait=x&sorted=x&recursive=x", ETCD_INVALID_FIELD,
         "invalid value for \"recursive\""},
        {HTTP_PUT, "", "stream=x&quorum=x&dir=x&wait=x&sorted=x", ETCD_INVALID_FIELD,
         "invalid value for \"sorted\""},
        {HTTP_PUT, "", "stream=x&quorum=x&dir=x&wait=x", ETCD_INVALID_FIELD,
         "invalid value for \"wait\""},
        {HTTP_PUT, "", "stream=x&quorum=x&dir=x&wait=1", ETCD_INVALID_FIELD,
         "invalid value for \"dir\""},
        {HTTP_PUT, "", "stream=x&quorum=x&wait=1", ETCD_INVALID_FIELD,
         "invalid value for \"quorum\""},
        {HTTP_PUT, "", "stream=x&wait=1&prevValue=", ETCD_INVALID_FIELD,
         "invalid value for \"stream\""},
        {HTTP_PUT, "", "wait=1&prevValue=", ETCD_INVALID_FIELD,
         "\"wait\" can only be used with GET requests"},
        {HTTP_PUT, "", "noValueOnSuccess=x&prevValue=", ETCD_PREV_VALUE_REQUIRED,
         "\"prevValue\" cannot be empty"},
        {HTTP_PUT, "", "ttl=x&noValueOnSuccess=x", ETCD_INVALID_FIELD,
         "invalid value for \"noValueOnSuccess\""},
        {HTTP_PUT, "", "refresh=x&prevExist=x&ttl=x", ETCD_TTL_NOT_A_NUMBER,
         "invalid value for \"ttl\""},
        {HTTP_PUT, "", "refresh=x&prevExist=x", ETCD_INVALID_FIELD, "invalid value for prevExist"},
        {HTTP_PUT, "", "value=a&refresh=true", ETCD_REFRESH_VALUE,
         "A value was provided on a refresh"},
        /* Form before query, and the first of several. */
        {HTTP_PUT, "ttl=x", "ttl=1", ETCD_TTL_NOT_A_NUMBER, "invalid value for \"ttl\""},
        {HTTP_PUT, "", "ttl=x&ttl=1", ETCD_TTL_NOT_A_NUMBER, "invalid value for \"ttl\""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct etcd_refusal why = {0};

        print_message("  %zu: form=%s query=%s\n", i, rows[i].form, rows[i].query);
        assert_false(parse(rows[i].method, rows[i].form, rows[i].query, NULL, &why));
        assert_int_equal(why.code, rows[i].code);
        assert_string_equal(why.cause, rows[i].cause);
    }
}

static void parameters_are_read(void **state)
{
    static const char *const yes[] = {"1", "t", "T", "TRUE", "true", "True"};
    static const char *const no[] = {"0", "f", "F", "FALSE", "false", "False"};
    struct etcd_refusal why;
    struct etcd_request r;

    (void)state;
    for (size_t i = 0; i < COUNT(yes); i++) {
        char text[256];

        snprintf(text, sizeof text, "recursive=%s&sorted=%s&dir=%s&stream=%s&noValueOnSuccess=%s",
                 yes[i], yes[i], yes[i], yes[i], yes[i]);
        assert_true(parse(HTTP_GET, "", text, &r, &why));
        assert_true(r.recursive && r.sorted && r.dir && r.stream && r.no_value_on_success);
        snprintf(text, sizeof text, "recursive=%s&sorted=%s&dir=%s&stream=%s&noValueOnSuccess=%s",
                 no[i], no[i], no[i], no[i], no[i]);
        assert_true(parse(HTTP_GET, "", text, &r, &why));
        assert_false(r.recursive || r.sorted || r.dir || r.stream || r.no_value_on_success);
    }
    assert_true(
        parse(HTTP_PUT, "value=abc&ttl=18446744073709551615", "value=zz&ttl=1&wait=0", &r, &why));
    assert_true(r.value.len == 3 && r.has_ttl && r.ttl_s == UINT64_MAX);
    assert_true(parse(HTTP_PUT, "ttl=", "ttl=5", &r, &why)); /* the first one counts: absent */
    assert_false(r.has_ttl);
    assert_true(parse(HTTP_PUT, "ttl=0&refresh=true", "", &r, &why));
    assert_true(r.has_ttl && r.ttl_s == 0 && r.refresh);
    assert_true(parse(HTTP_GET, "", "wait=true&waitIndex=0000000000000000000000007", &r, &why));
    assert_true(r.wait_index == 7);
    assert_true(parse(HTTP_GET, "", "waitIndex=%31%32", &r, &why));
    assert_true(r.wait_index == 12);
    assert_true(parse(HTTP_PUT, "", "Value=x&VALUE=y&unknown=z", &r, &why));
    assert_true(r.value.len == 0);
}

static void the_form_counts_by_its_content_type(void **state)
{
    static const struct {
        enum http_method method;
        const char *type;
        bool counts;
    } rows[] = {
        {HTTP_PUT, "application/x-www-form-urlencoded", true},
        {HTTP_POST, "Application/X-WWW-Form-URLencoded; charset=utf-8", true},
        {HTTP_PUT, "application/x-www-form-urlencoded ;", true},
        {HTTP_PUT, "application/x-www-form-urlencoded2", false},
        {HTTP_PUT, "application/x-www-form-urlencode", false},
        {HTTP_PUT, "", false},
        {HTTP_PUT, "text/plain", false},
        {HTTP_PUT, "multipart/form-data; boundary=x", false},
        {HTTP_GET, "application/x-www-form-urlencoded", false},
        {HTTP_DELETE, "application/x-www-form-urlencoded", false},
        {HTTP_PUT, ";", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (etcd_has_form(rows[i].method, slice_str(rows[i].type)) != rows[i].counts)
            fail_msg("row %zu", i);
    }
}

/* --- Answers. --- */

static void check_event(enum etcd_action action, const struct etcd_node *node,
                        const struct etcd_node *prev, const char *expected)
{
    struct writer count = {0}, w;

    etcd_write_event(&count, action, node, prev);
    w = (struct writer){.ptr = malloc(count.len), .cap = count.len};
    assert_non_null(w.ptr);
    etcd_write_event(&w, action, node, prev);
    if (w.len != strlen(expected) || memcmp(w.ptr, expected, w.len) != 0)
        print_error("%.*sexpected\n%s", (int)w.len, (const char *)w.ptr, expected);
    assert_int_equal(w.len, strlen(expected));
    assert_memory_equal(w.ptr, expected, w.len);
    free(w.ptr);
}

static void events_have_their_members_in_etcds_order(void **state)
{
    struct etcd_node node = {.key = slice_str("/foo"),
                             .value = slice_str("b\"z"),
                             .has_value = true,
                             .modified = 5,
                             .created = 4};
    struct etcd_node prev = node, dir = {.key = slice_str("/d"), .dir = true, .modified = 9};
    const struct etcd_node root = {.dir = true};

    (void)state;
    prev.value = (struct slice){0}; /* an empty value is shown */
    prev.has_expiration = true;
    prev.expires_ns = INT64_C(1795198305875585631);
    prev.ttl_s = 7;
    check_event(ETCD_SET, &node, NULL,
                "{\"action\":\"set\",\"node\":{\"key\":\"/foo\",\"value\":\"b\\\"z\","
                "\"modifiedIndex\":5,\"createdIndex\":4}}\n");
    check_event(ETCD_COMPARE_AND_SWAP, &node, &prev,
                "{\"action\":\"compareAndSwap\",\"node\":{\"key\":\"/foo\",\"value\":\"b\\\"z\","
                "\"modifiedIndex\":5,\"createdIndex\":4},\"prevNode\":{\"key\":\"/foo\","
                "\"value\":\"\",\"expiration\":\"2026-11-20T18:11:45.875585631Z\",\"ttl\":7,"
                "\"modifiedIndex\":5,\"createdIndex\":4}}\n");
    prev.ttl_s = 0; /* it expires in this moment: the time stays, the rest is left out */
    prev.has_value = false;
    check_event(ETCD_EXPIRE, &prev, NULL,
                "{\"action\":\"expire\",\"node\":{\"key\":\"/foo\","
                "\"expiration\":\"2026-11-20T18:11:45.875585631Z\","
                "\"modifiedIndex\":5,\"createdIndex\":4}}\n");
    prev.ttl_s = -3;
    dir.has_expiration = true;
    dir.ttl_s = -1;
    check_event(ETCD_UPDATE, &dir, &prev,
                "{\"action\":\"update\",\"node\":{\"key\":\"/d\",\"dir\":true,"
                "\"expiration\":\"1970-01-01T00:00:00Z\",\"ttl\":-1,\"modifiedIndex\":9},"
                "\"prevNode\":{\"key\":\"/foo\",\"expiration\":\"2026-11-20T18:11:45.875585631Z\","
                "\"ttl\":-3,\"modifiedIndex\":5,\"createdIndex\":4}}\n");
    check_event(ETCD_GET, &root, NULL, "{\"action\":\"get\",\"node\":{\"dir\":true}}\n");
}

static void actions_have_etcds_names(void **state)
{
    static const char *const names[] = {
        [ETCD_GET] = "get",
        [ETCD_SET] = "set",
        [ETCD_CREATE] = "create",
        [ETCD_UPDATE] = "update",
        [ETCD_COMPARE_AND_SWAP] = "compareAndSwap",
        [ETCD_DELETE] = "delete",
        [ETCD_COMPARE_AND_DELETE] = "compareAndDelete",
        [ETCD_EXPIRE] = "expire",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++)
        assert_string_equal(etcd_action_names[(enum etcd_action)i], names[i]);
}

static void errors_have_etcds_statuses_and_words(void **state)
{
    static const struct {
        enum etcd_code code;
        unsigned status;
        const char *cause;
        uint64_t index;
        const char *body;
    } rows[] = {
        {ETCD_KEY_NOT_FOUND, 404, "/a", 3,
         "{\"errorCode\":100,\"message\":\"Key not found\",\"cause\":\"/a\",\"index\":3}\n"},
        {ETCD_COMPARE_FAILED, 412, "[a != b]", 7,
         "{\"errorCode\":101,\"message\":\"Compare failed\",\"cause\":\"[a != b]\",\"index\":7}\n"},
        {ETCD_NOT_A_FILE, 403, "", 1,
         "{\"errorCode\":102,\"message\":\"Not a file\",\"index\":1}\n"},
        {ETCD_NOT_A_DIRECTORY, 400, "/k", 1,
         "{\"errorCode\":104,\"message\":\"Not a directory\",\"cause\":\"/k\",\"index\":1}\n"},
        {ETCD_KEY_EXISTS, 412, "/k", 1,
         "{\"errorCode\":105,\"message\":\"Key already exists\",\"cause\":\"/k\",\"index\":1}\n"},
        {ETCD_ROOT_READ_ONLY, 400, "/", 1,
         "{\"errorCode\":107,\"message\":\"Root is read only\",\"cause\":\"/\",\"index\":1}\n"},
        {ETCD_DIRECTORY_NOT_EMPTY, 403, "/d", 1,
         "{\"errorCode\":108,\"message\":\"Directory not empty\",\"cause\":\"/d\",\"index\":1}\n"},
        {ETCD_PREV_VALUE_REQUIRED, 400, "x", 0,
         "{\"errorCode\":201,\"message\":\"PrevValue is Required in POST form\",\"cause\":\"x\","
         "\"index\":0}\n"},
        {ETCD_TTL_NOT_A_NUMBER, 400, "\"ttl\"", 0,
         "{\"errorCode\":202,\"message\":\"The given TTL in POST form is not a number\","
         "\"cause\":\"\\\"ttl\\\"\",\"index\":0}\n"},
        {ETCD_INDEX_NOT_A_NUMBER, 400, "x", 0,
         "{\"errorCode\":203,\"message\":\"The given index in POST form is not a number\","
         "\"cause\":\"x\",\"index\":0}\n"},
        {ETCD_INVALID_FIELD, 400, "x", 0,
         "{\"errorCode\":209,\"message\":\"Invalid field\",\"cause\":\"x\",\"index\":0}\n"},
        {ETCD_INVALID_FORM, 400, "x", 0,
         "{\"errorCode\":210,\"message\":\"Invalid POST form\",\"cause\":\"x\",\"index\":0}\n"},
        {ETCD_REFRESH_VALUE, 400, "x", 0,
         "{\"errorCode\":211,\"message\":\"Value provided on refresh\",\"cause\":\"x\","
         "\"index\":0}\n"},
        {ETCD_REFRESH_TTL_REQUIRED, 400, "x", 0,
         "{\"errorCode\":212,\"message\":\"A TTL must be provided on refresh\",\"cause\":\"x\","
         "\"index\":0}\n"},
        {ETCD_INTERNAL, 500, "x", 0,
         "{\"errorCode\":300,\"message\":\"Raft Internal Error\",\"cause\":\"x\",\"index\":0}\n"},
        {ETCD_INDEX_CLEARED, 400, "the requested history has been cleared [5/1]", 1004,
         "{\"errorCode\":401,\"message\":\"The event in requested index is outdated and cleared\","
         "\"cause\":\"the requested history has been cleared [5/1]\",\"index\":1004}\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t out[512];
        struct writer w = {.ptr = out, .cap = sizeof out};

        etcd_write_error(&w, rows[i].code, slice_str(rows[i].cause), rows[i].index);
        assert_int_equal(w.len, strlen(rows[i].body));
        assert_memory_equal(out, rows[i].body, w.len);
        assert_int_equal(etcd_status(rows[i].code), rows[i].status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(method_and_parameters_choose_the_operation),
        cmocka_unit_test(bad_parameters_are_refused_in_etcds_words),
        cmocka_unit_test(parameters_are_read),
        cmocka_unit_test(the_form_counts_by_its_content_type),
        cmocka_unit_test(events_have_their_members_in_etcds_order),
        cmocka_unit_test(actions_have_etcds_names),
        cmocka_unit_test(errors_have_etcds_statuses_and_words),
    };

    return cmocka_run_group_tests_name("proto/etcd", tests, NULL, NULL);
}
