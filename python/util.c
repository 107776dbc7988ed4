/*
 * acl.util: what has no twin in C.  Addresses of Python's objects and objects over
 * addresses, and threads for callbacks.
 */
#include "util.h"

#include <string.h>

#include "acl/acl.h"

/* ---- bytes ---- */

PyObject *am_py_bytes_to_ptr(PyObject *self, PyObject *object)
{
    static const struct am_py_place function = {NULL, "util.bytes_to_ptr", 0};
    static const struct am_py_place place = {&function, "bytes", 0};
    PyObject *address;
    Py_buffer view;

    if (!PyObject_CheckBuffer(object)) {
        am_py_refuse_type(object, &place, "bytes or another buffer", "");
        return NULL;
    }
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) != 0)
        return NULL;
    address = PyLong_FromVoidPtr(view.buf);
    PyBuffer_Release(&view);
    return address;
}

PyObject *am_py_ptr_to_bytes(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    static const struct am_py_site site = {
        {NULL, "util.ptr_to_bytes", 0}, 2, 2, "ptr_to_bytes(ptr, size)"};
    static const struct am_py_place places[] = {{&site.function, "ptr", 0},
                                                {&site.function, "size", 0}};
    uint64_t size;
    void *ptr;

    if (!am_py_count(&site, n) || !am_py_pointer(args[0], &places[0], &ptr) ||
        !am_py_unsigned(args[1], &places[1], PY_SSIZE_T_MAX, &size))
        return NULL;
    if (ptr == NULL && size > 0) {
        am_py_refuse(PyExc_ValueError, &places[0], "must not be 0");
        return NULL;
    }
    return PyBytes_FromStringAndSize(ptr, (Py_ssize_t)size);
}

/* ---- numpy, which is found when it is needed ---- */

/*
 * array.flags.c_contiguous: 1 or 0; -1 with an exception.  A transposed array has no gaps
 * but lies in memory in another order than its indices say, so a copy of its bytes
 * is another array.
 */
static int is_in_order(PyObject *array)
{
    PyObject *flags = PyObject_GetAttrString(array, "flags");
    PyObject *c = flags != NULL ? PyObject_GetAttrString(flags, "c_contiguous") : NULL;
    int is_it = c != NULL ? PyObject_IsTrue(c) : -1;

    Py_XDECREF(flags);
    Py_XDECREF(c);
    return is_it;
}

/* A new reference to array.__array_interface__["data"][0]; NULL with an exception. */
static PyObject *array_address(PyObject *array)
{
    PyObject *interface = PyObject_GetAttrString(array, "__array_interface__");
    PyObject *data =
        interface != NULL ? PyMapping_GetItemString(interface, "data") : NULL;
    PyObject *address = data != NULL ? PySequence_GetItem(data, 0) : NULL;

    Py_XDECREF(interface);
    Py_XDECREF(data);
    return address;
}

PyObject *am_py_numpy_to_ptr(PyObject *self, PyObject *array)
{
    static const struct am_py_place function = {NULL, "util.numpy_to_ptr", 0};
    static const struct am_py_place place = {&function, "array", 0};
    int is_it = am_py_is_array(array);
    int is_good = is_it == 1 ? is_in_order(array) : -1;

    if (is_good == 1)
        return array_address(array);
    if (is_good == 0)
        am_py_refuse(PyExc_ValueError, &place,
                     "is not C-contiguous, so its elements do not follow each other in "
                     "memory in the order of their indices; copy it with "
                     "numpy.ascontiguousarray, and keep the copy alive");
    else if (is_it == 0)
        am_py_refuse_type(array, &place, "a numpy array", "");
    return NULL;
}

/*
 * numpy's numbers of types, in order: bool, the integers, the floats, the complex ones;
 * then the types that are not plain memory (objects, texts, dates), and half precision.
 */
static const char numpy_types[] = "?bBhHiIlLqQfdgFDG......e";

/* numpy.dtype of a type's number; NULL with an exception. */
static PyObject *dtype_of(PyObject *numpy, uint32_t number,
                          const struct am_py_place *place)
{
    char code[2] = {number < sizeof numpy_types - 1 ? numpy_types[number] : '.', 0};

    if (code[0] == '.') {
        am_py_refuse(PyExc_ValueError, place,
                     "is %u, which is not the number of a numpy type of plain memory "
                     "(numpy.dtype(...).num)",
                     number);
        return NULL;
    }
    return PyObject_CallMethod(numpy, "dtype", "s", code);
}

/* The bytes of an array of this shape, which is a tuple; -1 with an exception. */
static Py_ssize_t size_of(PyObject *shape, PyObject *dtype,
                          const struct am_py_place *place)
{
    PyObject *itemsize = PyObject_GetAttrString(dtype, "itemsize");
    Py_ssize_t size = itemsize != NULL ? PyLong_AsSsize_t(itemsize) : -1;

    Py_XDECREF(itemsize);
    for (Py_ssize_t i = 0; size >= 0 && i < PyTuple_Size(shape); i++) {
        struct am_py_place at = {place, NULL, i};
        uint64_t n;

        if (!am_py_unsigned(PyTuple_GetItem(shape, i), &at, PY_SSIZE_T_MAX, &n) ||
            (__builtin_mul_overflow(size, (Py_ssize_t)n, &size) &&
             !am_py_refuse(PyExc_OverflowError, place, "is larger than memory")))
            return -1;
    }
    return size;
}

