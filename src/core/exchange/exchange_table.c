/* See exchange_table.h. */
#include "core/exchange/exchange_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/fdpass.h"
#include "base/lock.h"
#include "base/sys.h"
#include "base/tree.h"
#include "base/util.h"

#define RANDOM_BITS 40

/* A process that some export lists. */
struct trusted {
    LIST_ENTRY(trusted) all;
    struct am_process process;
    size_t refs; /* exports that list it, and calls under way */
};

struct export
{
    RB_ENTRY(export) node;
    struct am_share_handle handle;
    struct am_export what;
    struct trusted **list; /* n_list */
    size_t n_list;
};

RB_HEAD(export_tree, export);
AM_TREE(export_tree, export, node, handle.number)

static struct {
    struct am_lock lock;
    struct export_tree tree; /* lock, as the next ones */
    bool has_name;           /* the server of this process has this name */
    uint32_t name;
    LIST_HEAD(, trusted) trusted;
} exports = {.lock = AM_LOCK_INIT(AM_RANK_SHARE, "exports")};

static struct export *export_find_locked(enum am_share_kind kind, uint64_t number)
    AM_REQUIRES(exports.lock)
{
    struct export key = {.handle.number = number};
    struct export *export = RB_FIND(export_tree, &exports.tree, &key);

    return export != NULL && export->what.kind == kind ? export : NULL;
}

/* The export of a handle that a peer presents. */
static struct export *export_show_locked(enum am_share_kind kind,
                                         const struct am_share_handle *share)
    AM_REQUIRES(exports.lock)
{
    struct export *export = export_find_locked(kind, share->number);

    return export != NULL && am_secret_is_equal(&export->handle, share) ? export : NULL;
}

/* ---- listed processes ---- */

static void trusted_put_locked(struct trusted *trusted) AM_REQUIRES(exports.lock)
{
    if (--trusted->refs > 0)
        return;
    LIST_REMOVE(trusted, all);
    am_process_close(&trusted->process);
    free(trusted);
}

/* The entry of the process that has the id now: 0 or -errno. */
static int trusted_get_locked(int32_t id, struct trusted **ret_trusted)
    AM_REQUIRES(exports.lock)
{
    struct am_process process;
    struct trusted *trusted;
    int rc = am_process_find(id, &process);

    if (rc == -EMFILE && am_limit_raise(RLIMIT_NOFILE))
        rc = am_process_find(id, &process);
    if (rc != 0)
        return rc;
    LIST_FOREACH (trusted, &exports.trusted, all) {
        if (trusted->process.pid == process.pid &&
            am_process_is_alive(&trusted->process)) {
            am_process_close(&process);
            trusted->refs++;
            *ret_trusted = trusted;
            return 0;
        }
    }
    trusted = am_sys_calloc(1, sizeof *trusted);
    if (trusted == NULL) {
        am_process_close(&process);
        return -ENOMEM;
    }
    if (process.pidfd >= 0)
        process.pidfd = am_fd_move_up(process.pidfd);
    trusted->process = process;
    trusted->refs = 1;
    LIST_INSERT_HEAD(&exports.trusted, trusted, all);
    *ret_trusted = trusted;
    return 0;
}

static bool export_lists(const struct export *export, const struct trusted *trusted)
{
    for (size_t i = 0; i < export->n_list; i++) {
        if (export->list[i] == trusted)
            return true;
    }
    return false;
}

