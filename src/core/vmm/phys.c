/* See phys.h. */
#include "core/vmm/phys.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/device/attr.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/exchange/exchange.h"
#include "core/ledger/ledger.h"
#include "core/vmm/vspace.h"

/* The domain and the NUMA node (-1: any) that a location names. */
static aclError location_find(const aclrtMemLocation *location,
                              struct am_domain **ret_domain, int *ret_node)
{
    int32_t id = (int32_t)location->id;
    struct am_device *device;

    *ret_node = -1;
    if (location->type == ACL_MEM_LOCATION_TYPE_DEVICE) {
        AM_TRY(am_device_find(id, &device));
        *ret_domain = device->domain;
    } else {
        if (location->type == ACL_MEM_LOCATION_TYPE_HOST_NUMA && id != -1) {
            AM_REQUIRE(am_machine_has_node(id), ACL_ERROR_RT_PARAM_INVALID,
                       "location.id is %d: the machine has no such NUMA node", id);
            *ret_node = id;
        }
        *ret_domain = am_devices.host;
    }
    AM_REQUIRE(*ret_domain != NULL, ACL_ERROR_UNINITIALIZE,
               "aclFinalize has been called");
    return ACL_SUCCESS;
}

aclError am_phys_check(const aclrtPhysicalMemProp *prop)
{
    struct am_domain *domain;
    int node;

    AM_TRY(am_attr_check(prop));
    return location_find(&prop->location, &domain, &node);
}

/* Bytes for size bytes of this kind; fails when that cannot be counted. */
static aclError size_round(size_t size, size_t granularity, size_t *ret_size)
{
    AM_REQUIRE(!am_setup.is_strict || am_is_aligned(size, granularity),
               ACL_ERROR_INVALID_PARAM,
               "size is %zu, not a multiple of %zu as editions before 8.5 require "
               "(ACLMEM_RULES=strict)",
               size, granularity);
    AM_REQUIRE(size <= SIZE_MAX - granularity, ACL_ERROR_RT_MEMORY_ALLOCATION,
               "Failed to allocate %zu bytes: no device has that much memory", size);
    *ret_size = am_align_up(size, granularity);
    return ACL_SUCCESS;
}

/*
 * A real device may have less than the ledger says: other programs use some of it, and the heaps
 * keep some.  Then the heaps free theirs, and the device is asked again.
 */
static aclError device_take(struct am_domain *domain, struct am_bank *bank, size_t size,
                            int node, struct am_mem *mem)
{
    char why[1024] = "";
    aclError rc =
        AM_CAPTURED(why, sizeof why, bank->ops->mem_create(bank, size, node, mem));

    if (rc == ACL_ERROR_RT_MEMORY_ALLOCATION && am_domain_trim(domain))
        return bank->ops->mem_create(bank, size, node, mem);
    AM_REQUIRE(rc == ACL_SUCCESS, rc, "%s", am_error_text(why));
    return ACL_SUCCESS;
}

/* Memory of the domain, charged to it; `asked` is for messages. */
static aclError mem_take(struct am_domain *domain, enum am_bank_kind kind, size_t size,
                         size_t asked, int node, struct am_mem *mem)
{
    struct am_bank *bank;
    aclError rc;

    AM_TRY(am_domain_charge(domain, size, asked));
    rc = am_domain_bank(domain, kind, &bank);
    if (rc == ACL_SUCCESS)
        rc = bank->ops->caps & AM_CAP_DEVICES
                 ? device_take(domain, bank, size, node, mem)
                 : bank->ops->mem_create(bank, size, node, mem);
    if (rc != ACL_SUCCESS)
        am_domain_uncharge(domain, am_shard(), size);
    return rc;
}

/* The phys is zeroed, and its memory exists already. */
static void phys_init(struct am_phys *phys, const aclrtPhysicalMemProp *prop,
                      size_t asked, struct am_domain *domain)
{
    phys->location_id = prop->location.id;
    phys->location_type = (uint8_t)prop->location.type;
    phys->attr = (uint8_t)prop->memAttr;
    phys->asked = asked;
    phys->domain = domain;
    phys->home = (int8_t)domain->device;
    phys->lock = (struct am_latch)AM_LATCH_INIT(AM_RANK_LEAF, "phys");
    phys->is_charged = true;
    phys->charged_by = (uint8_t)am_shard();
    LIST_INIT(&phys->mappings);
}

