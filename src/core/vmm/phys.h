/*
 * Physical memory, which an aclrtDrvMemHandle names.
 *
 * Two counts.  handle_refs is the program's: one from aclrtMallocPhysical, one for each
 * retain; at zero the handle is dead for the program.  refs keeps the memory: one while
 * the handle lives, one for each mapping (a mapping is kept by work in flight and by host
 * views in turn).  The memory goes with the last one, and with it the handle's number:
 * until then a retain by address brings the handle back.
 */
#ifndef AM_CORE_PHYS_H
#define AM_CORE_PHYS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "acl/acl_rt.h"
#include "backend/backend.h"
#include "base/handle.h"
#include "core/device/domain.h"
#include "core/vmm/vspace.h"

enum am_phys_export { AM_EXPORT_NONE, AM_EXPORT_BEGUN, AM_EXPORT_DONE };

/* The fields that mapping and unmapping use come first, in few cache lines. */
struct am_phys {
    struct am_named named;        /* published unless the memory is a heap's */
    _Atomic uint32_t handle_refs; /* written under lock, as the next three */
    uint32_t n_mappings;
    bool was_mapped; /* ever, by this handle or by the exported one */
    /* With its device: it is neither mapped nor retained any more.  Read without lock. */
    atomic_bool is_killed;
    uint8_t export; /* lock; enum am_phys_export: core/ipc/share.h */
    uint8_t attr;   /* what the program asked for: am_phys_prop() */
    int8_t home; /* whose memory it is: the domain's, unless it was imported elsewhere */
    bool is_imported; /* from another process, or from this one */
    struct am_latch lock;
    LIST_HEAD(am_mappings, am_mapping) mappings; /* lock */
    struct am_domain *domain;
    size_t asked; /* bytes that the program asked for; mem.size is rounded up */
    struct am_mem mem;

    uint32_t location_id; /* what the program asked for, as the next one */
    uint8_t location_type;
    bool is_program;    /* it has, or had, a handle of the program's */
    bool is_charged;    /* to the domain; the caller of am_phys_charge() writes it */
    uint8_t charged_by; /* the shard of the thread that did it */
    bool is_entered;    /* in the domain, */
    uint8_t entered_by; /* by a thread of this shard */
    uint64_t share;     /* in the ledger, held instead of a charge; 0: none */
    /*
     * The number that it was exported or imported by last: the same means the same
     * bytes.
     */
    _Atomic uint64_t share_number;
};

static inline aclrtMemAttr am_phys_attr(const struct am_phys *phys)
{
    return (aclrtMemAttr)phys->attr;
}

/* The description that it was made by; the other fields have one value only. */
aclrtPhysicalMemProp am_phys_prop(const struct am_phys *phys);

/* Whether product, rules and machine have memory of this description. */
aclError am_phys_check(const aclrtPhysicalMemProp *prop);

aclError am_phys_create(size_t size, const aclrtPhysicalMemProp *prop, void **ret_handle);

/*
 * Memory for an owner of ours: no handle, not counted; the caller has its one reference.
 */
aclError am_phys_create_owned(size_t size, const aclrtPhysicalMemProp *prop,
                              struct am_domain *domain, struct am_phys **ret_phys);

/*
 * Memory for a heap, of whose bytes the program asked for `asked`.  am_phys_kill_all() does
 * not find it: the heap itself frees it.
 */
aclError am_phys_create_bare(struct am_domain *domain, enum am_bank_kind kind,
                             size_t size, size_t asked, struct am_phys **ret_phys);

/*
 * A heap keeps memory that is not in use: its bytes are not charged to the domain until
 * am_phys_charge(), which fails with 207001 and a message about `asked` bytes.
 */
void am_phys_uncharge(struct am_phys *phys);
aclError am_phys_charge(struct am_phys *phys, size_t asked);

/*
 * Memory of another process: the memory of a descriptor, described by prop, used in this
 * domain.  The exporter is charged for it.
 */
struct am_import {
    uint64_t number;
    int fd;
    size_t size;
    size_t asked;
    aclrtPhysicalMemProp prop;
    struct am_domain *domain;
    int32_t home;
    uint64_t share; /* of the domain's ledger, which has been joined; 0: none */
    bool is_own;    /* the exporter is this process */
    /* NULL, or memory of another machine, and fd is not used; it is taken over, too */
    const struct am_mem *remote;
};
/*
 * With a handle, and for an owner of ours.  Both take over the claim on the number, also on
 * failure.
 */
aclError am_phys_import(const struct am_import *import, void **ret_handle);
aclError am_phys_import_owned(const struct am_import *import, struct am_phys **ret_phys);

/* aclrtFreePhysical: one handle reference less. */
aclError am_phys_free(void *handle);

/* The memory behind a live handle, valid in this read section; fails with 107017. */
aclError am_phys_find(void *handle, struct am_phys **ret_phys);
/* The same with one more reference. */
aclError am_phys_get(void *handle, struct am_phys **ret_phys);
/* The same for memory whose handle may be dead. */
struct am_phys *am_phys_ref(struct am_phys *phys);
void am_phys_put(struct am_phys *phys);

/* Ends the export of memory; false: it is not exported.  No lock is held. */
bool am_phys_end_export(struct am_phys *phys);

/* All memory of a domain: mappings go, handles die; work in flight keeps what it holds. */
void am_phys_kill_all(struct am_domain *domain);

/* The program's physical memory that is alive; called in a read section. */
struct am_phys_sums {
    uint64_t n_physes;
    uint64_t n_mappings;
    uint64_t size; /* except in devices that were reset */
};
struct am_phys_sums am_phys_sum(void);

#endif
