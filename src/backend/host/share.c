/*
 * Memory that is shared with other processes.
 *
 * A descriptor of a device's store would give access to all of the device, so exported
 * memory first moves to a separate memfd.  Only frames that were written are copied;
 * all other frames read as zero afterwards.  The memory is not in use during the move
 * (gates, copy.c), and later users find it in its new place.  The memfd is sealed against
 * changes of its size, by which another process could make touching it fatal.
 *
 * The exporter's view of the memfd is mapped when a copy or a host view first uses the
 * memory: mapping it takes as long as the rest of an export, and a process that serves
 * memory to others may never touch it.  An importer maps its view at once, and needs the
 * descriptor no more.
 */
#include "backend/host/host.h"

#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/sys.h"

/* Bytes to the new place, where there are any. */
static aclError frames_copy(struct am_mem *mem, struct host_store *to)
{
    struct host_store *from = host_mem(mem)->store;

    for (size_t at = 0; at < mem->size;) {
        size_t first = host_mem_frame(mem, at);
        size_t n = 0;
        size_t target = at >> AM_CHUNK_SHIFT;

        for (; at < mem->size && host_mem_frame(mem, at) == first + n &&
               (from->state[first + n] & (HOST_FRAME_HOLDS | HOST_FRAME_OLD)) ==
                   HOST_FRAME_HOLDS;
             at += AM_CHUNK)
            n++;
        if (n == 0) {
            at += AM_CHUNK;
            continue;
        }
        AM_TRY(host_store_ready(to, target, n));
        host_move(to->view + (target << AM_CHUNK_SHIFT),
                  from->view + (first << AM_CHUNK_SHIFT), n << AM_CHUNK_SHIFT);
    }
    return ACL_SUCCESS;
}

/* From the bank's store to a separate store. */
static aclError mem_move_out(struct am_mem *mem)
{
    struct host_mem *hm = host_mem(mem);
    struct host_store *store;
    aclError rc = ACL_SUCCESS;

    AM_TRY(host_store_create(mem->size, -1, HOST_FRAME_HOLDS, &store));
    if (mem->bank->spec.commit_now)
        rc = host_store_ready(store, 0, store->n_frames);
    if (rc == ACL_SUCCESS)
        rc = host_gate_shut(mem);
    if (rc != ACL_SUCCESS)
        goto err_store;
    rc = frames_copy(mem, store);
    if (rc != ACL_SUCCESS)
        goto err_gate;
    host_mem_give_frames(mem);
    free(hm->frames);
    hm->frames = NULL;
    hm->first = 0;
    hm->store = store;
    host_gate_open(mem);
    return ACL_SUCCESS;

err_gate:
    host_gate_open(mem);
err_store:
    host_store_destroy(store);
    return rc;
}

aclError host_mem_export(struct am_mem *mem, int *ret_fd)
{
    struct host_mem *hm = host_mem(mem);

    if (mem->bank->spec.is_isolated &&
        hm->store == ((struct host_bank *)mem->bank)->store)
        AM_TRY(mem_move_out(mem));
    if (!hm->store->is_sealed && am_sys_fcntl(hm->store->fd, F_ADD_SEALS, AM_SEALS) != 0)
        return host_error(errno, "sealing a memory file",
                          hm->store->n_frames << AM_CHUNK_SHIFT);
    hm->store->is_sealed = true;
    *ret_fd = hm->store->fd;
    return ACL_SUCCESS;
}

/*
 * The descriptor of another process may be anything.  Only a memory file whose end stays
 * where it is can be touched without a signal; one of reserved huge pages could run out
 * of them.
 */
static aclError descriptor_check(int fd, size_t size)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct statfs system;
    struct stat file;

    AM_REQUIRE(
        seals >= 0 && (seals & F_SEAL_SHRINK), ACL_ERROR_RT_IPC_ERROR,
        "the exporting process sent a descriptor that is not a sealed memory file");
    AM_REQUIRE(fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
                   file.st_size == (off_t)size,
               ACL_ERROR_RT_IPC_ERROR,
               "the exporting process sent %lld bytes of memory instead of %zu",
               (long long)file.st_size, size);
    AM_REQUIRE(
        fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC, ACL_ERROR_RT_IPC_ERROR,
        "the exporting process sent a memory file that does not lie in shared memory");
    return ACL_SUCCESS;
}

aclError host_mem_import(struct am_bank *bank, int fd, size_t size, struct am_mem *mem)
{
    struct host_mem *hm = host_mem(mem);

    AM_TRY(descriptor_check(fd, size));
    mem->bank = bank;
    mem->size = size;
    hm->frames = NULL;
    hm->first = 0;
    hm->gate = 0;
    return host_store_create(size, fd, HOST_FRAME_HOLDS, &hm->store);
}
