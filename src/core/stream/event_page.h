/*
 * The page of an event or a notify that several processes share.
 *
 * Each process that has the page may record.  Records are numbered over all processes, in
 * the order in which they are queued, and the page has the state of the last ones in a ring.
 * A wait is for a number.  Records of a process that ends are lost, and a wait for one fails:
 * each process has a lock on a byte of the page's file, which the kernel releases when the
 * process ends.
 *
 * A notify uses one bit of the page and none of the rest.
 *
 * No function needs a lock of its caller's; what is read from the page is another process's
 * word and used as a number only.
 */
#ifndef AM_CORE_EVENT_PAGE_H
#define AM_CORE_EVENT_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "acl/acl_base.h"

#define AM_EVENT_PAGE_RECORDS 256 /* the last ones; a record before them has run */

struct am_event_page;

/* A new one, and one from a descriptor that another process sent, which stays open. */
aclError am_event_page_make(struct am_event_page **ret_page);
aclError am_event_page_join(int fd, struct am_event_page **ret_page);
/* Records that this process has not ended are lost.  NULL: nothing is done. */
void am_event_page_leave(struct am_event_page *page);

/* The descriptor to send; it does not keep this process's lock. */
int am_event_page_descriptor(const struct am_event_page *page);

/* In the child of a fork: the parent's locks end with the parent. */
void am_event_page_forget_all(void);

/* ---- events ---- */

/* One record more, which is about to be queued: its number; 207005: too many have not run. */
aclError am_event_page_record(struct am_event_page *page, uint64_t *ret_number);
/* It has run, or it failed. */
void am_event_page_recorded(struct am_event_page *page, uint64_t number, aclError result);

/* The number of the latest record of all processes; 0: none. */
uint64_t am_event_page_latest(const struct am_event_page *page);

enum am_event_page_state {
    AM_EVENT_PAGE_TO_COME,
    AM_EVENT_PAGE_DONE,
    AM_EVENT_PAGE_FAILED, /* *ret_code says how */
    AM_EVENT_PAGE_LOST,   /* its process ended before it ran */
};
/* A record that is older than the ring is done. */
enum am_event_page_state am_event_page_query(struct am_event_page *page, uint64_t number,
                                             aclError *ret_code);

/* ---- notifies ---- */

void am_event_page_set(struct am_event_page *page, bool is_set);
/* Clears it; false: it was not set. */
bool am_event_page_take(struct am_event_page *page);

#endif
