/*
 * Every name of the toolkit's lists, with the library that has it.
 *
 * Before it is included, NAME_AT(name) says what stands in `at`: the function, for a
 * program that is linked with it, or NULL.
 */
#ifndef TEST_TOOLKIT_NAMES_H
#define TEST_TOOLKIT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
#include "acl/acl_prof.h"
#include "acl/acl_tdt.h"
#include "aclnn/aclnn_base.h"
#include "hccl/hccl.h"

typedef void (*any_fn)(void);

struct name {
    const char *library;
    const char *name;
    any_fn at;
    bool (*gives_its_value)(any_fn fn); /* NULL: the function works */
};

/* What no header declares. */
#define AM_REFUSED_NAME(name_, value_) intptr_t name_(void);
#include "../../src/toolkit/opapi.def"
#undef AM_REFUSED_NAME
#define AM_RUNTIME(name_, params_) int32_t name_ params_;
#include "../../src/toolkit/runtime.def"
#undef AM_RUNTIME

/* A refused function looks at no argument, so a call without any stands for all calls. */
#define AM_DATA(name_)
#define AM_REFUSED(ret_, name_, params_, value_) \
    static bool calls_##name_(any_fn fn) \
    { \
        return ((ret_(*)(void))fn)() == (ret_)(value_); \
    }
#define AM_REFUSED_NAME(name_, value_) AM_REFUSED(intptr_t, name_, (void), value_)
#include "../../src/toolkit/acl_op_compiler.def"
#include "../../src/toolkit/acl_tdt_channel.def"
#include "../../src/toolkit/ascendcl.def"
#include "../../src/toolkit/hccl.def"
#include "../../src/toolkit/nnopbase.def"
#include "../../src/toolkit/opapi.def"
#undef AM_DATA
#undef AM_REFUSED
#undef AM_REFUSED_NAME

#define AM_DATA(name_) {LIBRARY, #name_, NAME_AT(name_), NULL},
#define AM_REFUSED(ret_, name_, params_, value_) \
    {LIBRARY, #name_, NAME_AT(name_), calls_##name_},
#define AM_REFUSED_NAME(name_, value_) {LIBRARY, #name_, NAME_AT(name_), calls_##name_},
#define AM_RUNTIME(name_, params_) {LIBRARY, #name_, NAME_AT(name_), NULL},
static const struct name names[] = {
#define LIBRARY "libascendcl.so"
#include "../../src/toolkit/ascendcl.def"
#include "../../src/toolkit/runtime.def"
#undef LIBRARY
#define LIBRARY "libacl_op_compiler.so"
#include "../../src/toolkit/acl_op_compiler.def"
#undef LIBRARY
#define LIBRARY "libacl_tdt_channel.so"
#include "../../src/toolkit/acl_tdt_channel.def"
#undef LIBRARY
#define LIBRARY "libhccl.so"
#include "../../src/toolkit/hccl.def"
#undef LIBRARY
#define LIBRARY "libnnopbase.so"
#include "../../src/toolkit/nnopbase.def"
#undef LIBRARY
#define LIBRARY "libopapi.so"
#include "../../src/toolkit/opapi.def"
#undef LIBRARY
};
#undef AM_DATA
#undef AM_REFUSED
#undef AM_REFUSED_NAME
#undef AM_RUNTIME

enum { N_NAMES = sizeof(names) / sizeof(names[0]) };

#endif