static PyObject *array_over(PyObject *numpy, void *ptr, PyObject *shape, PyObject *dtype,
                            const struct am_py_place *place)
{
    Py_ssize_t size = size_of(shape, dtype, place);
    PyObject *memory = size >= 0 ? PyMemoryView_FromMemory(ptr, size, PyBUF_WRITE) : NULL;
    PyObject *array = NULL;

    if (memory != NULL)
        array = PyObject_CallMethod(numpy, "ndarray", "OOO", shape, dtype, memory);
    Py_XDECREF(memory);
    return array;
}

PyObject *am_py_ptr_to_numpy(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    static const struct am_py_site site = {
        {NULL, "util.ptr_to_numpy", 0}, 3, 3, "ptr_to_numpy(ptr, shape, numpy_type)"};
    static const struct am_py_place places[] = {{&site.function, "ptr", 0},
                                                {&site.function, "shape", 0},
                                                {&site.function, "numpy_type", 0}};
    PyObject *numpy, *dtype, *array = NULL;
    uint32_t number;
    void *ptr;

    if (!am_py_count(&site, n) || !am_py_pointer(args[0], &places[0], &ptr) ||
        !am_py_u32(args[2], &places[2], &number))
        return NULL;
    if (!PyTuple_Check(args[1])) {
        am_py_refuse_type(args[1], &places[1], "a tuple of ints", "");
        return NULL;
    }
    if (ptr == NULL) {
        am_py_refuse(PyExc_ValueError, &places[0], "must not be 0");
        return NULL;
    }
    numpy = PyImport_ImportModule("numpy");
    if (numpy == NULL)
        return NULL;
    dtype = dtype_of(numpy, number, &places[2]);
    if (dtype != NULL)
        array = array_over(numpy, ptr, args[1], dtype, &places[1]);
    Py_XDECREF(dtype);
    Py_DECREF(numpy);
    return array;
}

/* ---- threads ---- */

static PyObject *threads; /* thread id -> threading.Thread */

int am_py_util_init(void)
{
    if (threads == NULL)
        threads = PyDict_New();
    return threads != NULL ? 0 : -1;
}

/*
 * A threading.Thread that has begun to run function(arguments); NULL with an exception.
 */
static PyObject *thread_start(PyObject *function, PyObject *arguments)
{
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *type =
        threading != NULL ? PyObject_GetAttrString(threading, "Thread") : NULL;
    PyObject *none = PyTuple_New(0);
    PyObject *how = Py_BuildValue("{s:O,s:(O),s:O}", "target", function, "args",
                                  arguments, "daemon", Py_True);
    PyObject *thread = NULL, *started = NULL;

    if (type != NULL && none != NULL && how != NULL)
        thread = PyObject_Call(type, none, how);
    if (thread != NULL)
        started = PyObject_CallMethod(thread, "start", NULL);
    if (started == NULL)
        Py_CLEAR(thread);
    Py_XDECREF(started);
    Py_XDECREF(how);
    Py_XDECREF(none);
    Py_XDECREF(type);
    Py_XDECREF(threading);
    return thread;
}

PyObject *am_py_start_thread(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    static const struct am_py_site site = {
        {NULL, "util.start_thread", 0}, 2, 2, "start_thread(func, args_list)"};
    static const struct am_py_place place = {&site.function, "func", 0};
    PyObject *out[2] = {NULL, NULL};
    PyObject *thread, *id;

    if (!am_py_count(&site, n))
        return NULL;
    if (!PyCallable_Check(args[0])) {
        am_py_refuse_type(args[0], &place, "callable", "");
        return NULL;
    }
    thread = thread_start(args[0], args[1]);
    if (thread == NULL && PyErr_ExceptionMatches(PyExc_RuntimeError)) {
        PyErr_Clear(); /* the system has no more threads */
        out[0] = PyLong_FromLong(0);
        out[1] = PyLong_FromLong(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
        return am_py_tuple(out, 2);
    }
    id = thread != NULL ? PyObject_GetAttrString(thread, "ident") : NULL;
    if (id != NULL && PyDict_SetItem(threads, id, thread) == 0) {
        Py_INCREF(id);
        out[0] = id;
        out[1] = PyLong_FromLong(ACL_SUCCESS);
    }
    Py_XDECREF(id);
    Py_XDECREF(thread);
    return out[0] != NULL ? am_py_tuple(out, 2) : NULL;
}

/* Waits for a thread of ours.  Other threads may change the table during the wait. */
static PyObject *thread_join(PyObject *key, PyObject *thread)
{
    PyObject *joined = PyObject_CallMethod(thread, "join", NULL); /* lets others run */
    bool is_good = joined != NULL;

    Py_XDECREF(joined);
    if (is_good && PyDict_GetItemWithError(threads, key) == thread)
        is_good = PyDict_DelItem(threads, key) == 0;
    return is_good && !PyErr_Occurred() ? PyLong_FromLong(ACL_SUCCESS) : NULL;
}

PyObject *am_py_stop_thread(PyObject *self, PyObject *id)
{
    static const struct am_py_place function = {NULL, "util.stop_thread", 0};
    static const struct am_py_place place = {&function, "thread_id", 0};
    PyObject *thread, *key, *ret = NULL;
    uint64_t number;

    if (!am_py_u64(id, &place, &number))
        return NULL;
    key = PyLong_FromUnsignedLongLong(number);
    thread = key != NULL ? PyDict_GetItemWithError(threads, key) : NULL;
    if (thread != NULL && number != PyThread_get_thread_ident()) {
        Py_INCREF(thread);
        ret = thread_join(key, thread);
        Py_DECREF(thread);
    } else if (!PyErr_Occurred()) {
        ret = PyLong_FromLong(ACL_ERROR_INVALID_PARAM);
    }
    Py_XDECREF(key);
    return ret;
}
