/* See callback.h.  Everything here is guarded by the GIL. */
#include "callback.h"

#include "acl/acl.h"

static PyObject *kept; /* number -> (function, data, stream, is_blocking, is_captured) */
static uint64_t last_number;

/* A thread's calls of process_report, one in the other; whether Ctrl-C came in one. */
static _Thread_local unsigned n_reporting;
static _Thread_local bool is_interrupted;

int am_py_callback_init(void)
{
    if (kept == NULL)
        kept = PyDict_New();
    return kept != NULL ? 0 : -1;
}

/* A captured function runs at each replay. */
static bool is_in_capture(void *stream)
{
    aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    aclmdlRI model = NULL;

    return stream != NULL &&
           aclmdlRICaptureGetInfo(stream, &status, &model) == ACL_SUCCESS &&
           status != ACL_MODEL_RI_CAPTURE_STATUS_NONE;
}

void *am_py_callback_add(PyObject *function, PyObject *data, void *stream,
                         bool is_blocking)
{
    /* Taken at once: what follows may run finalizers, and they other threads. */
    void *number = (void *)(uintptr_t)++last_number;
    PyObject *key = PyLong_FromVoidPtr(number);
    bool is_captured = is_in_capture(stream);
    PyObject *entry =
        Py_BuildValue("(OONOO)", function, data, PyLong_FromVoidPtr(stream),
                      is_blocking ? Py_True : Py_False, is_captured ? Py_True : Py_False);
    bool is_good = key != NULL && entry != NULL && PyDict_SetItem(kept, key, entry) == 0;

    Py_XDECREF(key);
    Py_XDECREF(entry);
    return is_good ? number : NULL;
}

/*
 * A new reference to the entry, or NULL if it does not exist.  The entry is removed, unless
 * it is for a run of a captured function.
 */
static PyObject *callback_take(void *number, bool is_run)
{
    PyObject *key = PyLong_FromVoidPtr(number);
    PyObject *entry = key != NULL ? PyDict_GetItemWithError(kept, key) : NULL;

    Py_XINCREF(entry);
    if (entry != NULL && !(is_run && PyTuple_GetItem(entry, 4) == Py_True))
        PyDict_DelItem(kept, key);
    Py_XDECREF(key);
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(NULL);
    return entry;
}

void am_py_callback_drop(void *number)
{
    Py_XDECREF(callback_take(number, false));
}

/*
 * For an exception of a function.  Ctrl-C in a function of process_report is meant for
 * its caller, which would go on for ever if the exception were only printed.
 */
static void callback_failed(PyObject *function)
{
    if (n_reporting > 0 && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
        PyErr_Clear();
        is_interrupted = true;
    } else {
        PyErr_WriteUnraisable(function);
    }
}

void am_py_callback_run(void *number)
{
    PyGILState_STATE state;
    PyObject *function;
    PyObject *result;
    PyObject *entry;

    if (!Py_IsInitialized()) /* Python is gone, and the runtime still at work */
        return;
    state = PyGILState_Ensure();
    entry = callback_take(number, true);
    if (entry != NULL) {
        function = PyTuple_GetItem(entry, 0);
        result = PyObject_CallFunctionObjArgs(function, PyTuple_GetItem(entry, 1), NULL);
        if (result == NULL)
            callback_failed(function);
        Py_XDECREF(result);
        Py_DECREF(entry);
    }
    PyGILState_Release(state);
}

void am_py_callback_report_begin(void)
{
    n_reporting++;
}

bool am_py_callback_report_end(void)
{
    if (--n_reporting > 0 || !is_interrupted)
        return true;
    is_interrupted = false;
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    return false;
}

uint64_t am_py_callback_last(void)
{
    return last_number;
}

/* Callbacks that do not block their stream are no longer its work: they still run. */
static bool is_dropped(PyObject *entry, void *stream)
{
    return stream == NULL || (PyTuple_GetItem(entry, 3) == Py_True &&
                              PyTuple_GetItem(entry, 4) != Py_True &&
                              PyLong_AsVoidPtr(PyTuple_GetItem(entry, 2)) == stream);
}

void am_py_callback_forget(void *stream, uint64_t last)
{
    PyObject *numbers;

    if (PyDict_Size(kept) == 0)
        return;
    numbers = PyDict_Keys(kept);
    for (Py_ssize_t i = 0; numbers != NULL && i < PyList_Size(numbers); i++) {
        PyObject *number = PyList_GetItem(numbers, i);
        PyObject *entry = PyDict_GetItemWithError(kept, number);

        if (entry != NULL && PyLong_AsUnsignedLongLong(number) <= last &&
            is_dropped(entry, stream))
            PyDict_DelItem(kept, number);
    }
    Py_XDECREF(numbers);
    PyErr_Clear();
}