aclrtPhysicalMemProp am_phys_prop(const struct am_phys *phys)
{
    return (aclrtPhysicalMemProp){
        .handleType = ACL_MEM_HANDLE_TYPE_NONE,
        .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
        .memAttr = am_phys_attr(phys),
        .location = {.id = phys->location_id,
                     .type = (aclrtMemLocationType)phys->location_type},
    };
}

/* Why a phys is entered in its domain. */
enum user {
    USER_PROGRAM, /* it gets a handle */
    USER_OWNER,   /* a pool, managed memory, an imported block */
    USER_HEAP,    /* frees it with the heap, so it is not published */
};

/* Allocates the memory and its record; phys_enter() is next. */
static aclError phys_take(struct am_domain *domain, enum am_bank_kind kind, size_t size,
                          size_t asked, int node, const aclrtPhysicalMemProp *prop,
                          struct am_phys **ret_phys)
{
    struct am_phys *phys = am_named_alloc(AM_KIND_PHYS, sizeof *phys);
    aclError rc;

    if (phys == NULL)
        rc = am_fail(ACL_ERROR_BAD_ALLOC, "no host memory for the records of memory");
    else
        rc = mem_take(domain, kind, size, asked, node, &phys->mem);
    if (rc == ACL_SUCCESS) {
        phys_init(phys, prop, asked, domain);
        *ret_phys = phys;
        return ACL_SUCCESS;
    }
    if (phys != NULL)
        am_named_free(&phys->named);
    return rc;
}

/* The same of memory that the program describes. */
static aclError phys_make(size_t size, const aclrtPhysicalMemProp *prop,
                          struct am_domain *domain, int node, struct am_phys **ret_phys)
{
    size_t granularity = am_attr_granularity(am_attr_find(prop->memAttr));
    size_t rounded;

    AM_TRY(size_round(size, granularity, &rounded));
    return phys_take(domain, AM_BANK_MAIN, rounded, size, node, prop, ret_phys);
}

static void phys_unmake(struct am_phys *phys)
{
    struct am_domain *domain = phys->domain;
    size_t size = phys->mem.size;

    if (phys->export == AM_EXPORT_DONE) /* a block's */
        am_export_withdraw(phys->share_number);
    phys->mem.bank->ops->mem_destroy(&phys->mem);
    if (phys->is_imported)
        am_import_release(phys->share_number);
    if (phys->share != 0)
        am_ledger_share_leave(domain->ledger, phys->share);
    else if (!phys->is_imported && phys->is_charged)
        am_domain_uncharge(domain, phys->charged_by, size);
    if (phys->is_entered)
        am_domain_leave(domain, phys->entered_by);
    am_named_free(&phys->named);
}

/*
 * Enters it in its domain; *ret_handle is its handle, if the user is the program.  Freed on
 * failure: the library is stopping.  Publishing is the last step, because a reset of the
 * device may free the memory at once.
 */
static aclError phys_enter(struct am_phys *phys, enum user user, void **ret_handle)
{
    phys->is_entered = am_domain_enter(phys->domain);
    if (!phys->is_entered) {
        phys_unmake(phys);
        return am_fail(ACL_ERROR_UNINITIALIZE, "aclFinalize has been called");
    }
    phys->entered_by = (uint8_t)am_shard();
    if (user == USER_PROGRAM) {
        phys->is_program = true;
        atomic_init(&phys->handle_refs, 1);
        *ret_handle = am_named_publish(&phys->named);
    } else if (user == USER_OWNER) {
        (void)am_named_publish(&phys->named); /* am_phys_kill_all() finds it */
    }
    return ACL_SUCCESS;
}

