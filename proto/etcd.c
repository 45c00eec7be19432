/* Requests to etcd's v2 keys API. See etcd.h for the contract. */
#include "proto/etcd.h"

#include <stdio.h>
#include <strings.h>

#include "proto/url.h"

enum param {
    PARAM_PREV_INDEX,
    PARAM_WAIT_INDEX,
    PARAM_RECURSIVE,
    PARAM_SORTED,
    PARAM_WAIT,
    PARAM_DIR,
    PARAM_QUORUM,
    PARAM_STREAM,
    PARAM_PREV_VALUE,
    PARAM_NO_VALUE_ON_SUCCESS,
    PARAM_TTL,
    PARAM_PREV_EXIST,
    PARAM_REFRESH,
    PARAM_VALUE,
    PARAM_COUNT
};

static const char *const param_names[PARAM_COUNT] = {
    [PARAM_PREV_INDEX] = "prevIndex",
    [PARAM_WAIT_INDEX] = "waitIndex",
    [PARAM_RECURSIVE] = "recursive",
    [PARAM_SORTED] = "sorted",
    [PARAM_WAIT] = "wait",
    [PARAM_DIR] = "dir",
    [PARAM_QUORUM] = "quorum",
    [PARAM_STREAM] = "stream",
    [PARAM_PREV_VALUE] = "prevValue",
    [PARAM_NO_VALUE_ON_SUCCESS] = "noValueOnSuccess",
    [PARAM_TTL] = "ttl",
    [PARAM_PREV_EXIST] = "prevExist",
    [PARAM_REFRESH] = "refresh",
    [PARAM_VALUE] = "value",
};

/* The parameters of a request, still escaped, and the first thing that was wrong with one. */
struct params {
    struct slice value[PARAM_COUNT]; /* ptr is NULL when not given */
    struct etcd_refusal *why;
};

static bool is_given(const struct params *p, enum param param)
{
    return p->value[param].ptr != NULL;
}

static bool refuse_params(struct params *p, enum etcd_code code, const char *cause)
{
    p->why->code = code;
    snprintf(p->why->cause, sizeof p->why->cause, "%s", cause);
    return false;
}

static bool refuse_value(struct params *p, enum etcd_code code, enum param param)
{
    /* These two lack the quotes, in etcd too. */
    bool bare = param == PARAM_PREV_EXIST || param == PARAM_REFRESH;
    const char *quote = bare ? "" : "\"";

    p->why->code = code;
    snprintf(p->why->cause, sizeof p->why->cause, "invalid value for %s%s%s", quote,
             param_names[param], quote);
    return false;
}

/* The unescaped bytes of a short value; it cuts values that are longer than any legal number or
 * bool, which are then refused. */
static struct slice short_value(struct slice escaped, uint8_t *buf, size_t cap)
{
    size_t len = url_value_len(escaped);

    if (len > cap || escaped.len > 3 * cap)
        return (struct slice){(const uint8_t *)"too long", 8};
    return url_unescape_value(escaped, buf);
}

static bool take_bool(struct params *p, enum param param, bool *out)
{
    uint8_t buf[8];

    return !is_given(p, param) ||
           etcd_parse_bool(short_value(p->value[param], buf, sizeof buf), out) ||
           refuse_value(p, ETCD_INVALID_FIELD, param);
}

static bool take_u64(struct params *p, enum param param, enum etcd_code code, uint64_t *out)
{
    uint8_t buf[64];

    return !is_given(p, param) ||
           slice_to_u64(short_value(p->value[param], buf, sizeof buf), UINT64_MAX, out) ||
           refuse_value(p, code, param);
}

static bool find_params(struct params *p, struct slice form, struct slice query)
{
    struct url_error error;

    if (!url_check_form(form, &error) || !url_check_form(query, &error))
        return refuse_params(p, ETCD_INVALID_FORM, error.text);
    return url_find_params(form, query, param_names, PARAM_COUNT, p->value) ||
           refuse_params(p, ETCD_INVALID_FORM, "rdzvd: more than 10000 parameters");
}

