/* See trace.h. */
#include "layer/trace.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"
#include "core/watch.h"
#include "layer/args.h"
#include "layer/layers.h"
#include "layer/stacks.h"
#include "layer/trace_file.h"

static const struct am_api *_Atomic below;

/* ---- what is made from api.def ---- */

/* Which struct an argument is, or points to: a number for each. */
#define TYPES(type_, ...) \
    type_: \
    AM_TRACE_STRUCT_##type_, type_ * : AM_TRACE_STRUCT_##type_, \
                                       const type_ * : AM_TRACE_STRUCT_##type_,
#define STRUCT_OF(arg_) \
    _Generic((args->arg_), AM_TRACE_STRUCTS(TYPES, FIELD) default : 0),

#define AM_API(ret_, name_, params_, args_, sig_) \
    static const uint8_t *structs_##name_(struct am_args_##name_ *args) \
    { \
        static const uint8_t list[] = {AM_FOR_EACH(STRUCT_OF, args_, args_) 0}; \
        return list; \
    }
#include "api/api.def"

/* The letter of a result, and its value as 64 bits. */
#define RESULT_LETTER(type_) \
    _Generic((type_)0, aclError : 'r', const char * : 's', size_t : 'z', float : 'f', \
             aclFloat16 : 'h', uint32_t : 'u', default : 'p')

static inline uint64_t result_of_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline uint64_t result_of_number(uint64_t value)
{
    return value;
}

static inline uint64_t result_of_pointer(const void *value)
{
    return (uintptr_t)value;
}

#define RESULT(value_) \
    _Generic((value_), float : result_of_float, const char * : result_of_pointer, \
             void * : result_of_pointer, default : result_of_number)(value_)

/* Where each argument lies. */
#define ADDRESS_OF(arg_) &arg_,

#define AM_API(ret_, name_, params_, args_, sig_) \
    static ret_ trace_##name_ params_ \
    { \
        const void *const at[] = {AM_FOR_EACH(ADDRESS_OF, args_, args_) NULL}; \
        struct am_trace_call call; \
        ret_ result; \
        am_trace_begin(&call, AM_API_##name_, at); \
        result = below->name_ args_; \
        am_trace_end(&call, RESULT(result)); \
        return result; \
    }
#include "api/api.def"

struct am_trace_function am_trace_functions[AM_API_COUNT] = {
#define AM_API(ret_, name_, params_, args_, sig_) \
    [AM_API_##name_] = {.name = #name_, .signature = sig_, .result = RESULT_LETTER(ret_)},
#include "api/api.def"
};

static const struct am_api trace_table = {
#define AM_API(ret_, name_, params_, args_, sig_) .name_ = trace_##name_,
#include "api/api.def"
};

static void structs_fill(void)
{
#define AM_API(ret_, name_, params_, args_, sig_) \
    am_trace_functions[AM_API_##name_].structure = structs_##name_(NULL);
#include "api/api.def"
}

/* ---- the layer ---- */

static bool is_new; /* this process has yet to say what it is */

/* The thread that leaves last; others may still be in calls, which they record. */
static void process_end(void)
{
    am_trace_file_settle();
    am_trace_define_end();
}

static aclError prepare(void)
{
    static bool is_ready;
    const char *name = am_option_text(AM_OPTION_trace);
    int rc;

    if (!is_ready) {
        structs_fill();
        am_trace_describe();
        is_ready = atexit(process_end) == 0;
    }
    rc = am_trace_file_open(name, &is_new);
    if (rc == -EINVAL)
        return am_fail(ACL_ERROR_INVALID_PARAM,
                       "ACLMEM_TRACE is \"%s\", which another process has open and which "
                       "is no trace of this version",
                       name);
    AM_REQUIRE(rc == 0, ACL_ERROR_INVALID_PARAM,
               "ACLMEM_TRACE is \"%s\", which cannot be written: %s", name,
               strerror(-rc));
    return ACL_SUCCESS;
}

static void attach(const struct am_api *table)
{
    int64_t stacks = am_option_number(AM_OPTION_stacks); /* none, fast, full */
    bool has_stacks = stacks != 0;

    below = table;
    if (has_stacks) {
        am_stacks_open();
        am_stacks_set_depth(stacks == 2 ? AM_STACK_FRAMES_MAX : AM_STACK_FRAMES);
        am_callers_are_wanted = true;
    }
    am_trace_stacks_set(has_stacks);
    if (is_new)
        am_trace_define(table);
    is_new = false;
    am_watch_tasks(am_trace_task);
    am_watch_held(am_trace_held);
}

const struct am_layer am_trace_layer = {"trace", &trace_table, attach, prepare};
