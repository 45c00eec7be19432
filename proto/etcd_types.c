/* Actions, error codes and nodes of etcd. See etcd_types.h for the contract. */
#include "proto/etcd_types.h"

#include "proto/json.h"

const char *const etcd_action_names[] = {
    [ETCD_GET] = "get",
    [ETCD_SET] = "set",
    [ETCD_CREATE] = "create",
    [ETCD_UPDATE] = "update",
    [ETCD_COMPARE_AND_SWAP] = "compareAndSwap",
    [ETCD_DELETE] = "delete",
    [ETCD_COMPARE_AND_DELETE] = "compareAndDelete",
    [ETCD_EXPIRE] = "expire",
};

static const struct {
    enum etcd_code code;
    unsigned status;
    const char *message;
} errors[] = {
    {ETCD_KEY_NOT_FOUND, 404, "Key not found"},
    {ETCD_COMPARE_FAILED, 412, "Compare failed"},
    {ETCD_NOT_A_FILE, 403, "Not a file"},
    {ETCD_NOT_A_DIRECTORY, 400, "Not a directory"},
    {ETCD_KEY_EXISTS, 412, "Key already exists"},
    {ETCD_ROOT_READ_ONLY, 400, "Root is read only"},
    {ETCD_DIRECTORY_NOT_EMPTY, 403, "Directory not empty"},
    {ETCD_PREV_VALUE_REQUIRED, 400, "PrevValue is Required in POST form"},
    {ETCD_TTL_NOT_A_NUMBER, 400, "The given TTL in POST form is not a number"},
    {ETCD_INDEX_NOT_A_NUMBER, 400, "The given index in POST form is not a number"},
    {ETCD_INVALID_FIELD, 400, "Invalid field"},
    {ETCD_INVALID_FORM, 400, "Invalid POST form"},
    {ETCD_REFRESH_VALUE, 400, "Value provided on refresh"},
    {ETCD_REFRESH_TTL_REQUIRED, 400, "A TTL must be provided on refresh"},
    {ETCD_INTERNAL, 500, "Raft Internal Error"},
    {ETCD_INDEX_CLEARED, 400, "The event in requested index is outdated and cleared"},
};

bool etcd_parse_bool(struct slice text, bool *out)
{
    static const char *const words[] = {"0", "f", "F", "FALSE", "false", "False",
                                        "1", "t", "T", "TRUE",  "true",  "True"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (slice_is(text, words[i])) {
            *out = i >= 6;
            return true;
        }
    }
    return false;
}

static size_t error_slot(enum etcd_code code)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (errors[i].code == code)
            return i;
    }
    return error_slot(ETCD_INTERNAL);
}

unsigned etcd_status(enum etcd_code code)
{
    return errors[error_slot(code)].status;
}

void etcd_write_node_begin(struct writer *w, const struct etcd_node *node)
{
    writer_u8(w, '{');
    if (node->key.len != 0) {
        writer_str(w, "\"key\":");
        json_string(w, node->key);
    }
    if (node->has_value)
        writer_str(w, node->key.len != 0 ? ",\"value\":\"" : "\"value\":\"");
}

void etcd_write_node_rest(struct writer *w, const struct etcd_node *node)
{
    bool first = node->key.len == 0 && !node->has_value;

    if (node->has_value)
        writer_u8(w, '"');
    if (node->dir) {
        writer_str(w, first ? "\"dir\":true" : ",\"dir\":true");
        first = false;
    }
    if (node->has_expiration) {
        writer_str(w, first ? "\"expiration\":" : ",\"expiration\":");
        json_time(w, node->expires_ns);
    }
    if (node->has_expiration && node->ttl_s != 0) {
        writer_str(w, ",\"ttl\":");
        json_i64(w, node->ttl_s);
    }
}

void etcd_write_node_open(struct writer *w, const struct etcd_node *node)
{
    etcd_write_node_begin(w, node);
    if (node->has_value)
        json_text(w, node->value);
    etcd_write_node_rest(w, node);
}

void etcd_write_node_close(struct writer *w, const struct etcd_node *node)
{
    if (node->modified != 0) {
        writer_str(w, ",\"modifiedIndex\":");
        json_u64(w, node->modified);
    }
    if (node->created != 0) {
        writer_str(w, ",\"createdIndex\":");
        json_u64(w, node->created);
    }
    writer_u8(w, '}');
}

void etcd_write_event(struct writer *w, enum etcd_action action, const struct etcd_node *node,
                      const struct etcd_node *prev)
{
    writer_str(w, "{\"action\":\"");
    writer_str(w, etcd_action_names[action]);
    writer_str(w, "\",\"node\":");
    etcd_write_node_open(w, node);
    etcd_write_node_close(w, node);
    if (prev != NULL) {
        writer_str(w, ",\"prevNode\":");
        etcd_write_node_open(w, prev);
        etcd_write_node_close(w, prev);
    }
    writer_str(w, "}\n");
}

void etcd_write_error(struct writer *w, enum etcd_code code, struct slice cause, uint64_t index)
{
    writer_str(w, "{\"errorCode\":");
    json_u64(w, (uint64_t)code);
    writer_str(w, ",\"message\":");
    json_string(w, slice_str(errors[error_slot(code)].message));
    if (cause.len != 0) {
        writer_str(w, ",\"cause\":");
        json_string(w, cause);
    }
    writer_str(w, ",\"index\":");
    json_u64(w, index);
    writer_str(w, "}\n");
}