aclError am_phys_create(size_t size, const aclrtPhysicalMemProp *prop, void **ret_handle)
{
    struct am_domain *domain;
    struct am_phys *phys;
    int node;

    AM_TRY(am_attr_check(prop));
    AM_TRY(location_find(&prop->location, &domain, &node));
    AM_TRY(phys_make(size, prop, domain, node, &phys));
    return phys_enter(phys, USER_PROGRAM, ret_handle);
}

static aclError import_make(const struct am_import *import, struct am_phys **ret_phys)
{
    struct am_phys *phys = am_named_alloc(AM_KIND_PHYS, sizeof *phys);
    struct am_bank *bank;
    aclError rc;

    if (phys == NULL) {
        rc = am_fail(ACL_ERROR_BAD_ALLOC,
                     "no host memory for the records of imported memory");
        goto err_import;
    }
    if (import->remote != NULL) {
        phys->mem = *import->remote;
    } else {
        rc = am_domain_bank(import->domain, AM_BANK_MAIN, &bank);
        if (rc == ACL_SUCCESS)
            rc = bank->ops->mem_import(bank, import->fd, import->size, &phys->mem);
        if (rc != ACL_SUCCESS)
            goto err_phys;
    }
    phys_init(phys, &import->prop, import->asked, import->domain);
    phys->home = (int8_t)import->home;
    phys->is_imported = import->number != 0;
    phys->share = import->share;
    phys->share_number = import->number;
    phys->was_mapped = import->is_own;
    *ret_phys = phys;
    return ACL_SUCCESS;

err_phys:
    am_named_free(&phys->named);
err_import:
    if (import->remote != NULL) {
        struct am_mem mem = *import->remote;

        mem.bank->ops->mem_destroy(&mem);
    }
    if (import->share != 0)
        am_ledger_share_leave(import->domain->ledger, import->share);
    am_import_release(import->number);
    return rc;
}

aclError am_phys_import(const struct am_import *import, void **ret_handle)
{
    struct am_phys *phys;

    AM_TRY(import_make(import, &phys));
    return phys_enter(phys, USER_PROGRAM, ret_handle);
}

aclError am_phys_import_owned(const struct am_import *import, struct am_phys **ret_phys)
{
    AM_TRY(import_make(import, ret_phys));
    return phys_enter(*ret_phys, USER_OWNER, NULL);
}

aclError am_phys_create_owned(size_t size, const aclrtPhysicalMemProp *prop,
                              struct am_domain *domain, struct am_phys **ret_phys)
{
    AM_TRY(phys_make(size, prop, domain, -1, ret_phys));
    return phys_enter(*ret_phys, USER_OWNER, NULL);
}

aclError am_phys_create_bare(struct am_domain *domain, enum am_bank_kind kind,
                             size_t size, size_t asked, struct am_phys **ret_phys)
{
    static const aclrtPhysicalMemProp prop = {.memAttr = ACL_MEM_NORMAL};

    AM_TRY(phys_take(domain, kind, size, asked, -1, &prop, ret_phys));
    (*ret_phys)->asked = size; /* all of it is the heap's */
    return phys_enter(*ret_phys, USER_HEAP, NULL);
}

void am_phys_uncharge(struct am_phys *phys)
{
    am_domain_uncharge(phys->domain, phys->charged_by, phys->mem.size);
    phys->is_charged = false;
}

aclError am_phys_charge(struct am_phys *phys, size_t asked)
{
    AM_TRY(am_domain_charge(phys->domain, phys->mem.size, asked));
    phys->is_charged = true;
    phys->charged_by = (uint8_t)am_shard();
    return ACL_SUCCESS;
}

struct am_phys *am_phys_ref(struct am_phys *phys)
{
    am_ref_more(&phys->named.refs);
    return phys;
}

void am_phys_put(struct am_phys *phys)
{
    if (!am_ref_drop(&phys->named.refs))
        return;
    am_assert(phys->handle_refs == 0 && phys->n_mappings == 0);
    phys_unmake(phys);
}

static aclError refuse_dead(void *handle)
{
    return am_fail(
        ACL_ERROR_RT_INVALID_HANDLE,
        "handle %p was freed; its memory lives until it is unmapped everywhere", handle);
}