/* All or none: 0, or -errno and in *ret_bad which one it is about. */
static int trust_locked(struct export *export, const int32_t *ids, size_t n,
                        bool may_miss, size_t *ret_bad) AM_REQUIRES(exports.lock)
{
    struct trusted **list;
    size_t n_list = export->n_list;
    int rc = 0;

    *ret_bad = 0;
    if (n > SIZE_MAX / sizeof *list - n_list)
        return -ENOMEM;
    list = am_sys_realloc(export->list, (n_list + n) * sizeof *list);
    if (list == NULL)
        return -ENOMEM;
    export->list = list;
    for (size_t i = 0; i < n; i++) {
        struct trusted *trusted;

        rc = trusted_get_locked(ids[i], &trusted);
        if (rc == -ESRCH && may_miss) {
            rc = 0;
            continue;
        }
        if (rc != 0) {
            *ret_bad = i;
            break;
        }
        if (export_lists(export, trusted))
            trusted_put_locked(trusted);
        else
            list[export->n_list++] = trusted;
    }
    while (rc != 0 && export->n_list > n_list)
        trusted_put_locked(list[--export->n_list]);
    return rc;
}

aclError am_export_trust(enum am_share_kind kind, const struct am_share_handle *share,
                         const int32_t *ids, size_t n, bool may_miss)
{
    struct export *export;
    char why[AM_SHORTAGE_SIZE];
    size_t bad = 0;
    int rc = -ENOENT;

    am_lock(&exports.lock);
    export = export_show_locked(kind, share);
    if (export != NULL)
        rc = trust_locked(export, ids, n, may_miss, &bad);
    am_unlock(&exports.lock);

    AM_REQUIRE(export != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "this process does not export 0x%016" PRIx64
               "; only the exporter chooses the processes that may import",
               share->number);
    AM_REQUIRE(rc != -ESRCH, ACL_ERROR_RT_PARAM_INVALID,
               "pid[%zu] is %d, which is not a running process; pass the id that "
               "aclrtDeviceGetBareTgid returns in the importing process",
               bad, ids[bad]);
    AM_REQUIRE(rc != -ENOMEM, ACL_ERROR_BAD_ALLOC,
               "no memory for a list of %zu processes", n);
    AM_REQUIRE(rc == 0, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "pid[%zu] is %d, which cannot be examined: %s", bad, ids[bad],
               am_shortage(-rc, why));
    return ACL_SUCCESS;
}

/* ---- exports ---- */

/* A number that no export has, and a secret where there is room for one: 0 or -errno. */
static int handle_draw_locked(uint32_t name, bool has_secret,
                              struct am_share_handle *ret_share) AM_REQUIRES(exports.lock)
{
    struct export key;

    do {
        struct am_share_handle random;
        int rc = am_random(&random, sizeof random);

        if (rc != 0)
            return rc;
        key.handle = (struct am_share_handle){
            (uint64_t)name << RANDOM_BITS | random.number >> (64 - RANDOM_BITS), {0}};
        if (has_secret)
            memcpy(key.handle.secret, random.secret, sizeof random.secret);
    } while (key.handle.number == 0 || RB_FIND(export_tree, &exports.tree, &key) != NULL);
    *ret_share = key.handle;
    return 0;
}

aclError am_export_table_add(uint32_t name, const struct am_export *what,
                             struct am_share_handle *ret_share)
{
    struct export *export = am_sys_calloc(1, sizeof *export);
    int rc;

    AM_REQUIRE(export != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory for the records of an export");
    export->what = *what;
    am_lock(&exports.lock);
    rc = handle_draw_locked(name, what->kind != AM_SHARE_MEMORY, &export->handle);
    if (rc == 0) {
        exports.has_name = true;
        exports.name = name;
        *ret_share = export->handle;
        RB_INSERT(export_tree, &exports.tree, export);
    }
    am_unlock(&exports.lock);
    if (rc != 0) {
        free(export);
        return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, AM_RANDOM_MISSING,
                       strerror(-rc));
    }
    return ACL_SUCCESS;
}

static void export_destroy_locked(struct export *export) AM_REQUIRES(exports.lock)
{
    RB_REMOVE(export_tree, &exports.tree, export);
    for (size_t i = 0; i < export->n_list; i++)
        trusted_put_locked(export->list[i]);
    free(export->list);
    free(export);
}

