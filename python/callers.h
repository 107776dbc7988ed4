/* The Python frames of a call, around it: callers.c. */
#ifndef AM_PYTHON_CALLERS_H
#define AM_PYTHON_CALLERS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

struct am_py_callers {
    char *text; /* NULL: no layer uses them */
};

/* Both with the GIL. */
void am_py_callers_begin(struct am_py_callers *callers);
void am_py_callers_end(struct am_py_callers *callers);

#endif
