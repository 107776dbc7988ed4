/* Host functions that declare what they use: aclmem/access.h. */
#include "aclmem/access.h"
#include "bugs.h"

#define ROWS 64
#define COLUMNS 256 /* bytes */

static void nothing(void *arg)
{
    (void)arg;
}

/* Columns from `first` on, of each row: strided memory. */
MISTAKE void declare_columns(aclrtStream stream, char *matrix, int64_t first, int64_t n,
                             uint32_t flags)
{
    int64_t sizes[] = {ROWS, n};
    int64_t strides[] = {COLUMNS, 1};
    aclmem_access access = {matrix + first, 1, flags, 2, sizes, strides};

    aclmem_declare_access(&access, 1);
    MUST(aclrtLaunchHostFunc(stream, nothing, NULL));
}

struct pair {
    aclrtStream first;
    aclrtStream second;
    char *matrix;
};

static struct pair pair_open(void)
{
    return (struct pair){stream_open(), stream_open(),
                         block_open((size_t)ROWS * COLUMNS)};
}

static void pair_close(struct pair pair)
{
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyStream(pair.first));
    MUST(aclrtDestroyStream(pair.second));
    MUST(aclrtFree(pair.matrix));
}

/* Two functions on two streams share one column. */
static void shared_column(bool is_fixed)
{
    struct pair pair = pair_open();

    declare_columns(pair.first, pair.matrix, 0, 128, ACLMEM_ACCESS_WRITE);
    declare_columns(pair.second, pair.matrix, is_fixed ? 128 : 127, 64,
                    ACLMEM_ACCESS_READ);
    pair_close(pair);
}

/* A function is not known to be done when a later function of its stream begins. */
static void function_before(bool is_fixed)
{
    struct pair pair = pair_open();
    aclrtEvent event;

    MUST(aclrtCreateEvent(&event));
    declare_columns(pair.first, pair.matrix, 0, 8, ACLMEM_ACCESS_WRITE);
    declare_columns(pair.first, pair.matrix, 8, 8, ACLMEM_ACCESS_WRITE);
    if (is_fixed) {
        MUST(aclrtRecordEvent(event, pair.first));
        MUST(aclrtStreamWaitEvent(pair.second, event));
    }
    declare_columns(pair.second, pair.matrix, 0, 8, ACLMEM_ACCESS_WRITE);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyEvent(event));
    pair_close(pair);
}

MISTAKE void declare_row(aclrtStream stream, char *row, int64_t stride, uint32_t flags)
{
    int64_t size = COLUMNS;
    aclmem_access access = {row, 1, flags, 1, &size, &stride};

    aclmem_declare_access(&access, 1);
    MUST(aclrtLaunchHostFunc(stream, nothing, NULL));
}

/* A function uses more than the block has; the row is declared from its end. */
static void behind_the_end(bool is_fixed)
{
    struct pair pair = pair_open();

    declare_row(pair.first, pair.matrix + ROWS * COLUMNS - (is_fixed ? 1 : -63), -1,
                ACLMEM_ACCESS_WRITE);
    pair_close(pair);
}

/* A model writes columns that the other stream reads while it runs. */
static void in_a_model(bool is_fixed)
{
    struct pair pair = pair_open();
    aclmdlRI model;

    MUST(aclmdlRICaptureBegin(pair.first, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
    declare_columns(pair.first, pair.matrix, 0, 128, ACLMEM_ACCESS_WRITE);
    MUST(aclmdlRICaptureEnd(pair.first, &model));
    MUST(aclmdlRIExecuteAsync(model, pair.first));
    declare_columns(pair.second, pair.matrix, is_fixed ? 128 : 127, 64,
                    ACLMEM_ACCESS_READ);
    MUST(aclrtSynchronizeDevice());
    MUST(aclmdlRIDestroy(model));
    pair_close(pair);
}

/* Interleaved halves, reads of one place, a repeated element, and no element. */
static void interleaved(bool is_fixed)
{
    struct pair pair = pair_open();
    int64_t sizes[] = {COLUMNS / 2, 3};
    int64_t strides[] = {2, 0};
    aclmem_access even = {pair.matrix, 1, ACLMEM_ACCESS_WRITE, 2, sizes, strides};
    aclmem_access odd = {pair.matrix + 1, 1, ACLMEM_ACCESS_WRITE, 2, sizes, strides};
    int64_t none[] = {0, 3};
    aclmem_access empty = {pair.matrix, 1, ACLMEM_ACCESS_WRITE, 2, none, strides};

    (void)is_fixed;
    aclmem_declare_access(&even, 1);
    MUST(aclrtLaunchHostFunc(pair.first, nothing, NULL));
    aclmem_declare_access(&odd, 1);
    MUST(aclrtLaunchHostFunc(pair.second, nothing, NULL));
    aclmem_declare_access(&empty, 1);
    MUST(aclrtLaunchHostFunc(pair.second, nothing, NULL));
    declare_columns(pair.first, pair.matrix + COLUMNS, 0, 1, ACLMEM_ACCESS_READ);
    pair_close(pair);
}

/* Without a host view a function copies what it declared. */
static void fill_by_copies(void *row)
{
    char bytes[COLUMNS];

    MUST(aclrtSetDevice(0));
    MUST(aclrtMemcpy(bytes, COLUMNS, row, COLUMNS, ACL_MEMCPY_DEVICE_TO_HOST));
    MUST(aclrtMemcpy(row, COLUMNS, bytes, COLUMNS, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void launch_copies(aclrtStream stream, char *row)
{
    int64_t size = COLUMNS;
    int64_t stride = 1;
    aclmem_access access = {row, 1,     ACLMEM_ACCESS_READ | ACLMEM_ACCESS_WRITE,
                            1,   &size, &stride};

    aclmem_declare_access(&access, 1);
    MUST(aclrtLaunchHostFunc(stream, fill_by_copies, row));
}

/* The same function at once and in a model, while another stream uses the next row. */
static void copies_of_a_function(bool is_fixed)
{
    struct pair pair = pair_open();
    aclmdlRI model;

    MUST(aclrtMemset(pair.matrix, 2 * COLUMNS, 0, 2 * COLUMNS));
    launch_copies(pair.first, pair.matrix);
    MUST(aclmdlRICaptureBegin(pair.first, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    launch_copies(pair.first, pair.matrix);
    MUST(aclmdlRICaptureEnd(pair.first, &model));
    MUST(aclmdlRIExecuteAsync(model, pair.first));
    MUST(aclmdlRIExecuteAsync(model, pair.first));
    declare_row(pair.second, pair.matrix + (is_fixed ? COLUMNS : 0), 1,
                ACLMEM_ACCESS_READ);
    MUST(aclrtSynchronizeDevice());
    MUST(aclmdlRIDestroy(model));
    pair_close(pair);
}

const struct bug access_bugs[] = {
    BUG("race/access-column", shared_column, "race", "reads byte 127 of the block",
        "declare_columns"),
    BUG("race/access-functions", function_before, "race", "writes byte 0 of the block",
        "declare_columns"),
    BUG("race/access-model", in_a_model, "race", "reads byte 127 of the block",
        "declare_columns"),
    BUG("race/access-copies", copies_of_a_function, "race", "reads byte 0 of the block",
        "declare_row"),
    BUG("out-of-bounds/access", behind_the_end, "out-of-bounds",
        "an access of the function", "declare_row"),
    BUG("none/access-interleaved", interleaved, "", "", ""),
    {.name = NULL},
};
