/* Pointers in the order in which they were added; {0} is an empty list. */
#ifndef AM_TOOLKIT_LIST_H
#define AM_TOOLKIT_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/sys.h"

struct tk_list {
    void **items;
    size_t n;
    size_t room;
};

/* False: there is no memory, and the list is as it was. */
static inline bool tk_list_add(struct tk_list *list, void *item)
{
    if (list->n == list->room) {
        size_t room = list->room > 0 ? 2 * list->room : 4;
        void **items = am_sys_realloc(list->items, room * sizeof *items);

        if (items == NULL)
            return false;
        list->items = items;
        list->room = room;
    }
    list->items[list->n++] = item;
    return true;
}

/* The functions of a dataset, which has the list `list` of `what_`. */
#define TK_DATASET(type_, item_type_, item_, create_, destroy_, const_, add_, get_, \
                   what_) \
    TK_CREATE(type_, create_) \
    aclError destroy_(const_ type_ *dataset) \
    { \
        TK_NEED(dataset); \
        free(dataset->list.items); \
        free((void *)dataset); \
        return ACL_SUCCESS; \
    } \
    aclError add_(type_ *dataset, item_type_ *item_) \
    { \
        TK_NEED(dataset); \
        TK_NEED(item_); \
        TK_REQUIRE(tk_list_add(&dataset->list, item_), ACL_ERROR_BAD_ALLOC, \
                   "no host memory to extend the list of %zu " what_, dataset->list.n); \
        return ACL_SUCCESS; \
    } \
    item_type_ *get_(const type_ *dataset, size_t index) \
    { \
        TK_NEED_OR(NULL, dataset); \
        TK_REQUIRE_OR(NULL, index < dataset->list.n, ACL_ERROR_INVALID_PARAM, \
                      "index is %zu, and the list has %zu " what_, index, \
                      dataset->list.n); \
        return dataset->list.items[index]; \
    }

#endif