/* Which operation it is; the first condition that holds. */
static enum etcd_op choose_op(enum http_method method, const struct etcd_request *r, bool wait,
                              bool quorum, bool prev_exist, bool prev_exist_given)
{
    bool compare = r->prev_index != 0 || r->prev_value.len != 0;

    switch (method) {
    case HTTP_PUT:
        if (prev_exist_given && !prev_exist)
            return ETCD_OP_CREATE;
        if (compare)
            return ETCD_OP_COMPARE_AND_SWAP;
        return prev_exist_given ? ETCD_OP_UPDATE : ETCD_OP_SET;
    case HTTP_POST:
        return ETCD_OP_CREATE_IN_ORDER;
    case HTTP_DELETE:
        return compare ? ETCD_OP_COMPARE_AND_DELETE : ETCD_OP_DELETE;
    default:
        return wait && !quorum ? ETCD_OP_WATCH : ETCD_OP_GET;
    }
}

bool etcd_parse_request(enum http_method method, struct slice form, struct slice query,
                        struct etcd_request *out, struct etcd_refusal *why)
{
    struct params p = {.why = why};
    struct etcd_request r = {0};
    bool wait = false, quorum = false, prev_exist = false;

    /* This order is etcd's (parseKeyRequest), and the first failure is the answer. */
    if (!find_params(&p, form, query) ||
        !take_u64(&p, PARAM_PREV_INDEX, ETCD_INDEX_NOT_A_NUMBER, &r.prev_index) ||
        !take_u64(&p, PARAM_WAIT_INDEX, ETCD_INDEX_NOT_A_NUMBER, &r.wait_index) ||
        !take_bool(&p, PARAM_RECURSIVE, &r.recursive) || !take_bool(&p, PARAM_SORTED, &r.sorted) ||
        !take_bool(&p, PARAM_WAIT, &wait) || !take_bool(&p, PARAM_DIR, &r.dir) ||
        !take_bool(&p, PARAM_QUORUM, &quorum) || !take_bool(&p, PARAM_STREAM, &r.stream))
        return false;
    if (wait && method != HTTP_GET)
        return refuse_params(&p, ETCD_INVALID_FIELD, "\"wait\" can only be used with GET requests");
    r.prev_value = p.value[PARAM_PREV_VALUE];
    if (is_given(&p, PARAM_PREV_VALUE) && r.prev_value.len == 0)
        return refuse_params(&p, ETCD_PREV_VALUE_REQUIRED, "\"prevValue\" cannot be empty");
    r.has_ttl = p.value[PARAM_TTL].len != 0; /* empty: there is none */
    if (!take_bool(&p, PARAM_NO_VALUE_ON_SUCCESS, &r.no_value_on_success) ||
        (r.has_ttl && !take_u64(&p, PARAM_TTL, ETCD_TTL_NOT_A_NUMBER, &r.ttl_s)) ||
        !take_bool(&p, PARAM_PREV_EXIST, &prev_exist) || !take_bool(&p, PARAM_REFRESH, &r.refresh))
        return false;
    r.value = p.value[PARAM_VALUE];
    if (r.refresh && r.value.len != 0)
        return refuse_params(&p, ETCD_REFRESH_VALUE, "A value was provided on a refresh");
    if (r.refresh && !r.has_ttl)
        return refuse_params(&p, ETCD_REFRESH_TTL_REQUIRED, "No TTL value set");

    r.op = choose_op(method, &r, wait, quorum, prev_exist, is_given(&p, PARAM_PREV_EXIST));
    *out = r;
    return true;
}

/* Go parses the body of PATCH as well, but etcd refuses that method before. */
bool etcd_has_form(enum http_method method, struct slice content_type)
{
    static const char form_type[] = "application/x-www-form-urlencoded";
    size_t len = sizeof form_type - 1;
    struct slice rest;

    if ((method != HTTP_PUT && method != HTTP_POST) || content_type.len < len ||
        strncasecmp((const char *)content_type.ptr, form_type, len) != 0)
        return false;
    rest = slice_from(content_type, len); /* "; charset=utf-8" */
    while (rest.len > 0 && (rest.ptr[0] == ' ' || rest.ptr[0] == '\t'))
        rest = slice_from(rest, 1);
    return rest.len == 0 || rest.ptr[0] == ';';
}
