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

#endif
