/* See key.h. */
#include "core/ipc/key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/tree.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/heap/heap.h"
#include "core/ipc/share.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"

/* ---- text ---- */

static const char *const kind_names[AM_SHARE_KINDS] = {
    [AM_SHARE_BLOCK] = "memory",
    [AM_SHARE_EVENT] = "event",
    [AM_SHARE_NOTIFY] = "notify",
};

void am_key_print(enum am_share_kind kind, const struct am_share_handle *share,
                  char key[AM_KEY_SIZE])
{
    snprintf(key, AM_KEY_SIZE, "aclmem-%s-%016" PRIx64 "%016" PRIx64 "%016" PRIx64,
             kind_names[kind], share->number, share->secret[0], share->secret[1]);
}

aclError am_key_parse(enum am_share_kind kind, const char *key,
                      struct am_share_handle *ret_share)
{
    char again[AM_KEY_SIZE];
    struct am_share_handle share = {0};
    bool has_end = memchr(key, '\0', AM_KEY_SIZE) != NULL;
    const char *dash = has_end ? strrchr(key, '-') : NULL;

    if (dash != NULL) /* any text: the handle is printed again and compared */
        sscanf(dash + 1, "%16" SCNx64 "%16" SCNx64 "%16" SCNx64, &share.number,
               &share.secret[0], &share.secret[1]);
    am_key_print(kind, &share, again);
    AM_REQUIRE(has_end && strcmp(key, again) == 0, ACL_ERROR_RT_PARAM_INVALID,
               "\"%.64s\" is not a key of this kind; a key has the form \"%s\"", key,
               again);
    *ret_share = share;
    return ACL_SUCCESS;
}

/* ---- export ---- */

aclError am_key_export(void *addr, size_t size, bool is_open, char ret_key[AM_KEY_SIZE])
{
    struct am_share_handle share;
    struct am_phys *phys;
    aclError rc;

    AM_TRY(am_share_check());
    AM_TRY(am_heap_share(addr, size, &phys));
    rc = am_share_offer(phys, AM_SHARE_BLOCK, size, is_open, &share);
    if (rc == ACL_SUCCESS)
        am_key_print(AM_SHARE_BLOCK, &share, ret_key);
    am_phys_put(phys); /* ends the key if another thread has freed the block */
    return rc;
}

aclError am_key_trust(const char *key, const int32_t *ids, size_t n)
{
    struct am_share_handle share;

    AM_TRY(am_key_parse(AM_SHARE_BLOCK, key, &share));
    return am_export_trust(AM_SHARE_BLOCK, &share, ids, n, false);
}

aclError am_key_check(const char *key)
{
    struct am_share_handle share;

    AM_TRY(am_key_parse(AM_SHARE_BLOCK, key, &share));
    AM_REQUIRE(am_export_is_own(AM_SHARE_BLOCK, &share), ACL_ERROR_RT_PARAM_INVALID,
               "this process does not export the key \"%s\"", key);
    return ACL_SUCCESS;
}

/* ---- import ---- */

/* An imported key. */
struct key {
    RB_ENTRY(key) node;
    struct am_share_handle handle;
    struct am_phys *phys; /* holds a reference */
    void *addr;
};

RB_HEAD(key_tree, key);
AM_TREE(key_tree, key, node, handle.number)

static struct {
    struct am_lock lock;
    struct key_tree imports; /* lock */
} keys = {.lock = AM_LOCK_INIT(AM_RANK_LEAF, "keys")};

/* All of it is one block, of as many bytes as the exporter named. */
static bool find_block(uintptr_t addr, struct am_bounds *ret_bounds)
{
    const struct am_mapping *mapping = am_mapping_find(addr);

    if (mapping == NULL)
        return false;
    *ret_bounds =
        am_bounds_of(mapping->start, mapping->phys->asked, mapping->phys->asked, false);
    return true;
}

static const struct am_owner key_owner = {
    .name = "aclrtIpcMemImportByKey",
    .find_block = find_block,
};

