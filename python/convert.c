/* Numbers, addresses and texts; see convert.h. */
#include "convert.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "acl/acl.h"

/* ---- memory for a call ---- */

struct am_py_block {
    struct am_py_block *next;
    max_align_t bytes[];
};

void *am_py_arena_take(struct am_py_arena *arena, size_t n, size_t size)
{
    struct am_py_block *block = NULL;

    if (n <= (PY_SSIZE_T_MAX - sizeof *block) / size)
        block = PyMem_Calloc(1, sizeof *block + n * size);
    if (block == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    block->next = arena->blocks;
    arena->blocks = block;
    return block->bytes;
}

void am_py_arena_free(struct am_py_arena *arena)
{
    while (arena->blocks != NULL) {
        struct am_py_block *block = arena->blocks;

        arena->blocks = block->next;
        PyMem_Free(block);
    }
}

/* ---- what is wrong, and where ---- */

/* "acl.rt.malloc_physical(): prop.location.id" */
static PyObject *place_text(const struct am_py_place *place)
{
    PyObject *before;
    PyObject *text;

    if (place->in == NULL)
        return PyUnicode_FromFormat("acl.%s()", place->name);
    before = place_text(place->in);
    if (before == NULL)
        return NULL;
    if (place->name == NULL)
        text = PyUnicode_FromFormat("%U[%zd]", before, place->index);
    else
        text = PyUnicode_FromFormat(place->in->in == NULL ? "%U: %s" : "%U.%s", before,
                                    place->name);
    Py_DECREF(before);
    return text;
}

bool am_py_refuse(PyObject *type, const struct am_py_place *place, const char *format,
                  ...)
{
    PyObject *where = place_text(place);
    PyObject *what = NULL, *text = NULL;
    va_list args;

    va_start(args, format);
    if (where != NULL)
        what = PyUnicode_FromFormatV(format, args);
    va_end(args);
    if (what != NULL)
        text = PyUnicode_FromFormat("%U %U", where, what);
    if (text != NULL) /* else there is a MemoryError */
        PyErr_SetObject(type, text);
    Py_XDECREF(where);
    Py_XDECREF(what);
    Py_XDECREF(text);
    return false;
}

bool am_py_refuse_count(const struct am_py_site *site, Py_ssize_t n)
{
    return am_py_refuse(PyExc_TypeError, &site->function,
                        "takes %zd argument%s, %zd given: %s", site->n_most,
                        site->n_most == 1 ? "" : "s", n, site->usage);
}

bool am_py_refuse_type(PyObject *object, const struct am_py_place *place,
                       const char *wanted, const char *hint)
{
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__name__");

    if (name != NULL) /* else there is an exception already */
        am_py_refuse(PyExc_TypeError, place, "must be %s, not %.100U%s", wanted, name,
                     hint);
    Py_XDECREF(name);
    return false;
}

/* ---- numbers ---- */

/*
 * A new reference to the int that the object is, or NULL with a TypeError, also if its
 * __index__ raises one, as a numpy array does; other errors of it are passed on.
 */
static PyObject *as_int(PyObject *object, const struct am_py_place *place,
                        const char *wanted)
{
    PyObject *number = PyIndex_Check(object) ? PyNumber_Index(object) : NULL;

    if (number == NULL && (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError)))
        am_py_refuse_type(object, place, wanted, "");
    return number;
}

static bool refuse_range(PyObject *number, const struct am_py_place *place,
                         long long least, unsigned long long most)
{
    PyObject *text;

    PyErr_Clear();
    text = PyObject_Str(number);
    if (text == NULL && !PyErr_ExceptionMatches(PyExc_ValueError))
        return false;
    PyErr_Clear(); /* it has more digits than Python prints */
    am_py_refuse(PyExc_OverflowError, place, "must be from %lld to %llu, not %V", least,
                 most, text, "so large");
    Py_XDECREF(text);
    return false;
}

static bool to_unsigned(PyObject *number, const struct am_py_place *place, uint64_t most,
                        uint64_t *ret)
{
    unsigned long long value = PyLong_AsUnsignedLongLong(number);

    if ((value == (unsigned long long)-1 && PyErr_Occurred()) || value > most)
        return refuse_range(number, place, 0, most);
    *ret = value;
    return true;
}

bool am_py_unsigned_slow(PyObject *object, const struct am_py_place *place, uint64_t most,
                         uint64_t *ret)
{
    PyObject *number;
    bool is_good;

    PyErr_Clear(); /* of the attempt before */
    number = as_int(object, place, "an int");
    if (number == NULL)
        return false;
    is_good = to_unsigned(number, place, most, ret);
    Py_DECREF(number);
    return is_good;
}

bool am_py_signed_slow(PyObject *object, const struct am_py_place *place, int64_t least,
                       int64_t most, int64_t *ret)
{
    PyObject *number;
    bool is_good;
    int overflow;
    long long value;

    PyErr_Clear();
    number = as_int(object, place, "an int");
    if (number == NULL)
        return false;
    value = PyLong_AsLongLongAndOverflow(number, &overflow);
    is_good = (overflow == 0 && value >= least && value <= most) ||
              refuse_range(number, place, least, (unsigned long long)most);
    Py_DECREF(number);
    *ret = value;
    return is_good;
}

bool am_py_float(PyObject *object, const struct am_py_place *place, float *ret)
{
    double value;

    if (!PyFloat_Check(object) && !PyIndex_Check(object) &&
        !PyObject_HasAttrString((PyObject *)Py_TYPE(object), "__float__"))
        return am_py_refuse_type(object, place, "a number", "");
    value = PyFloat_AsDouble(object);
    if (value == -1 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return false;
        value = DBL_MAX;
        PyErr_Clear();
    }
    if (isfinite(value) && fabs(value) > FLT_MAX)
        return am_py_refuse(PyExc_OverflowError, place,
                            "must be a single-precision number, not %S", object);
    *ret = (float)value;
    return true;
}

