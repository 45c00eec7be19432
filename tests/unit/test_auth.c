/* Users, roles and the switch, as commands change them, with the indexes that etcd takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "store/auth.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* A list of names, for a command. */
#define LIST(...)                                                                 \
    ((struct command_list){.items = (const struct slice[]){__VA_ARGS__},          \
                           .count = sizeof((const struct slice[]){__VA_ARGS__}) / \
                                    sizeof(struct slice)})
#define EMPTY  ((struct command_list){0})
#define ABSENT ((struct command_list){.absent = true})

struct fixture {
    struct ready_list ready;
    struct reserve reserve;
    struct quota quota;
    struct tree tree;
    struct auth auth;
};

static int set_up(void **state)
{
    struct fixture *w = calloc(1, sizeof *w);

    assert_non_null(w);
    ready_list_init(&w->ready);
    reserve_init(&w->reserve);
    w->quota = (struct quota){0};
    tree_init(&w->tree, &w->ready, &w->reserve, 1, &w->quota);
    auth_init(&w->auth, &w->quota);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *w = *state;

    auth_fini(&w->auth);
    tree_fini(&w->tree);
    reserve_fini(&w->reserve);
    free(w);
    return 0;
}

/* Applies a command and checks what came of it: the status, and how many indexes it took. Whether
 * there is something to write down goes with that. */
static void apply(struct fixture *w, const struct command *c, enum auth_status status,
                  unsigned indexes)
{
    uint64_t before = w->tree.index;
    enum auth_status got;
    struct change change;
    bool changed = auth_check(&w->auth, c, &change, &got);

    if (changed) {
        assert_true(auth_can_apply(&w->auth, &change));
        assert_true(reserve_hold(&w->reserve, auth_memory(&w->auth, &change)));
        auth_apply(&w->auth, &w->tree, &change);
    }

    assert_int_equal(got, status);
    assert_int_equal(w->tree.index - before, indexes);
    assert_int_equal(changed, indexes != 0);
}

static void put_user(struct fixture *w, const char *name, struct command_list roles,
                     unsigned indexes)
{
    apply(w,
          &(struct command){.kind = COMMAND_AUTH_USER_PUT,
                            .key = slice_str(name),
                            .value = slice_str("hash"),
                            .names = roles},
          AUTH_OK, indexes);
}

static void put_role(struct fixture *w, const char *name, struct command_list reads,
                     struct command_list writes, unsigned indexes)
{
    apply(w,
          &(struct command){.kind = COMMAND_AUTH_ROLE_PUT,
                            .key = slice_str(name),
                            .names = reads,
                            .writes = writes},
          AUTH_OK, indexes);
}

static void do_named(struct fixture *w, enum command_kind kind, const char *name,
                     enum auth_status status, unsigned indexes)
{
    apply(w, &(struct command){.kind = kind, .key = slice_str(name)}, status, indexes);
}

static void do_plain(struct fixture *w, enum command_kind kind, enum auth_status status,
                     unsigned indexes)
{
    apply(w, &(struct command){.kind = kind}, status, indexes);
}

static void the_first_change_makes_etcds_directories(void **state)
{
    struct fixture *w = *state;

    put_user(w, "al", ABSENT, 5);
    put_user(w, "al", EMPTY, 1);
    put_role(w, "r1", EMPTY, EMPTY, 1);
    do_named(w, COMMAND_AUTH_ROLE_DELETE, "r1", AUTH_OK, 1);
    do_named(w, COMMAND_AUTH_USER_DELETE, "al", AUTH_OK, 1);
    do_named(w, COMMAND_AUTH_USER_DELETE, "al", AUTH_NOT_FOUND, 0);
}

