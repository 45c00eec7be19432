/* Bodies of PUTs to users and roles: what etcd 3.4.23 made of the same ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rdzv/etcd/auth_json.h"
#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* A user as a text: name, password, roles, grant, revoke. */
static void show_user(const struct auth_user_json *u, char out[512])
{
    const struct command_list *lists[] = {&u->roles, &u->grant, &u->revoke};
    struct writer w = {.ptr = (uint8_t *)out, .cap = 511};

    writer_slice(&w, u->user);
    writer_u8(&w, ' ');
    writer_slice(&w, u->password);
    for (size_t i = 0; i < COUNT(lists); i++) {
        writer_u8(&w, ' ');
        auth_json_write_list(&w, lists[i]);
    }
    assert_true(w.len <= w.cap);
    out[w.len] = '\0';
}

static const struct {
    const char *body;
    const char *user; /* NULL: refused */
} users[] = {
    {"{}", "  null null null"},
    {"null", "  null null null"},
    {"{\"user\":\"al\",\"password\":\"p\",\"roles\":[\"a\",\"b\"]}",
     "al p [\"a\",\"b\"] null null"},
    {"{\"USER\":\"al\",\"Roles\":[]} and more", "al  [] null null"},
    {"{\"user\":\"al\",\"user\":\"bo\",\"user\":null}", "bo  null null null"},
    {"{\"roles\":[\"a\"],\"roles\":null}", "  null null null"},
    {"{\"roles\":[\"a\",\"b\"],\"roles\":[\"c\"]}", "  [\"c\"] null null"},
    {"{\"roles\":[null,\"a\"]}", "  [\"\",\"a\"] null null"},
    {"{\"grant\":[\"a\"],\"REVOKE\":[\"b\"],\"x\":[1,{}]}", "  null [\"a\"] [\"b\"]"},
    {"", NULL},
    {"[]", NULL},
    {"1", NULL},
    {"{", NULL},
    {"{\"user\":1}", NULL},
    {"{\"user\":{}}", NULL},
    {"{\"roles\":\"a\"}", NULL},
    {"{\"roles\":{}}", NULL},
    {"{\"roles\":[1]}", NULL},
    {"{\"roles\":[[]]}", NULL},
    {"{\"grant\":true}", NULL},
    {"{\"user\":\"al\\u0000\"}", NULL},
};

static void users_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(users); i++) {
        struct slice body = exact(users[i].body, strlen(users[i].body));
        struct auth_user_json user;
        char shown[512];
        bool ok = auth_json_read_user(body, &user);

        exact_free(body); /* what was read is a copy */
        if (ok != (users[i].user != NULL))
            fail_msg("%s", users[i].body);
        if (!ok)
            continue;
        show_user(&user, shown);
        if (strcmp(shown, users[i].user) != 0)
            fail_msg("%s: %s", users[i].body, shown);
        auth_json_free(&user.memory);
    }
}

/* A role as etcd shows it that was made of this. */
static const struct {
    const char *body;
    const char *role; /* NULL: refused */
} roles[] = {
    {"{}", "{\"role\":\"\",\"permissions\":{\"kv\":{\"read\":null,\"write\":null}}}"},
    {"{\"role\":\"r\",\"permissions\":{\"kv\":{\"read\":[\"/<\"],\"write\":[]}}}",
     "{\"role\":\"r\",\"permissions\":{\"kv\":{\"read\":[\"/\\u003c\"],\"write\":[]}}}"},
    {"{\"role\":\"r\",\"permissions\":{\"KV\":{\"read\":[\"a\"]}},\"permissions\":{\"kv\":{"
     "\"write\":[\"b\"]}}}",
     "{\"role\":\"r\",\"permissions\":{\"kv\":{\"read\":[\"a\"],\"write\":[\"b\"]}}}"},
    {"{\"permissions\":null,\"grant\":null,\"revoke\":null}",
     "{\"role\":\"\",\"permissions\":{\"kv\":{\"read\":null,\"write\":null}}}"},
    {"{\"grant\":{}}", "{\"role\":\"\",\"permissions\":{\"kv\":{\"read\":null,\"write\":null}},"
                       "\"grant\":{\"kv\":{\"read\":null,\"write\":null}}}"},
    {"{\"grant\":null,\"revoke\":{\"kv\":{\"read\":[]}}}",
     "{\"role\":\"\",\"permissions\":{\"kv\":{\"read\":null,\"write\":null}},"
     "\"revoke\":{\"kv\":{\"read\":[],\"write\":null}}}"},
    {"{\"permissions\":[]}", NULL},
    {"{\"permissions\":{\"kv\":[]}}", NULL},
    {"{\"permissions\":{\"kv\":{\"read\":1}}}", NULL},
    {"{\"grant\":\"x\"}", NULL},
    {"{\"grant\":{\"kv\":{\"write\":[true]}}}", NULL},
    {"{\"role\":[]}", NULL},
    {"\"r\"", NULL},
};

static void show_role(const struct auth_role_json *in, char out[512])
{
    uint8_t shown[AUTH_JSON_SHOWN_MAX];
    struct writer extra = {.ptr = shown, .cap = sizeof shown};
    struct writer w = {.ptr = (uint8_t *)out, .cap = 511};
    struct auth_role role = {
        .name = in->role, .reads = in->permissions.reads, .writes = in->permissions.writes};

    auth_json_write_shown(&extra, in);
    assert_true(extra.len <= extra.cap);
    role.shown = (struct slice){shown, extra.len};
    auth_json_write_role(&w, &role);
    assert_true(w.len <= w.cap);
    out[w.len] = '\0';
}

static void roles_are_read_and_shown(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(roles); i++) {
        struct slice body = exact(roles[i].body, strlen(roles[i].body));
        struct auth_role_json role;
        char shown[512];
        bool ok = auth_json_read_role(body, &role);

        exact_free(body);
        if (ok != (roles[i].role != NULL))
            fail_msg("%s", roles[i].body);
        if (!ok)
            continue;
        show_role(&role, shown);
        if (strcmp(shown, roles[i].role) != 0)
            fail_msg("%s: %s", roles[i].body, shown);
        auth_json_free(&role.memory);
    }
}

/* Empty grants and revocations take the most room when they are all null. */
static void what_is_shown_besides_fits(void **state)
{
    const struct auth_permissions empty = {true, {.absent = true}, {.absent = true}};
    uint8_t shown[AUTH_JSON_SHOWN_MAX];
    struct writer w = {.ptr = shown, .cap = sizeof shown};

    (void)state;
    auth_json_write_shown(&w, &(struct auth_role_json){.grant = empty, .revoke = empty});
    assert_in_range(w.len, 1, sizeof shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_are_read),
        cmocka_unit_test(roles_are_read_and_shown),
        cmocka_unit_test(what_is_shown_besides_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
