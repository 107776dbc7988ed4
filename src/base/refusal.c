/*
 * See refusal.h.
 *
 * The table has a fixed size and takes no lock: a thread claims a row by the hash of
 * place and reason, and the thread that claimed it prints the line.  Refusals that do
 * not fit in the table are only counted.
 */
#include "base/refusal.h"

#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "base/log.h"
#include "base/util.h"

#define ROWS 256
#define FRAMES_MAX 32 /* of ours, between the program and the failure */
#define PLACE_SIZE 128

static struct {
    _Atomic uint64_t key; /* 0: free */
    _Atomic uint64_t n;   /* since the last end */
    _Atomic uintptr_t place;
    _Atomic(const char *) function;
    _Atomic(const char *) name; /* of the code; NULL: unknown */
    atomic_int code;
} rows[ROWS];
static _Atomic uint64_t n_beyond; /* that found no free row */
static _Atomic pid_t owner;       /* whose counts these are */

static const struct {
    const char *function;
    int code;
} expected[] = {
#define AM_EXPECTED(function_, code_) {#function_, code_},
#include "base/expected_codes.def"
#undef AM_EXPECTED
};

bool am_refusal_is_expected(int code, const char *function)
{
    for (size_t i = 0; function != NULL && i < AM_ARRAY_SIZE(expected); i++) {
        if (expected[i].code == code && strcmp(expected[i].function, function) == 0)
            return true;
    }
    return false;
}

/* The file that has the address, and where it begins; false: none. */
static bool module_find(uintptr_t addr, Dl_info *ret_info)
{
    return dladdr((void *)addr, ret_info) != 0 && ret_info->dli_fbase != NULL;
}

/*
 * The call in the program: of the frames above this one the first whose code is not ours.
 * 0 if every frame is ours, as in a program that is linked with our objects.
 */
static uintptr_t place_find(void)
{
    void *frames[FRAMES_MAX];
    int n = backtrace(frames, FRAMES_MAX);
    Dl_info own;
    Dl_info info;

    if (!module_find((uintptr_t)place_find, &own))
        return 0;
    for (int i = 1; i < n; i++) {
        uintptr_t call = (uintptr_t)frames[i] - 1; /* the frame has where it returns to */

        if (!module_find(call, &info) || info.dli_fbase != own.dli_fbase)
            return call;
    }
    return 0;
}

/* "hello+0x1234", as addr2line takes it. */
static void place_print(uintptr_t place, char *text)
{
    const char *name;
    uintptr_t base;
    Dl_info info;

    if (!module_find(place, &info)) {
        snprintf(text, PLACE_SIZE, "%#lx", (unsigned long)place);
        return;
    }
    name = strrchr(info.dli_fname, '/');
    base = (uintptr_t)info.dli_fbase;
    /* A program that is not position-independent has its addresses in its file. */
    if (((const ElfW(Ehdr) *)base)->e_type == ET_EXEC)
        base = 0;
    snprintf(text, PLACE_SIZE, "%.96s+%#lx", name != NULL ? name + 1 : info.dli_fname,
             (unsigned long)(place - base));
}

/* Of the place and of the message without the words that begin with a digit; never 0. */
static uint64_t key_of(uintptr_t place, int code, const char *message)
{
    uint64_t key = UINT64_C(0xcbf29ce484222325) ^ place ^ (uint64_t)(unsigned)code << 32;
    bool is_number = false;
    char before = ' ';

    for (; *message != '\0'; before = *message++) {
        if (!isalnum((unsigned char)*message))
            is_number = false;
        else if (!isalnum((unsigned char)before))
            is_number = isdigit((unsigned char)*message);
        if (!is_number)
            key = (key ^ (unsigned char)*message) * UINT64_C(0x100000001b3);
    }
    return key != 0 ? key : 1;
}

/* The counts of a parent are not those of its child. */
static void counts_own(void)
{
    pid_t self = getpid();
    pid_t seen = owner;

    if (seen == self || !atomic_compare_exchange_strong(&owner, &seen, self))
        return;
    for (size_t i = 0; i < ROWS; i++)
        rows[i].n = 0;
    n_beyond = 0;
}

static void refusal_print(uintptr_t place, const char *message)
{
    char text[PLACE_SIZE];

    place_print(place, text);
    if (place != 0)
        am_log(AM_LOG_REFUSAL, "%s: %s", text, message);
    else
        am_log(AM_LOG_REFUSAL, "%s", message);
}

void am_refusal_note(int code, const char *name, const char *function,
                     const char *message)
{
    uintptr_t place;
    uint64_t key;

    if (am_refusal_is_expected(code, function))
        return;
    counts_own();
    place = place_find();
    key = key_of(place, code, message);
    for (size_t i = 0; i < ROWS; i++) {
        size_t row = (key + i) % ROWS;
        uint64_t seen = 0;

        if (atomic_compare_exchange_strong(&rows[row].key, &seen, key)) {
            rows[row].place = place;
            rows[row].function = function;
            rows[row].name = name;
            rows[row].code = code;
            rows[row].n++;
            refusal_print(place, message);
            return;
        }
        if (seen == key) {
            rows[row].n++;
            return;
        }
    }
    n_beyond++;
}

static void row_end(size_t row)
{
    uint64_t n = atomic_exchange(&rows[row].n, 0);
    const char *function = rows[row].function;
    const char *name = rows[row].name;
    char text[PLACE_SIZE];

    if (n < 2)
        return;
    place_print(rows[row].place, text);
    am_log(AM_LOG_REFUSAL, "%s%s%s was refused %llu times in all [%d %s]",
           rows[row].place != 0 ? text : "", rows[row].place != 0 ? ": " : "",
           function != NULL ? function : "a call", (unsigned long long)n, rows[row].code,
           name != NULL ? name : "unknown");
}

void am_refusal_end(void)
{
    uint64_t beyond;

    if (owner != getpid())
        return;
    for (size_t i = 0; i < ROWS; i++)
        row_end(i);
    beyond = atomic_exchange(&n_beyond, 0);
    if (beyond > 0)
        am_log(AM_LOG_REFUSAL,
               "%llu more calls were refused, for other reasons or at other places than "
               "the first %d",
               (unsigned long long)beyond, ROWS);
}

/* A program that does not call aclFinalize gets the summary, too. */
__attribute__((destructor)) static void refusal_exit(void)
{
    am_refusal_end();
}
