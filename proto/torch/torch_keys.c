/* The keys of torch's agents. See torch_keys.h for the contract. */
#include "proto/torch/torch_keys.h"

#include <inttypes.h>
#include <stdio.h>

/* Reads the ".<digits>" before the '/' at `slash`; *dot is where it begins. */
static bool read_round(struct slice key, size_t slash, size_t *dot, int64_t *round)
{
    size_t at = slash;
    uint64_t number;

    while (at > 0 && key.ptr[at - 1] >= '0' && key.ptr[at - 1] <= '9')
        at--;
    if (at == 0 || key.ptr[at - 1] != '.' ||
        !slice_to_u64((struct slice){key.ptr + at, slash - at}, INT64_MAX, &number))
        return false;
    *dot = at - 1;
    *round = (int64_t)number;
    return true;
}

size_t torch_key_fronts(struct slice key, size_t *lengths, size_t most)
{
    const size_t prefix = sizeof TORCH_RUN_PREFIX - 1;
    size_t slash = key.len, count = 0, dot;
    int64_t round;

    if (!torch_key_is_agents(key))
        return 0;
    while (slash-- > prefix && count < most) {
        if (key.ptr[slash] == '/' && read_round(key, slash, &dot, &round) && dot >= prefix)
            lengths[count++] = dot;
    }
    return count;
}

void torch_key_split(struct slice key, size_t front, int64_t *round, struct slice *name)
{
    const uint8_t *slash = memchr(key.ptr + front, '/', key.len - front);
    size_t dot;

    read_round(key, (size_t)(slash - key.ptr), &dot, round);
    *name = slice_from(key, (size_t)(slash - key.ptr) + 1);
}

size_t torch_key_write(struct slice run_key, int64_t round, const char *name, uint8_t *out)
{
    slice_copy(out, run_key);
    return run_key.len + (size_t)snprintf((char *)out + run_key.len, TORCH_KEY_ROOM,
                                          ".%" PRId64 "/%s", round, name);
}

/* --- Writers. --- */

/* Takes the text behind the last `mark` off the end of *text. False: `mark` is not there. */
static bool take_last(struct slice *text, const char *mark, struct slice *last)
{
    size_t len = strlen(mark);

    for (size_t at = text->len; at >= len; at--) {
        if (memcmp(text->ptr + at - len, mark, len) != 0)
            continue;
        *last = slice_from(*text, at);
        text->len = at - len;
        return true;
    }
    return false;
}

static bool read_rank(struct slice text, int64_t *rank)
{
    uint64_t number;

    if (!slice_to_u64(text, INT32_MAX, &number))
        return false;
    *rank = (int64_t)number;
    return true;
}

/* PREFIX/default_pg/0, or the same with //NAME behind it, of a group that new_group() made. */
static bool read_group(struct slice front, struct slice *group)
{
    struct slice counter;

    if (take_last(&front, "//", group))
        return true;
    *group = slice_str(TORCH_DEFAULT_GROUP);
    return take_last(&front, "/" TORCH_DEFAULT_GROUP "/", &counter) &&
           read_rank(counter, &(int64_t){0});
}

/* GROUP//cpu//0/R: the address of rank R for gloo. Torch 1.13 writes GROUP/0/R. */
static bool read_gloo(struct slice key, struct torch_key_writer *out)
{
    struct slice rank, context;

    *out = (struct torch_key_writer){
        .what = "gloo's address", .when = "in init_process_group()", .each_writes = true};
    if (!take_last(&key, "/", &rank) || !read_rank(rank, &out->rank) ||
        !take_last(&key, "/", &context) || !slice_is(context, "0"))
        return false;
    if (take_last(&key, "//cpu/", &context))
        return context.len == 0 && read_group(key, &out->group);
    return !take_last(&key, "//", &context) && read_group(key, &out->group);
}

/* GROUP//cuda//K: the id of the K-th communicator, of rank 0. GROUP//cuda//LOW:HIGH: of a pair. */
static bool read_nccl(struct slice key, struct torch_key_writer *out)
{
    struct slice name, high;

    *out = (struct torch_key_writer){.what = "NCCL's id", .when = "at its first collective"};
    if (!take_last(&key, "//cuda//", &name) || !read_group(key, &out->group))
        return false;
    if (read_rank(name, &(int64_t){0}))
        return true;
    out->what = "NCCL's id for a pair of ranks";
    return take_last(&name, ":", &high) && read_rank(high, &(int64_t){0}) &&
           read_rank(name, &out->rank);
}

bool torch_key_writer_of_worker(struct slice key, struct torch_key_writer *out)
{
    /* Without torchrun, torch 1.13 writes //worker/attempt_0/... */
    if (slice_starts_with(key, slice_str("//worker/")))
        key = slice_from(key, 1);
    if (read_nccl(key, out))
        return true;
    if (!read_gloo(key, out))
        return false;
    if (out->group.len == TORCH_GROUP_HASH)
        out->when = "in new_group(), if all its ranks have made as many groups before";
    else if (!slice_is(out->group, TORCH_DEFAULT_GROUP))
        out->when = "in new_group()";
    return true;
}

bool torch_key_writer_of_round(struct slice name, struct torch_key_writer *out)
{
    static const char roles[] = TORCH_ROLE_KEYS "/";

    /* node 0 writes all except the roles */
    *out =
        (struct torch_key_writer){.what = "the address of the workers' store",
                                  .when = "once it sees the round; does its own name resolve there "
                                          "(rdzvctl preflight)?",
                                  .rank = 0};
    if (slice_is(name, "MASTER_ADDR") || slice_is(name, "MASTER_PORT"))
        return true;
    out->when = "when the round is complete";
    out->what = "the ranks of the workers";
    if (slice_starts_with(name, slice_str(TORCH_RANKS_KEYS)))
        return true;
    out->what = "the number of its workers";
    out->each_writes = true;
    return slice_starts_with(name, slice_str(roles)) &&
           read_rank(slice_from(name, sizeof roles - 1), &out->rank);
}

bool torch_key_writer_of_static(struct slice key, struct torch_key_writer *out)
{
    const uint8_t *name = memmem(key.ptr, key.len, "/torchelastic/", strlen("/torchelastic/"));

    if (name == NULL ||
        !torch_key_writer_of_round(slice_from(key, (size_t)(name + 1 - key.ptr)), out))
        return false;
    out->when = "when all nodes have come";
    return true;
}
