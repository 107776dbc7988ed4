/* See echo.h. */
#include "echo.h"

#include <string.h>

/* How many arguments a row has: COUNT (a, b) is 2, COUNT () is 0. */
#define COUNT(...) COUNT_(_, ##__VA_ARGS__, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define COUNT_(_, a, b, c, d, e, f, g, h, i, j, n_, ...) n_
#define PASTE(a_, b_) PASTE_(a_, b_)
#define PASTE_(a_, b_) a_##b_

/*
 * EACH_n(M, a, b, ...) is M(0, a) M(1, b) ...: the arguments are numbered from the left.
 */
#define EACH_0(M, ...)
#define EACH_1(M, a) M(0, a)
#define EACH_2(M, a, b) EACH_1(M, a) M(1, b)
#define EACH_3(M, a, b, c) EACH_2(M, a, b) M(2, c)
#define EACH_4(M, a, b, c, d) EACH_3(M, a, b, c) M(3, d)
#define EACH_5(M, a, b, c, d, e) EACH_4(M, a, b, c, d) M(4, e)
#define EACH_6(M, a, b, c, d, e, f) EACH_5(M, a, b, c, d, e) M(5, f)
#define EACH_7(M, a, b, c, d, e, f, g) EACH_6(M, a, b, c, d, e, f) M(6, g)
#define EACH_8(M, a, b, c, d, e, f, g, h) EACH_7(M, a, b, c, d, e, f, g) M(7, h)
#define EACH_9(M, a, b, c, d, e, f, g, h, i) EACH_8(M, a, b, c, d, e, f, g, h) M(8, i)
#define EACH_10(M, a, b, c, d, e, f, g, h, i, j) \
    EACH_9(M, a, b, c, d, e, f, g, h, i) M(9, j)

/*
 * FOR_EACH(M, COUNT (a, b), (a, b)).  (void) declares nothing, so the arguments say how
 * many.
 */
#define FOR_EACH(M, n_, list_) APPLY(PASTE(EACH_, n_), M, UNWRAP list_)
#define APPLY(macro_, ...) macro_(__VA_ARGS__)
#define UNWRAP(...) __VA_ARGS__

/* Of a struct the first 8 bytes. */
#define VALUE(i_, arg_) memcpy(&call.arg[i_], &arg_, sizeof arg_ < 8 ? sizeof arg_ : 8);
/* A parameter may be const, so it is not assigned to: it is another view of the value. */
#define DECLARE(i_, param_) \
    union { \
        uint64_t bits; /* the low bytes come first */ \
        struct { \
            param_; \
        } as; \
    } a##i_ = {.bits = values[i_]};
#define PASS(i_, arg_) COMMA_##i_ a##i_.as.arg_
#define COMMA_0
#define COMMA_1 ,
#define COMMA_2 ,
#define COMMA_3 ,
#define COMMA_4 ,
#define COMMA_5 ,
#define COMMA_6 ,
#define COMMA_7 ,
#define COMMA_8 ,
#define COMMA_9 ,

struct echo_call echo_calls[4096];
size_t echo_n_calls;

static const struct am_api *below;

static void note(struct echo_call call)
{
    if (echo_n_calls < sizeof echo_calls / sizeof echo_calls[0])
        echo_calls[echo_n_calls++] = call;
}

uint64_t echo_result(enum am_api_id id)
{
    return 0x5000u + id;
}

#define NOTE(name_, args_) \
    struct echo_call call = {.id = AM_API_##name_, .n_args = COUNT args_}; \
    FOR_EACH(VALUE, COUNT args_, args_) \
    note(call);

/* The layers' functions. */
#define AM_API(ret_, name_, params_, args_, sig_) \
    static ret_ echo_##name_ params_ \
    { \
        NOTE(name_, args_) \
        return (ret_)(uintptr_t)echo_result(AM_API_##name_); \
    } \
    static ret_ pass_##name_ params_ \
    { \
        NOTE(name_, args_) \
        return below->name_ args_; \
    }
#include "api/api.def"

static const struct am_api echo_table = {
#define AM_API(ret_, name_, ...) .name_ = echo_##name_,
#include "api/api.def"
};

static const struct am_api pass_table = {
#define AM_API(ret_, name_, ...) .name_ = pass_##name_,
#include "api/api.def"
};

static void attach(const struct am_api *table)
{
    below = table;
}

const struct am_layer echo_layer = {"echo", &echo_table, attach, NULL};
const struct am_layer pass_layer = {"pass", &pass_table, attach, NULL};

/* The callers. */
#define AM_API(ret_, name_, params_, args_, sig_) \
    static uint64_t call_##name_(const uint64_t *values) \
    { \
        FOR_EACH(DECLARE, COUNT args_, params_) \
        return (uint64_t)(uintptr_t)name_(FOR_EACH(PASS, COUNT args_, args_)); \
    }
#include "api/api.def"

const struct echo_row echo_rows[AM_API_COUNT] = {
#define AM_API(ret_, name_, params_, args_, sig_) \
    [AM_API_##name_] = {#name_, sig_, true, call_##name_},
#define AM_API_RET(ret_, name_, params_, args_, sig_) \
    [AM_API_##name_] = {#name_, sig_, false, call_##name_},
#include "api/api.def"
};
