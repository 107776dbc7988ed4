/*
 * The arguments of each function as a struct with the names of its parameters:
 *
 *     struct am_args_aclrtUnmapMem { void *virPtr; };
 *
 * A layer has one wrapper for all rows of api.def, which packs the arguments and hands
 * them on; what knows a function gets them typed and named.
 */
#ifndef AM_LAYER_ARGS_H
#define AM_LAYER_ARGS_H

#include "api/api.h"

/* How many arguments a row has: AM_COUNT (a, b) is 2, AM_COUNT () is 0. */
#define AM_COUNT(...) AM_COUNT_(_, ##__VA_ARGS__, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define AM_COUNT_(_, a, b, c, d, e, f, g, h, i, j, n_, ...) n_
#define AM_PASTE(a_, b_) AM_PASTE_(a_, b_)
#define AM_PASTE_(a_, b_) a_##b_

#define AM_EACH_0(M, S, ...)
#define AM_EACH_1(M, S, a) M(a)
#define AM_EACH_2(M, S, a, ...) M(a) S() AM_EACH_1(M, S, __VA_ARGS__)
#define AM_EACH_3(M, S, a, ...) M(a) S() AM_EACH_2(M, S, __VA_ARGS__)
#define AM_EACH_4(M, S, a, ...) M(a) S() AM_EACH_3(M, S, __VA_ARGS__)
#define AM_EACH_5(M, S, a, ...) M(a) S() AM_EACH_4(M, S, __VA_ARGS__)
#define AM_EACH_6(M, S, a, ...) M(a) S() AM_EACH_5(M, S, __VA_ARGS__)
#define AM_EACH_7(M, S, a, ...) M(a) S() AM_EACH_6(M, S, __VA_ARGS__)
#define AM_EACH_8(M, S, a, ...) M(a) S() AM_EACH_7(M, S, __VA_ARGS__)
#define AM_EACH_9(M, S, a, ...) M(a) S() AM_EACH_8(M, S, __VA_ARGS__)
#define AM_EACH_10(M, S, a, ...) M(a) S() AM_EACH_9(M, S, __VA_ARGS__)

/*
 * AM_JOIN(M, S, args_, list_): M for each of the list, which is as long as args_, and S()
 * between two.
 */
#define AM_JOIN(M, S, args_, list_) \
    AM_APPLY(AM_PASTE(AM_EACH_, AM_COUNT args_), M, S, AM_UNWRAP list_)
#define AM_FOR_EACH(M, args_, list_) AM_JOIN(M, AM_ROW_NOTHING, args_, list_)
#define AM_APPLY(macro_, ...) macro_(__VA_ARGS__)
#define AM_UNWRAP(...) __VA_ARGS__

#define AM_MEMBER(param_) param_;
#define AM_API(ret_, name_, params_, args_, sig_) \
    struct am_args_##name_ { \
        AM_FOR_EACH(AM_MEMBER, args_, params_) \
    };
#include "api/api.def"

/* An initializer: { .virPtr = virPtr, } */
#define AM_PACK_ONE(arg_) .arg_ = arg_,
#define AM_PACK(args_) \
    { \
        AM_FOR_EACH(AM_PACK_ONE, args_, args_) \
    }

/* The same in a call: packed.virPtr, packed.size. */
#define AM_UNPACK_ONE(arg_) packed.arg_
#define AM_UNPACK(args_) (AM_JOIN(AM_UNPACK_ONE, AM_ROW_COMMA, args_, args_))

#endif
