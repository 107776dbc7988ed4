/*
 * The former names of base/handle.h, for folders that are not converted yet.
 */
#ifndef AM_BASE_IDSLAB_H
#define AM_BASE_IDSLAB_H

#include "base/handle.h"

#define am_id_kind am_handle_kind
#define am_id_why am_handle_why

struct am_idslab {
    size_t size;
    enum am_kind kind;
};

#define AM_IDSLAB_INIT(type_, kind_, name_) \
    { \
        .size = sizeof(type_), .kind = (kind_) \
    }

#define am_idslab_take(slab_) am_named_alloc((slab_)->kind, (slab_)->size)
#define am_idslab_take_zeroed(slab_) am_idslab_take(slab_)
#define am_idslab_give(slab_, object_) am_named_free(object_)
#define am_idslab_name(slab_, object_) am_named_publish(object_)
#define am_idslab_unname(object_) am_named_unpublish(object_)
#define am_idslab_get(slab_, handle_, put_) \
    ((void)(put_), am_named_get((slab_)->kind, (handle_)))

#endif