static void a_failed_deletion_makes_them_too(void **state)
{
    struct fixture *w = *state;

    do_plain(w, COMMAND_AUTH_ENABLE, AUTH_NO_ROOT, 0);
    do_plain(w, COMMAND_AUTH_DISABLE, AUTH_UNCHANGED, 0);
    do_named(w, COMMAND_AUTH_ROLE_DELETE, "root", AUTH_ROOT_ROLE, 0);
    do_named(w, COMMAND_AUTH_USER_DELETE, "nobody", AUTH_NOT_FOUND, 4);
    do_named(w, COMMAND_AUTH_USER_DELETE, "nobody", AUTH_NOT_FOUND, 0);
    do_named(w, COMMAND_AUTH_ROLE_DELETE, "nothing", AUTH_NOT_FOUND, 0);
    put_user(w, "al", ABSENT, 1);
}

static void a_touch_makes_them_once(void **state)
{
    struct fixture *w = *state;

    do_plain(w, COMMAND_AUTH_TOUCH, AUTH_UNCHANGED, 4);
    do_plain(w, COMMAND_AUTH_TOUCH, AUTH_UNCHANGED, 0);
}

static void the_switch_needs_root_and_makes_guest(void **state)
{
    struct fixture *w = *state;
    const struct auth_role *guest;

    put_user(w, "al", ABSENT, 5);
    do_plain(w, COMMAND_AUTH_ENABLE, AUTH_NO_ROOT, 0);
    put_user(w, "root", ABSENT, 1);
    assert_null(auth_find_role(&w->auth, slice_str("guest")));
    do_plain(w, COMMAND_AUTH_ENABLE, AUTH_OK, 2);
    assert_true(auth_enabled(&w->auth));
    guest = auth_find_role(&w->auth, slice_str("guest"));
    assert_non_null(guest);
    assert_true(auth_list_has(&guest->reads, slice_str("/*")));
    assert_true(auth_list_has(&guest->writes, slice_str("/*")));
    do_plain(w, COMMAND_AUTH_ENABLE, AUTH_UNCHANGED, 0);
    do_named(w, COMMAND_AUTH_USER_DELETE, "root", AUTH_ROOT_NEEDED, 0);
    do_plain(w, COMMAND_AUTH_DISABLE, AUTH_OK, 1);
    do_plain(w, COMMAND_AUTH_DISABLE, AUTH_UNCHANGED, 0);
    do_plain(w, COMMAND_AUTH_ENABLE, AUTH_OK, 1);
}

static void the_user_root_always_has_the_role_root(void **state)
{
    struct fixture *w = *state;
    const struct auth_user *root;

    put_user(w, "root", ABSENT, 5);
    root = auth_find_user(&w->auth, slice_str("root"));
    assert_int_equal(root->roles.count, 1);
    assert_true(auth_is_root(root));

    put_user(w, "root", LIST(slice_str("z"), slice_str("a")), 1);
    root = auth_find_user(&w->auth, slice_str("root"));
    assert_int_equal(root->roles.count, 3);
    assert_true(slice_is(root->roles.items[0], "z"));
    assert_true(slice_is(root->roles.items[2], "root"));

    put_user(w, "root", LIST(slice_str("root"), slice_str("a")), 1);
    root = auth_find_user(&w->auth, slice_str("root"));
    assert_int_equal(root->roles.count, 2);

    put_user(w, "al", LIST(slice_str("root")), 1);
    assert_true(auth_is_root(auth_find_user(&w->auth, slice_str("al"))));
    put_user(w, "al", LIST(slice_str("r")), 1);
    assert_false(auth_is_root(auth_find_user(&w->auth, slice_str("al"))));
}

static void the_role_root_cannot_be_changed(void **state)
{
    struct fixture *w = *state;

    assert_non_null(auth_find_role(&w->auth, slice_str("root")));
    do_named(w, COMMAND_AUTH_ROLE_PUT, "root", AUTH_ROOT_ROLE, 0);
    do_named(w, COMMAND_AUTH_ROLE_DELETE, "root", AUTH_ROOT_ROLE, 0);
    assert_non_null(auth_find_role(&w->auth, slice_str("root")));
}

