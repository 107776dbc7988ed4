/*
 * Hooks: memory that is exported and imported, by numbers, fabric handles and keys.
 *
 * Each of the three becomes one number.  What this process exported and imports are the same bytes.
 * An import that is refused, of memory that its exporter has freed, is an import of a
 * stale handle.  If the exporter is another process, both processes write a record, and the
 * command aclmem puts them together.
 */
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "layer/bytes.h"
#include "layer/hooks.h"

static uint64_t key_number(const char *key)
{
    return key != NULL
               ? am_hash_add(AM_HASH_START, key, strnlen(key, ACL_IPC_HANDLE_SIZE))
               : 0;
}

static uint64_t handle_number(const void *handle, aclrtMemSharedHandleType type)
{
    if (handle == NULL)
        return 0;
    if (type == ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT)
        return *(const uint64_t *)handle;
    return type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC
               ? am_hash_add(AM_HASH_START, handle, sizeof(aclrtMemFabricHandle))
               : 0;
}

/* ---- exports ---- */

static void report_again(struct am_call *call, const struct am_object *object,
                         const char *what, const char *advice)
{
    struct am_finding *f = am_call_finding(call);
    char text[160];

    am_finding_begin(f, AM_KIND_export_twice, "%s %s",
                     am_object_text(object, 0, text, sizeof text), what);
    f->advice = advice;
    am_finding_at(f, "again here", call->site);
    am_finding_at(f, "exported here", object->bytes->exported);
    am_finding_at(f, "made here", object->made);
    am_call_report(call, f);
}

static void exported(struct am_call *call, struct am_object *object, uint64_t share)
{
    object->is_exported = true;
    object->bytes->exported = call->site;
    object->bytes->is_shared = true;
    object->bytes->is_exported = true;
    object->bytes->share = share;
}

AM_BEFORE(export, aclrtMemExportToShareableHandle)
{
    struct am_object *object = am_handle_use(call, AM_OBJECT_PHYS, a->handle, "handle");

    am_call_ref_object(call, object);
    if (object != NULL && object->is_exported)
        report_again(call, object, "was exported before",
                     "export once and give every importer the same number");
}

AM_AFTER(export, aclrtMemExportToShareableHandle)
{
    if (call->rc == ACL_SUCCESS && call->object != NULL && !call->object->is_freed)
        exported(call, call->object, *a->shareableHandle);
}

AM_AFTER(export_v2, aclrtMemExportToShareableHandleV2)
{
    if (call->rc == ACL_SUCCESS && call->object != NULL && !call->object->is_freed)
        exported(call, call->object, handle_number(a->shareableHandle, a->shareType));
}

AM_AFTER(export_key, aclrtIpcMemGetExportKey)
{
    struct am_object *object = am_area_find((uintptr_t)a->devPtr);

    if (object == NULL)
        return;
    if (call->rc == ACL_SUCCESS && am_bytes_of(object) != NULL)
        exported(call, object, key_number(a->key));
    else if (call->rc != ACL_SUCCESS && object->is_exported)
        report_again(call, object, "has a key already",
                     "ask for one key and give it to every importer");
}

/* ---- stale ones ---- */

#define HALVES_MAX 10000 /* records of each of the two, so that the file stays small */

/* The sites of the exporter, behind those of the importer. */
static void freed_sites_add(struct am_finding *f, const struct am_object *object)
{
    am_finding_at(f, "freed here", object->freed);
    am_finding_at(f, "exported here", object->bytes->exported);
    am_finding_at(f, "made here", object->made);
}

static void stale_begin(struct am_finding *f, const struct am_object *object)
{
    char text[160] = "";

    if (object != NULL)
        am_object_text(object, 0, text, sizeof text);
    am_finding_begin(f, AM_KIND_stale_handle,
                     "the import is of %s, which its exporter freed before", text);
    f->advice = "let the exporter keep the memory until every importer has it";
}

void am_share_freed(const struct am_object *object)
{
    static struct am_finding f; /* under am_check.lock */
    static unsigned n;

    if (object == NULL || !object->is_freed || !object->is_exported || n == HALVES_MAX)
        return;
    n++;
    stale_begin(&f, object);
    freed_sites_add(&f, object);
    am_finding_half(&f, "share-freed", object->bytes->share, am_clock());
}

static bool is_freed_share(const struct am_object *object, const void *arg)
{
    return object->is_exported && object->bytes != NULL &&
           object->bytes->share == *(const uint64_t *)arg;
}

static void report_import(struct am_call *call, uint64_t share)
{
    struct am_finding *f = am_call_finding(call);
    static unsigned n; /* under am_check.lock */
    const struct am_object *object = am_freed_find(is_freed_share, &share);

    stale_begin(f, object);
    am_finding_at(f, "imported here", call->site);
    if (object != NULL) {
        freed_sites_add(f, object);
        am_call_report(call, f);
    } else if (n < HALVES_MAX) {
        n++;
        f->refused = call->rc;
        am_finding_half(f, "import-refused", share, call->value);
    }
}

/* ---- imports ---- */

/* What was imported by a key, or exported. */
static struct am_object *share_find(uint64_t share, bool is_imported)
{
    struct am_walk walk = {0};
    struct am_object *object;
    struct am_object *found = NULL;

    while (share != 0 && (object = am_object_next(&walk)) != NULL) {
        if (object->bytes != NULL && object->bytes->share == share &&
            (is_imported ? object->kind == AM_OBJECT_KEY : object->is_exported))
            found = object;
    }
    return found;
}

bool am_share_is_own(uint64_t number)
{
    return share_find(number, false) != NULL;
}

/* When the import began: memory that is freed later may be refused for another reason. */
void am_before_import(struct am_call *call)
{
    call->value = am_clock();
}

static void imported(struct am_call *call, enum am_object_kind kind, void *const *out,
                     int16_t device, uint64_t share)
{
    struct am_object *object = am_call_made(call, kind, out, 1);
    struct am_object *source;
    size_t size = 0;
    void *base;

    if (call->rc == ACL_ERROR_RT_NO_PERMISSION)
        report_import(call, share);
    if (object == NULL)
        return;
    object->device = device;
    if (kind == AM_OBJECT_IMPORT)
        object->size = UINT64_C(1) << 46; /* the exporter knows; mappings have sizes */
    else if (am_check.below->aclrtMemGetAddressRange(*out, &base, &size) == ACL_SUCCESS)
        object->size = size;
    if (am_bytes_of(object) == NULL) {
        am_object_drop(object);
        return;
    }
    source = share_find(share, false);
    object->bytes->is_shared = true;
    object->bytes->share = share;
    object->bytes->origin = am_bytes_get(source != NULL ? source->bytes : NULL);
}

AM_AFTER(import, aclrtMemImportFromShareableHandle)
{
    imported(call, AM_OBJECT_IMPORT, a->handle, (int16_t)a->deviceId, a->shareableHandle);
}

AM_AFTER(import_v2, aclrtMemImportFromShareableHandleV2)
{
    imported(call, AM_OBJECT_IMPORT, a->handle, call->device,
             handle_number(a->shareableHandle, a->shareType));
}

AM_AFTER(import_key, aclrtIpcMemImportByKey)
{
    imported(call, AM_OBJECT_KEY, a->devPtr, call->device, key_number(a->key));
}

AM_BEFORE(close_key, aclrtIpcMemClose)
{
    struct am_object *object = share_find(key_number(a->key), true);

    if (object != NULL)
        am_area_end(call, object->key, AM_OBJECT_KEY, AM_OBJECT_KEY, "key");
}
