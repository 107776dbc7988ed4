/*
 * Functions of the program that the runtime calls.
 *
 * What is queued with a stream is a number; the function and its argument stand under it
 * in a table until the function has run.  So a call that comes for something that was
 * dropped finds nothing, and no reference can be used after it was given back.
 *
 * A function that is dropped with the work of its stream never runs, without notice.
 * Its references go when the stream is aborted or destroyed, or with the runtime,
 * whichever comes first.  A function on a captured stream runs at each replay; its
 * references are dropped with the runtime.
 */
#ifndef ACL_PYTHON_CALLBACK_H
#define ACL_PYTHON_CALLBACK_H

#include "convert.h"

/* Makes the table; 0, or -1 with an exception. */
int am_py_callback_init(void);

/* The number that stands for function(data) on a stream; NULL with an exception. */
void *am_py_callback_add(PyObject *function, PyObject *data, void *stream,
                         bool is_blocking);
/* For a call that could not be queued. */
void am_py_callback_drop(void *number);

/* What the runtime calls with that number, in any thread. */
void am_py_callback_run(void *number);

/*
 * Around the call that runs the functions of a thread; false with a KeyboardInterrupt
 * that came in one of them.
 */
void am_py_callback_report_begin(void);
bool am_py_callback_report_end(void);

/*
 * Around a call that drops the work of a stream (NULL: of all): the last number before
 * it, and then the references up to that number are dropped.
 */
uint64_t am_py_callback_last(void);
void am_py_callback_forget(void *stream, uint64_t last);

#endif