static void what_is_kept_is_a_copy_and_null_stays_null(void **state)
{
    struct fixture *w = *state;
    char name[] = "al", hash[] = "secret", role[] = "r1";
    const struct slice roles[] = {slice_str(role)};
    const struct auth_user *user;
    const struct auth_role *kept;

    apply(w,
          &(struct command){.kind = COMMAND_AUTH_USER_PUT,
                            .key = slice_str(name),
                            .value = slice_str(hash),
                            .names = {.items = roles, .count = 1}},
          AUTH_OK, 5);
    memset(name, 'x', 2);
    memset(hash, 'x', 6);
    memset(role, 'x', 2);
    user = auth_find_user(&w->auth, slice_str("al"));
    assert_non_null(user);
    assert_true(slice_is(user->hash, "secret"));
    assert_true(slice_is(user->roles.items[0], "r1"));

    put_role(w, "r", ABSENT, EMPTY, 1);
    kept = auth_find_role(&w->auth, slice_str("r"));
    assert_true(kept->reads.absent);
    assert_false(kept->writes.absent);
    assert_int_equal(kept->writes.count, 0);
}

/* JSON members behind the permissions: kept with the role, counted, and gone with the next change
 * that has none. */
static void what_a_role_shows_is_kept(void **state)
{
    struct fixture *w = *state;
    char text[] = ",\"grant\":null";
    struct command c = {
        .kind = COMMAND_AUTH_ROLE_PUT, .key = slice_str("r"), .value = slice_str(text)};
    size_t bytes;

    put_role(w, "r", EMPTY, EMPTY, 5);
    bytes = w->auth.bytes;
    apply(w, &c, AUTH_OK, 1);
    assert_int_equal(w->auth.bytes, bytes + c.value.len);
    memset(text, 'x', c.value.len);
    assert_true(slice_is(auth_find_role(&w->auth, slice_str("r"))->shown, ",\"grant\":null"));
    put_role(w, "r", EMPTY, EMPTY, 1);
    assert_int_equal(auth_find_role(&w->auth, slice_str("r"))->shown.len, 0);
    assert_int_equal(w->auth.bytes, bytes);
}

static void users_and_roles_are_in_order_of_names(void **state)
{
    static const char *const names[] = {"m", "", "zz", "a", "ab", "\xc3\xa4", "Z", "b", "_h"};
    struct fixture *w = *state;

    for (size_t i = 0; i < COUNT(names); i++) {
        put_user(w, names[i], ABSENT, i == 0 ? 5 : 1);
        put_role(w, names[i], EMPTY, EMPTY, 1);
    }
    do_named(w, COMMAND_AUTH_USER_DELETE, "ab", AUTH_OK, 1);
    do_named(w, COMMAND_AUTH_ROLE_DELETE, "zz", AUTH_OK, 1);
    assert_int_equal(w->auth.user_count, COUNT(names) - 1);
    assert_int_equal(w->auth.role_count, COUNT(names)); /* root is one */
    for (size_t i = 1; i < w->auth.user_count; i++)
        assert_true(slice_compare(w->auth.users[i - 1]->name, w->auth.users[i]->name) < 0);
    for (size_t i = 1; i < w->auth.role_count; i++)
        assert_true(slice_compare(w->auth.roles[i - 1]->name, w->auth.roles[i]->name) < 0);

    for (size_t i = 0; i < COUNT(names); i++) {
        if (auth_find_user(&w->auth, slice_str(names[i])) != NULL)
            do_named(w, COMMAND_AUTH_USER_DELETE, names[i], AUTH_OK, 1);
        if (auth_find_role(&w->auth, slice_str(names[i])) != NULL)
            do_named(w, COMMAND_AUTH_ROLE_DELETE, names[i], AUTH_OK, 1);
    }
    assert_int_equal(w->auth.user_count, 0);
    assert_int_equal(w->auth.role_count, 1);
    assert_int_equal(w->auth.bytes, 0);
}

