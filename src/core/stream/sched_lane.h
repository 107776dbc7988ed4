/* What sched.c, sched_wait.c and sched_lane.c tell each other about queues. */
#ifndef AM_CORE_SCHED_LANE_H
#define AM_CORE_SCHED_LANE_H

#include "core/stream/sched.h"

/* sched.c */
void am_queue_make_ready_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock);
/* On list; NULL: memory decides, or the device. */
void am_queue_park_locked(struct am_sched *sched, struct am_queue *queue,
                          struct am_waitlist *list) AM_REQUIRES(sched->lock);
void am_queue_unpark_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock);
void am_queue_fail_locked(struct am_queue *queue, const struct am_task *task, aclError rc,
                          const char *why);

/* sched_lane.c: whether the device has the queue's first task. */
bool am_queue_is_flying(const struct am_queue *queue);

/*
 * Hands a new task to the device, if that is possible and all before it are there too;
 * task->is_launched says whether.
 */
aclError am_queue_launch_locked(struct am_queue *queue, struct am_task *task);
/* The same for the first tasks of a queue that is in nobody's list; false: not even one. */
bool am_queue_launch_first_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock);
/* Where a queue belongs whose first task was launched. */
void am_queue_fly_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock);

/* Of a flying queue: whether something is done; takes out what is. */
bool am_queue_has_landed(const struct am_queue *queue);
void am_queue_reap_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock);
/* Waits for all that was launched and takes it out; false: the queue does not fly. */
bool am_queue_land_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock);

/* From now on flying queues are looked at: somebody depends on them. */
void am_sched_watch_locked(struct am_sched *sched) AM_REQUIRES(sched->lock);
/* Lets go of what is done of a queue that nobody has asked about for long. */
void am_sched_keep_short_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock);
/* Looks at them once. */
void am_sched_reap_locked(struct am_sched *sched) AM_REQUIRES(sched->lock);

#endif
