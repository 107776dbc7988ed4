/* See view.h. */
#include "core/copy/view.h"

#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/tree.h"
#include "core/copy/span.h"
#include "core/device/context.h"
#include "core/device/setup.h"

struct view {
    RB_ENTRY(view) node;
    uintptr_t addr; /* the address that the program got */
    bool is_private;
    const struct am_backend_ops *backend;
    struct am_spans spans; /* keeps the memory alive */
};

RB_HEAD(view_tree, view);
AM_TREE(view_tree, view, node, addr)

static struct am_lock views_lock = AM_LOCK_INIT(AM_RANK_VIEW, "views");
static struct view_tree views = RB_INITIALIZER(NULL); /* views_lock; by address */
static _Atomic uint64_t n_views;

uint64_t am_view_count(void)
{
    return n_views;
}

static void view_shut(struct view *view)
{
    view->backend->view_close(view->spans.list, view->spans.n, (void *)view->addr,
                              view->is_private);
}

/*
 * Opens and lists the view at the backend's address, or at a private one where that is taken.
 * Without the lock: memory that is being moved is waited for.
 */
static aclError view_enter(struct view *view)
{
    for (bool must_be_private = false;; must_be_private = true) {
        bool is_free;
        void *addr;

        AM_TRY(view->backend->view_open(view->spans.list, view->spans.n, must_be_private,
                                        &addr, &view->is_private));
        view->addr = (uintptr_t)addr;
        am_lock(&views_lock);
        is_free = RB_INSERT(view_tree, &views, view) == NULL;
        n_views += is_free;
        am_unlock(&views_lock);
        if (is_free)
            return ACL_SUCCESS;
        view_shut(view); /* another view has the address */
    }
}

aclError am_view_open(const void *addr, size_t size, void **ret_addr)
{
    struct view *view;
    int32_t device =
        AM_DEVICES_MAX; /* the host, where there is no context: a kernel's stand-in
                                        runs in threads of ours */
    aclError rc;

    if (am_context_current() != NULL)
        AM_TRY(am_context_device(&device));
    AM_REQUIRE(am_setup.backend->caps & AM_CAP_HOST_VIEW,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the %s backend has no host views",
               am_setup.backend->name);
    view = am_sys_calloc(1, sizeof *view);
    AM_REQUIRE(view != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a host view");
    view->backend = am_setup.backend;
    rc = am_spans_open(&view->spans, addr, size, AM_ACCESS_ALL | AM_SPANS_TURN, device,
                       "devPtr");
    if (rc == ACL_SUCCESS && view->spans.list[0].mem == NULL)
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not mapped device memory", addr);
    else if (rc == ACL_SUCCESS && (view->spans.has & AM_SPANS_REMOTE))
        rc = am_fail(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "%p is memory of another machine, which has no address here; copy it", addr);
    if (rc == ACL_SUCCESS)
        rc = view_enter(view);
    if (rc == ACL_SUCCESS) {
        *ret_addr = (void *)view->addr;
        return ACL_SUCCESS;
    }
    am_spans_close(&view->spans);
    free(view);
    return rc;
}

aclError am_view_close(void *addr)
{
    struct view key = {.addr = (uintptr_t)addr};
    struct view *view;

    am_lock(&views_lock);
    view = RB_FIND(view_tree, &views, &key);
    if (view != NULL) {
        RB_REMOVE(view_tree, &views, view);
        n_views--;
    }
    am_unlock(&views_lock);
    AM_REQUIRE(view != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "%p is not the address of a host view", addr);
    view_shut(view);
    am_spans_close(&view->spans);
    free(view);
    return ACL_SUCCESS;
}