/*
 * Numpy is not imported: without it there is no array.  Numpy's numbers have the
 * interface of an array, but of a new copy each time, whose address is useless.
 */
int am_py_is_array(PyObject *object)
{
    PyObject *numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
    PyObject *type;
    int is_it;

    if (numpy == NULL)
        return 0;
    Py_INCREF(numpy);
    type = PyObject_GetAttrString(numpy, "ndarray");
    Py_DECREF(numpy);
    if (type == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear(); /* sys.modules has something else under this name */
        return 0;
    }
    is_it = PyType_Check(type) && PyObject_TypeCheck(object, (PyTypeObject *)type);
    Py_DECREF(type);
    return is_it;
}

bool am_py_pointer_slow(PyObject *object, const struct am_py_place *place, void **ret)
{
    static const char wanted[] = "an address as an int, or None";
    bool is_number = PyIndex_Check(object);
    const char *hint = "";
    uint64_t value;
    int is_array;

    if (object == Py_None) {
        *ret = NULL;
        return true;
    }
    is_array = am_py_is_array(object);
    if (is_array < 0)
        return false;
    if (is_array) /* it has an __index__, which works when it holds a single number */
        hint = "; acl.util.numpy_to_ptr(array) gives the address of its memory";
    else if (!is_number && PyObject_CheckBuffer(object))
        hint = "; acl.util.bytes_to_ptr(bytes) gives the address of its memory";
    if (!is_number || is_array)
        return am_py_refuse_type(object, place, wanted, hint);
    if (!am_py_unsigned(object, place, UINTPTR_MAX, &value))
        return false;
    *ret = (void *)(uintptr_t)value;
    return true;
}

/* ---- texts ---- */

bool am_py_callable_or_none(PyObject *object, const struct am_py_place *place)
{
    return object == Py_None || PyCallable_Check(object) ||
           am_py_refuse_type(object, place, "callable or None", "");
}

bool am_py_text(PyObject *object, const struct am_py_place *place, const char **ret)
{
    const char *text;
    Py_ssize_t size;

    *ret = NULL;
    if (object == Py_None)
        return true;
    if (!PyUnicode_Check(object))
        return am_py_refuse_type(object, place, "a str or None", "");
    text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text == NULL)
        return false;
    if (strlen(text) != (size_t)size)
        return am_py_refuse(PyExc_ValueError, place, "must not contain a null character");
    *ret = text;
    return true;
}

PyObject *am_py_from_text(const char *text, size_t n)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strnlen(text, n), "replace");
}

PyObject *am_py_from_string(const char *text)
{
    if (text == NULL)
        Py_RETURN_NONE;
    return am_py_from_text(text, strlen(text));
}

/* ---- results ---- */

PyObject *am_py_tuple(PyObject **objects, size_t n)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    bool is_good = tuple != NULL;

    for (size_t i = 0; i < n; i++)
        is_good = is_good && objects[i] != NULL;
    for (size_t i = 0; i < n; i++) {
        if (is_good)
            PyTuple_SetItem(tuple, (Py_ssize_t)i, objects[i]);
        else
            Py_XDECREF(objects[i]);
    }
    if (!is_good)
        Py_CLEAR(tuple);
    return tuple;
}

/* ---- values that are neither ---- */

bool am_py_to_share(PyObject *object, const struct am_py_place *place,
                    union am_py_share *ret)
{
    Py_buffer view;
    bool is_good;

    memset(ret, 0, sizeof *ret);
    if (PyIndex_Check(object))
        return am_py_u64(object, place, &ret->number);
    if (!PyObject_CheckBuffer(object))
        return am_py_refuse_type(object, place, "an int, or bytes", "");
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) != 0)
        return false;
    is_good = view.len == (Py_ssize_t)sizeof ret->fabric ||
              am_py_refuse(PyExc_ValueError, place, "must have %zu bytes, not %zd",
                           sizeof ret->fabric, view.len);
    if (is_good)
        memcpy(ret->fabric, view.buf, sizeof ret->fabric);
    PyBuffer_Release(&view);
    return is_good;
}

PyObject *am_py_from_share(const union am_py_share *share, int32_t type, bool is_given)
{
    if (type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC)
        return PyBytes_FromStringAndSize((const char *)share->fabric,
                                         is_given ? sizeof share->fabric : 0);
    return PyLong_FromUnsignedLongLong(share->number);
}

bool am_py_to_word(PyObject *object, const struct am_py_place *place, int32_t attr,
                   uint64_t *ret)
{
    /* The library reads the lower half of it where the attribute is 32 bits wide. */
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
                   "the lower half comes first");
    return am_py_unsigned(
        object, place,
        attr < ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD ? UINT32_MAX : UINT64_MAX, ret);
}

void **am_py_ints_room(struct am_py_arena *arena, const size_t *sizes, size_t n)
{
    void **data = am_py_arena_take(arena, n, sizeof *data);

    for (size_t i = 0; data != NULL && i < n; i++) {
        data[i] = am_py_arena_take(arena, sizes[i], 1);
        if (data[i] == NULL)
            return NULL;
    }
    return data;
}

PyObject *am_py_from_ints_each(void **data, const size_t *sizes, size_t n)
{
    static const struct am_py_entry entry = {.kind = AM_PY_I32};
    PyObject *lists = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; lists != NULL && i < n; i++) {
        PyObject *list = am_py_from_array(entry, data[i], sizes[i] / sizeof(int32_t));

        if (list == NULL)
            Py_CLEAR(lists);
        else
            PyList_SetItem(lists, (Py_ssize_t)i, list);
    }
    return lists;
}
