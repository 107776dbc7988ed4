/*
 * Fuzzes the reader of pickles: snapshots of PyTorch come as such, from anywhere.
 *
 * The values that it returns are visited, a bounded number of them: values may be shared,
 * so a small pickle can have very many.  The reader frees no value, since the command ends
 * soon; here they lie in memory that each run uses anew.
 */
#include <stdlib.h>

#include "../../tools/aclmem/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static _Alignas(16) char arena[32 << 20];
static size_t used;

static void *arena_take(size_t size)
{
    size_t room = (size + 15) & ~(size_t)15;

    if (room < size || room > sizeof arena - used)
        return NULL;
    used += room;
    return arena + used - room;
}

static void arena_give(void *at)
{
}

/* Visits values until so many were seen, at most so deep. */
static void visit(json_t *value, unsigned depth, unsigned *left)
{
    const char *key;
    json_t *member;
    size_t i;

    if (value == NULL)
        abort();
    if (depth == 0 || *left == 0)
        return;
    --*left;
    json_array_foreach (value, i, member)
        visit(member, depth - 1, left);
    json_object_foreach (value, key, member)
        visit(member, depth - 1, left);
    if (json_is_string(value) && json_string_value(value) == NULL)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const char *why = NULL;
    unsigned left = 10000;
    json_t *data;

    json_set_alloc_funcs(arena_take, arena_give);
    used = 0;
    data = pickle_read(bytes, n, &why);
    if ((data == NULL) == (why == NULL))
        abort(); /* one of the two */
    if (data != NULL)
        visit(data, 64, &left);
    return 0;
}