/* A user whose name takes nearly all that one user may. */
static struct command large_user(uint8_t name[AUTH_ITEM_MAX], unsigned n)
{
    memset(name, 'u', AUTH_ITEM_MAX);
    bytes_put_u32(name, n);
    return (struct command){
        .kind = COMMAND_AUTH_USER_PUT, .key = {name, AUTH_ITEM_MAX - 1024}, .names = ABSENT};
}

/* Each change copies all of a user or a role. */
static void one_user_or_role_has_a_limit(void **state)
{
    static uint8_t name[AUTH_ITEM_MAX];
    struct fixture *w = *state;
    struct command c = large_user(name, 1);
    struct slice roles[64];

    apply(w, &c, AUTH_OK, 5);
    for (size_t i = 0; i < COUNT(roles); i++)
        roles[i] = slice_str("role");
    c.names = (struct command_list){.items = roles, .count = COUNT(roles)};
    apply(w, &c, AUTH_NO_ROOM, 0);
    assert_int_equal(auth_find_user(&w->auth, c.key)->roles.count, 0);
    c = (struct command){.kind = COMMAND_AUTH_ROLE_PUT,
                         .key = c.key,
                         .names = {.items = roles, .count = COUNT(roles)}};
    apply(w, &c, AUTH_NO_ROOM, 0);
    assert_null(auth_find_role(&w->auth, c.key));
}

static void there_is_a_limit(void **state)
{
    static uint8_t name[AUTH_ITEM_MAX];
    struct fixture *w = *state;
    struct command c = large_user(name, 0);
    unsigned count = 0;
    size_t bytes;

    w->quota.max = w->quota.kept + 8 * AUTH_ITEM_MAX;
    apply(w, &c, AUTH_OK, 5);
    while (++count < 8) {
        c = large_user(name, count);
        apply(w, &c, AUTH_OK, 1);
    }
    bytes = w->auth.bytes;
    c = large_user(name, count);
    apply(w, &c, AUTH_NO_ROOM, 0);
    c.kind = COMMAND_AUTH_ROLE_PUT;
    apply(w, &c, AUTH_NO_ROOM, 0);
    assert_int_equal(w->auth.bytes, bytes);
    assert_null(auth_find_role(&w->auth, c.key));
    c = large_user(name, 0);
    apply(w, &c, AUTH_OK, 1); /* it takes its own place */
    apply(w, &(struct command){.kind = COMMAND_AUTH_USER_DELETE, .key = c.key}, AUTH_OK, 1);
    c.kind = COMMAND_AUTH_ROLE_PUT;
    apply(w, &c, AUTH_OK, 1);
}

/* The limit of a space is theirs, too. */
static void a_space_with_a_limit_limits_them(void **state)
{
    static uint8_t name[AUTH_ITEM_MAX];
    struct fixture *w = *state;
    struct command c = large_user(name, 0);

    w->quota.max = w->quota.kept + 1000;
    apply(w, &c, AUTH_NO_ROOM, 0);
    c.key.len = 100;
    apply(w, &c, AUTH_OK, 5);
    assert_int_equal(w->quota.kept, w->auth.bytes + w->tree.bytes);
}

/* --- Permissions; the answers are those of etcd 3.4.23. --- */

struct question {
    const char *user; /* NULL: guest */
    const char *key;
    bool write;
    bool recursive;
    bool allowed;
};

