/* acl.util; see util.c.  The documentation of each function is in acl.c. */
#ifndef ACL_PYTHON_UTIL_H
#define ACL_PYTHON_UTIL_H

#include "convert.h"

int am_py_util_init(void);

PyObject *am_py_bytes_to_ptr(PyObject *self, PyObject *object);
PyObject *am_py_ptr_to_bytes(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *am_py_numpy_to_ptr(PyObject *self, PyObject *array);
PyObject *am_py_ptr_to_numpy(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *am_py_start_thread(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *am_py_stop_thread(PyObject *self, PyObject *id);

#endif
