/*
 * The additions of aclmem to AscendCL.
 *
 * Everything under acl/ is the vendor's interface, letter for letter.  This header is
 * ours: access to device memory for code that stands in for a kernel, counts of live
 * objects, and the version.  None of it exists on an NPU, so keep it out of code that
 * must run there.
 */
#ifndef ACLMEM_ACLMEM_H
#define ACLMEM_ACLMEM_H

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * An address through which the program may read and write the `size` bytes of device
 * memory at devPtr, as a kernel on the device would.  The range may cross any number of
 * mappings; the address range is contiguous.  The memory stays alive until
 * aclmem_host_view_end(), even if it is unmapped and freed in between.  A hole, or memory
 * that the mapping gives no access to, is refused.
 */
aclError aclmem_host_view(const void *devPtr, size_t size, void **hostPtr);

/* Ends a view; hostPtr is what aclmem_host_view() gave. */
aclError aclmem_host_view_end(void *hostPtr);

/* Counts of live objects in this process, and of warnings. */
typedef struct aclmem_stats {
    uint64_t
        reservations;     /* address ranges from aclrtReserveMemAddress and its sibling */
    uint64_t handles;     /* physical allocations whose memory is alive, mapped or not */
    uint64_t mappings;    /* ranges from aclrtMapMem and aclrtMemMapNoAccess */
    uint64_t contexts;    /* from aclrtCreateContext; default contexts are not counted */
    uint64_t views;       /* from aclmem_host_view */
    uint64_t warnings;    /* log lines of level warn or error since the process began */
    uint64_t blocks;      /* from aclrtMalloc and its relatives */
    uint64_t host_blocks; /* from aclrtMallocHost and its sibling */
    uint64_t rsv[8];      /* zero */
} aclmem_stats;

/* Works before aclInit and after aclFinalize too. */
aclError aclmem_get_stats(aclmem_stats *stats);

/*
 * Cutting one block of aclrtMalloc or aclrtMallocHost into pieces, by the rule of the
 * documents: a piece of len bytes takes m = ALIGN_UP[len,32] + 32 bytes, and every piece
 * starts on a multiple of 64, so that the next one follows ALIGN_UP[m,64] bytes later,
 * where ALIGN_UP[x,k] = ((x - 1) / k + 1) * k.
 *
 *     aclmem_suballoc_size(100) == 160, aclmem_suballoc_stride(100) == 192
 *
 * Both are 0 for len 0 and where the result does not fit into a size_t.  (Ascend 950 does
 * without the 32 bytes; with them a program is right everywhere.)
 */
static inline size_t aclmem_align_up(size_t x, size_t k)
{
    return x == 0 || (x - 1) / k + 1 > (size_t)-1 / k ? 0 : ((x - 1) / k + 1) * k;
}

static inline size_t aclmem_suballoc_size(size_t len)
{
    size_t rounded = aclmem_align_up(len, 32);

    return rounded == 0 || rounded > (size_t)-1 - 32 ? 0 : rounded + 32;
}

static inline size_t aclmem_suballoc_stride(size_t len)
{
    return aclmem_align_up(aclmem_suballoc_size(len), 64);
}

/*
 * The value in force of an option, by its name ("ACLMEM_RULES"); NULL when there is no
 * such option.  The text is valid until the process ends.
 */
const char *aclmem_option(const char *name);

/*
 * The device memory of each process of this user, and the options in force, as JSON: the
 * output of the command `aclmem info --json` prints, described in docs/GUIDE.md.  The text
 * is the caller's to free(). Nothing is started for it and nothing is changed; before
 * aclInit it shows the devices that the environment asks for.
 */
aclError aclmem_info(char **json);

/* "0.3.0" */
const char *aclmem_version(void);

/*
 * For bindings of other languages.  aclmem_set_callers() gives the library's layers the place where
 * in a program of that language the calls of this thread come from, innermost first, as a
 * JSON array of [function, file, line]; the text is the caller's and has to stay until the
 * next call with NULL.  aclmem_wants_callers() is 0 if no layer uses the text.
 */
int aclmem_wants_callers(void);
void aclmem_set_callers(const char *frames);

/*
 * For programs that run tests: what the layer check (ACLMEM_LAYERS=check) finds in a
 * session.  From aclmem_check_begin() on findings are collected and not printed, a
 * finding that was reported before the call is reported again, and holding more than
 * `limit` bytes of device memory in addition to what was held at the call is a finding,
 * too; 0 is no limit.  aclmem_check_findings() returns the findings so far, each once, as a
 * JSON array, which the caller gives to free(); docs/CHECK.md describes it.
 * aclmem_check_end() returns the rest and ends the session.  With leaks not 0, objects that
 * were made since the first call and are still there are findings.  One session is on at a
 * time, for all threads.  All work before aclInit and after aclFinalize.
 */
aclError aclmem_check_begin(uint64_t limit);
aclError aclmem_check_findings(char **findings);
aclError aclmem_check_end(int leaks, char **findings);

/*
 * For a function on a stream (aclrtLaunchHostFunc, a blocking callback) that waits for a
 * thread of the program: called in the function behind the wait, it declares that work
 * behind the function is ordered after what the program's threads did before.  The layer
 * check cannot see such a wait and would report the work as a race.  Does nothing without
 * the layer, and outside a function.
 */
void aclmem_check_function_waited(void);

#ifdef __cplusplus
}
#endif

#endif