static const struct question questions[] = {
    {"al", "/foo", false, false, true},
    {"al", "/foo/", false, false, false},
    {"al", "/foo", false, true, false}, /* an exact pattern is nothing for recursion */
    {"al", "/bar", false, true, true},
    {"al", "/barx/y", false, true, true},
    {"al", "/ba", false, false, false},
    {"al", "/d", false, false, false},
    {"al", "/d/", false, false, true},
    {"al", "/d/x", false, false, true},
    {"al", "/foo", true, false, true},
    {"al", "/foo", true, true, true},
    {"al", "/bar", true, false, false},
    {"al", "", false, false, false},
    {"al", "/", false, false, false},
    {"nobody", "/foo", false, false, false}, /* its roles do not exist */
    {"bo", "/x", false, false, false},       /* it has none */
    {"di", "/x", false, false, false},       /* an empty pattern, at which etcd itself would fail */
    {"di", "", false, false, true},
    {"root", "", true, true, true},
    {"root", "/any", true, true, true},
    {NULL, "/g", false, false, true},
    {NULL, "/g", false, true, true},
    {NULL, "/g", true, false, false},
    {NULL, "/h/x", false, true, true},
    {NULL, "/h", false, false, false},
    {NULL, "", false, false, false},
};

static void make_permissions(struct fixture *w)
{
    put_user(w, "root", ABSENT, 5);
    put_user(w, "al", LIST(slice_str("gone"), slice_str("rx")), 1);
    put_user(w, "bo", ABSENT, 1);
    put_user(w, "di", LIST(slice_str("empty")), 1);
    put_user(w, "nobody", LIST(slice_str("gone")), 1);
    put_role(w, "rx", LIST(slice_str("/foo"), slice_str("/bar*"), slice_str("/d/*")),
             LIST(slice_str("/foo*")), 1);
    put_role(w, "empty", LIST(slice_str("")), ABSENT, 1);
    put_role(w, "guest", LIST(slice_str("/g"), slice_str("/h/*")), EMPTY, 1);
}

static bool ask(const struct fixture *w, const struct question *q)
{
    const struct auth_user *user = NULL;

    if (q->user != NULL) {
        user = auth_find_user(&w->auth, slice_str(q->user));
        assert_non_null(user);
    }
    return auth_allows(&w->auth, user, slice_str(q->key), q->write, q->recursive);
}

static void patterns_cover_what_etcds_do(void **state)
{
    struct fixture *w = *state;

    make_permissions(w);
    do_plain(w, COMMAND_AUTH_ENABLE, AUTH_OK, 1);
    for (size_t i = 0; i < COUNT(questions); i++) {
        if (ask(w, &questions[i]) != questions[i].allowed)
            fail_msg("question %zu", i);
    }
}

static void everything_is_allowed_while_the_switch_is_off(void **state)
{
    struct fixture *w = *state;

    make_permissions(w);
    for (size_t i = 0; i < COUNT(questions); i++) {
        if (!ask(w, &questions[i]))
            fail_msg("question %zu", i);
    }
}

static void without_the_role_guest_guests_may_nothing(void **state)
{
    struct fixture *w = *state;

    make_permissions(w);
    do_plain(w, COMMAND_AUTH_ENABLE, AUTH_OK, 1);
    do_named(w, COMMAND_AUTH_ROLE_DELETE, "guest", AUTH_OK, 1);
    assert_false(auth_allows(&w->auth, NULL, slice_str("/g"), false, false));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_change_makes_etcds_directories),
        TEST(a_failed_deletion_makes_them_too),
        TEST(a_touch_makes_them_once),
        TEST(the_switch_needs_root_and_makes_guest),
        TEST(the_user_root_always_has_the_role_root),
        TEST(the_role_root_cannot_be_changed),
        TEST(what_is_kept_is_a_copy_and_null_stays_null),
        TEST(what_a_role_shows_is_kept),
        TEST(users_and_roles_are_in_order_of_names),
        TEST(one_user_or_role_has_a_limit),
        TEST(there_is_a_limit),
        TEST(a_space_with_a_limit_limits_them),
        TEST(patterns_cover_what_etcds_do),
        TEST(everything_is_allowed_while_the_switch_is_off),
        TEST(without_the_role_guest_guests_may_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