void am_export_withdraw(uint64_t number)
{
    struct export key = {.handle.number = number};
    void (*withdrawn)(uint64_t number) = NULL;
    struct export *export;

    am_lock(&exports.lock);
    export = RB_FIND(export_tree, &exports.tree, &key);
    if (export != NULL) {
        withdrawn = export->what.withdrawn;
        export_destroy_locked(export);
    }
    am_unlock(&exports.lock);
    if (withdrawn != NULL)
        withdrawn(number);
}

void am_export_table_clear(void)
{
    struct export *export;

    am_lock(&exports.lock);
    while ((export = RB_ROOT(&exports.tree)) != NULL)
        export_destroy_locked(export);
    exports.has_name = false;
    am_unlock(&exports.lock);
}

bool am_export_find(enum am_share_kind kind, uint64_t number,
                    struct am_share_handle *ret_share)
{
    struct export *export;

    am_lock(&exports.lock);
    export = export_find_locked(kind, number);
    if (export != NULL)
        *ret_share = export->handle;
    am_unlock(&exports.lock);
    return export != NULL;
}

bool am_export_is_own(enum am_share_kind kind, const struct am_share_handle *share)
{
    return AM_LOCKED(&exports.lock, export_show_locked(kind, share) != NULL);
}

struct am_named *am_export_get(enum am_share_kind kind,
                               const struct am_share_handle *share)
{
    struct am_named *object = NULL;
    struct export *export;

    am_lock(&exports.lock);
    export = export_show_locked(kind, share);
    if (export != NULL && am_ref_try(&export->what.object->refs))
        object = export->what.object;
    am_unlock(&exports.lock);
    return object;
}

int am_export_table_take(enum am_share_kind kind, const struct am_share_handle *share,
                         struct am_import_reply *ret_reply)
{
    bool is_own_name;
    struct export *export;
    int rc;

    am_lock(&exports.lock);
    is_own_name = exports.has_name && share->number >> RANDOM_BITS == exports.name;
    rc = is_own_name ? -EACCES : -ENOENT;
    export = export_show_locked(kind, share);
    if (export != NULL) {
        int fd;

        do
            fd = am_sys_fcntl(export->what.fd, F_DUPFD_CLOEXEC, 0);
        while (fd < 0 && am_fd_make_room());
        rc = fd < 0 ? -errno : 0;
        if (rc == 0) {
            *ret_reply = (struct am_import_reply){
                .fd = fd,
                .size = export->what.size,
                .exporter = (int32_t)getpid(),
            };
            memcpy(ret_reply->bytes, export->what.bytes, export->what.size);
        }
    }
    am_unlock(&exports.lock);
    return rc;
}

/*
 * Whether the peer is listed.  The peer and the listed process are alive at the same time
 * and have the same id: they are the same process.
 */
static bool export_admits_locked(const struct export *export,
                                 const struct am_process *peer) AM_REQUIRES(exports.lock)
{
    if (export->what.is_open)
        return true;
    for (size_t i = 0; i < export->n_list; i++) {
        const struct am_process *listed = &export->list[i]->process;

        if (listed->pid == peer->pid && am_process_is_alive(peer) &&
            am_process_is_alive(listed))
            return true;
    }
    return false;
}

int am_export_table_answer(const struct am_wire_request *request,
                           const struct am_process *peer, int socket)
{
    enum am_share_kind kind = request->kind;
    /* The reply is the same if the number does not exist and if the peer may not import it. */
    struct am_wire_reply reply = am_wire_reply(AM_WIRE_REFUSED, kind, NULL, 0);
    struct export *export;
    int fd = -1;
    int rc;

    /* The lock keeps the descriptor open; sending does not wait. */
    am_lock(&exports.lock);
    export = export_show_locked(kind, &request->handle);
    if (export != NULL && export_admits_locked(export, peer)) {
        reply =
            am_wire_reply(AM_WIRE_GRANTED, kind, export->what.bytes, export->what.size);
        fd = export->what.fd;
    }
    rc = am_fdpass_send(socket, &reply, sizeof reply, fd);
    am_unlock(&exports.lock);
    return rc;
}