/* Binds imported memory to addresses; takes over the reference, also on failure. */
static aclError import_map(const struct am_share_handle *share, struct am_phys *phys,
                           void **ret_addr)
{
    struct key *key = am_sys_calloc(1, sizeof *key);
    aclError rc;

    if (key == NULL) {
        rc = am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a key");
        goto err_phys;
    }
    key->handle = *share;
    key->phys = phys;
    rc = am_vspace_reserve_owned(&key_owner, NULL, phys->mem.size, NULL, &key->addr);
    if (rc != ACL_SUCCESS)
        goto err_key;
    rc = am_vspace_map_owned(key->addr, phys, true);
    if (rc != ACL_SUCCESS)
        goto err_release;
    *ret_addr = key->addr;
    am_lock(&keys.lock);
    RB_INSERT(key_tree, &keys.imports, key);
    am_unlock(&keys.lock);
    return ACL_SUCCESS;

err_release:
    am_vspace_release_owned(key->addr);
err_key:
    free(key);
err_phys:
    am_phys_put(phys);
    return rc;
}

static void import_close(struct key *key)
{
    am_vspace_unmap_owned(key->addr, true);
    am_vspace_release_owned(key->addr);
    am_phys_put(key->phys);
    free(key);
}

/* Ends the import of a key; false: it is not imported, or has another secret. */
static bool import_end(const struct am_share_handle *share)
{
    struct key wanted = {.handle = *share};
    struct key *key;

    am_lock(&keys.lock);
    key = RB_FIND(key_tree, &keys.imports, &wanted);
    if (key != NULL && memcmp(&key->handle, share, sizeof *share) != 0)
        key = NULL;
    if (key != NULL)
        RB_REMOVE(key_tree, &keys.imports, key);
    am_unlock(&keys.lock);
    if (key != NULL)
        import_close(key);
    return key != NULL;
}

aclError am_key_import(const char *text, bool has_peer, void **ret_addr)
{
    struct am_import import;
    struct am_share_handle share;
    struct am_phys *phys;
    int32_t device;
    void *addr = NULL;
    aclError rc;

    AM_TRY(am_key_parse(AM_SHARE_BLOCK, text, &share));
    AM_TRY(am_context_device(&device));
    AM_TRY(am_share_fetch(AM_SHARE_BLOCK, &share, &am_devices.device[device], &import));
    rc = am_phys_import_owned(&import, &phys);
    close(import.fd);
    AM_TRY(rc);
    AM_TRY(import_map(&share, phys, &addr));
    if (has_peer && import.home != device)
        rc = am_peer_set(import.home, true);
    if (rc == ACL_SUCCESS)
        *ret_addr = addr;
    else
        import_end(&share);
    return rc;
}

aclError am_key_close(const char *text)
{
    struct am_share_handle share;
    struct am_phys *phys;
    bool has_ended = false;

    AM_TRY(am_key_parse(AM_SHARE_BLOCK, text, &share));
    if (import_end(&share))
        return ACL_SUCCESS;
    phys = (struct am_phys *)am_export_get(AM_SHARE_BLOCK, &share);
    if (phys != NULL) {
        has_ended = am_phys_end_export(phys);
        am_phys_put(phys);
    }
    AM_REQUIRE(has_ended, ACL_ERROR_RT_PARAM_INVALID,
               "the key \"%s\" is neither imported nor exported by this process; it was "
               "closed already, or its block freed",
               text);
    return ACL_SUCCESS;
}

static struct key *import_pop_of(int32_t device)
{
    struct key *key;

    am_lock(&keys.lock);
    RB_FOREACH (key, key_tree, &keys.imports) {
        if (device < 0 || key->phys->domain->device == device) {
            RB_REMOVE(key_tree, &keys.imports, key);
            break;
        }
    }
    am_unlock(&keys.lock);
    return key;
}

void am_key_close_imports(int32_t device)
{
    struct key *key;

    while ((key = import_pop_of(device)) != NULL)
        import_close(key);
}
