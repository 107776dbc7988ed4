/*
 * Faults under the layer check, with all that it looks for: its books run out of memory, the
 * program's calls do not notice.  What the books do not know is not told.
 */
#include "faulted.h"

#include <stdlib.h>

static aclrtStream stream;
static aclrtEvent event;
static void *block;
static void *host;

static aclError do_init(struct scene *s)
{
    return aclInit(NULL);
}

/* ---- objects ---- */

static aclError do_stream(struct scene *s)
{
    return aclrtCreateStream(&stream);
}

static void end_stream(struct scene *s)
{
    assert_acl_ok(aclrtDestroyStream(stream));
}

static aclError do_event(struct scene *s)
{
    return aclrtCreateEvent(&event);
}

static void end_event(struct scene *s)
{
    assert_acl_ok(aclrtDestroyEvent(event));
}

static aclError do_block(struct scene *s)
{
    return aclrtMalloc(&block, 5000, ACL_MEM_MALLOC_HUGE_FIRST);
}

static void end_block(struct scene *s)
{
    assert_acl_ok(aclrtFree(block));
    assert_int_equal(stats().blocks, 0);
}

static aclError do_host(struct scene *s)
{
    return aclrtMallocHost(&host, 5000);
}

static void end_host(struct scene *s)
{
    assert_acl_ok(aclrtFreeHost(host));
    assert_int_equal(stats().host_blocks, 0);
}

static void have_addresses(struct scene *s)
{
    s->va = reserve(CHUNK);
    s->handle = alloc(CHUNK);
}

static aclError do_map(struct scene *s)
{
    return aclrtMapMem(s->va, CHUNK, 0, s->handle, 0);
}

static void end_map(struct scene *s)
{
    assert_acl_ok(aclrtUnmapMem(s->va));
    assert_acl_ok(aclrtFreePhysical(s->handle));
    assert_acl_ok(aclrtReleaseMemAddress(s->va));
}

/* ---- work ---- */

static void have_work(struct scene *s)
{
    assert_acl_ok(do_stream(s));
    assert_acl_ok(do_event(s));
    assert_acl_ok(do_block(s));
    assert_acl_ok(do_host(s));
}

static aclError do_copy(struct scene *s)
{
    return aclrtMemcpyAsync(block, 5000, host, 4999, ACL_MEMCPY_HOST_TO_DEVICE, stream);
}

/* The stream waits, so that the copy stands in a list of the books. */
static void have_waiting_work(struct scene *s)
{
    have_work(s);
    assert_acl_ok(aclrtStreamWaitEvent(stream, event));
}

static void let_it_go(struct scene *s)
{
    aclrtStream other;

    assert_acl_ok(aclrtCreateStream(&other));
    assert_acl_ok(aclrtRecordEvent(event, other));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtDestroyStream(other));
}

static aclError do_record(struct scene *s)
{
    return aclrtRecordEvent(event, stream);
}

static void end_work(struct scene *s)
{
    assert_acl_ok(aclrtSynchronizeStream(stream));
    end_event(s);
    end_stream(s);
    end_block(s);
    end_host(s);
}

static const struct step steps[] = {
    {"starting", NULL, NULL, do_init, .is_init = true},
    {"a stream", NULL, NULL, do_stream, NULL, NULL, end_stream},
    {"an event", NULL, NULL, do_event, NULL, NULL, end_event},
    {"a block", NULL, NULL, do_block, NULL, NULL, end_block},
    {"a block of the host", NULL, NULL, do_host, NULL, NULL, end_host},
    {"a mapping", NULL, have_addresses, do_map, NULL, NULL, end_map},
    {"a copy", NULL, have_work, do_copy, NULL, NULL, end_work},
    {"a copy that waits", NULL, have_waiting_work, do_copy, NULL, let_it_go, end_work},
    {"a record", NULL, have_work, do_record, NULL, NULL, end_work},
};

int main(int argc, char **argv)
{
    setenv("ACLMEM_LAYERS", "check", 1);
    setenv("ACLMEM_CHECK", "all", 1);
    return run_faulted(steps, argc, argv);
}