aclError am_phys_find(void *handle, struct am_phys **ret_phys)
{
    struct am_phys *phys = am_named_find(AM_KIND_PHYS, handle);

    AM_REQUIRE(phys != NULL, ACL_ERROR_RT_INVALID_HANDLE, "handle %p %s", handle,
               am_handle_why(AM_KIND_PHYS, handle));
    if (phys->handle_refs == 0)
        return refuse_dead(handle);
    *ret_phys = phys;
    return ACL_SUCCESS;
}

aclError am_phys_get(void *handle, struct am_phys **ret_phys)
{
    struct am_phys *phys;
    bool is_alive;

    AM_TRY(am_phys_find(handle, &phys));
    am_latch_take(&phys->lock);
    is_alive = phys->handle_refs > 0; /* and holds a reference */
    if (is_alive)
        am_phys_ref(phys);
    am_latch_give(&phys->lock);
    if (!is_alive)
        return refuse_dead(handle);
    *ret_phys = phys;
    return ACL_SUCCESS;
}

/*
 * The handle dies, in one step with the number that other processes import its memory by:
 * a handle that is retained again may be exported anew.
 */
static uint64_t export_take_locked(struct am_phys *phys) AM_REQUIRES(phys->lock)
{
    if (phys->export != AM_EXPORT_DONE) /* one that is begun finds the handle dead */
        return 0;
    phys->export = AM_EXPORT_NONE;
    return phys->share_number;
}

bool am_phys_end_export(struct am_phys *phys)
{
    uint64_t number;

    am_latch_take(&phys->lock);
    number = export_take_locked(phys);
    am_latch_give(&phys->lock);
    if (number != 0)
        am_export_withdraw(number);
    return number != 0;
}

aclError am_phys_free(void *handle)
{
    struct am_phys *phys;
    uint64_t number = 0;
    bool is_mapped;
    uint32_t n;

    AM_TRY(am_phys_find(handle, &phys));
    am_latch_take(&phys->lock);
    n = atomic_load_explicit(&phys->handle_refs, memory_order_relaxed);
    is_mapped = am_setup.is_strict && n == 1 && phys->n_mappings > 0;
    if (n > 0 && !is_mapped)
        atomic_store_explicit(&phys->handle_refs, n - 1, memory_order_release);
    if (n == 1 && !is_mapped)
        number = export_take_locked(phys);
    am_latch_give(&phys->lock);
    if (n == 0)
        return refuse_dead(handle);
    AM_REQUIRE(
        !is_mapped, ACL_ERROR_RT_PARAM_INVALID,
        "handle %p is still mapped; editions before 9.1 require aclrtUnmapMem first "
        "(ACLMEM_RULES=strict)",
        handle);
    if (number != 0)
        am_export_withdraw(number); /* before the memory is freed */
    if (n == 1)
        am_phys_put(phys); /* the handle's reference */
    return ACL_SUCCESS;
}

void am_phys_kill_all(struct am_domain *domain)
{
    struct am_phys *phys;
    uint32_t at = 0;

    while (domain != NULL && (phys = am_named_next(AM_KIND_PHYS, &at)) != NULL) {
        if (phys->domain != domain || !am_ref_try(&phys->named.refs))
            continue; /* the second: it is being freed */
        if (am_vspace_kill(phys)) {
            am_phys_end_export(phys);
            am_phys_put(phys); /* the handle's */
        }
        am_phys_put(phys);
    }
}

struct am_phys_sums am_phys_sum(void)
{
    struct am_phys_sums sums = {0};
    struct am_phys *phys;
    uint32_t at = 0;

    while ((phys = am_named_next(AM_KIND_PHYS, &at)) != NULL) {
        if (!phys->is_program)
            continue;
        am_latch_take(&phys->lock);
        sums.n_physes++;
        sums.n_mappings += phys->n_mappings;
        sums.size += phys->is_killed ? 0 : phys->mem.size;
        am_latch_give(&phys->lock);
    }
    return sums;
}
