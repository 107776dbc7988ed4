/* Dicts and structs, sequences and arrays; see convert.h. */
#include <string.h>

#include "convert.h"

static const size_t sizes[] = {
    [AM_PY_U8] = 1,
    [AM_PY_U16] = 2,
    [AM_PY_U32] = 4,
    [AM_PY_I32] = 4,
    [AM_PY_U64] = 8,
    [AM_PY_I64] = 8,
    [AM_PY_POINTER] = sizeof(void *),
    [AM_PY_TEXT] = 1,
    [AM_PY_BYTES] = 1,
};

size_t am_py_entry_size(struct am_py_entry entry)
{
    return entry.kind == AM_PY_STRUCT ? entry.inner->size : sizes[entry.kind];
}

/* ---- one value ---- */

static bool to_unsigned(PyObject *object, const struct am_py_place *place, size_t size,
                        void *ret)
{
    uint64_t most = size == 8 ? UINT64_MAX : (UINT64_C(1) << size * 8) - 1;
    uint64_t value;

    if (!am_py_unsigned(object, place, most, &value))
        return false;
    memcpy(ret, &value, size); /* the lower bytes come first */
    return true;
}

static bool to_value(PyObject *object, const struct am_py_place *place,
                     struct am_py_entry entry, struct am_py_arena *arena, void *ret)
{
    switch (entry.kind) {
    case AM_PY_I32:
        return am_py_i32(object, place, ret);
    case AM_PY_I64:
        return am_py_i64(object, place, ret);
    case AM_PY_POINTER:
        return am_py_pointer(object, place, ret);
    case AM_PY_STRUCT:
        return am_py_to_struct(object, place, entry.inner, arena, ret);
    default:
        return to_unsigned(object, place, sizes[entry.kind], ret);
    }
}

static PyObject *from_value(struct am_py_entry entry, const void *value)
{
    uint64_t number = 0;
    int64_t wide;
    int32_t word;
    void *pointer;

    switch (entry.kind) {
    case AM_PY_I32:
        memcpy(&word, value, sizeof word);
        return PyLong_FromLong(word);
    case AM_PY_I64:
        memcpy(&wide, value, sizeof wide);
        return PyLong_FromLongLong(wide);
    case AM_PY_POINTER:
        memcpy(&pointer, value, sizeof pointer);
        return PyLong_FromVoidPtr(pointer);
    case AM_PY_STRUCT:
        return am_py_from_struct(entry.inner, value);
    default:
        memcpy(&number, value, sizes[entry.kind]);
        return PyLong_FromUnsignedLongLong(number);
    }
}

/* ---- sequences ---- */

/*
 * A list or tuple of the entries, or NULL with a TypeError; text is not meant by a
 * sequence.
 */
static PyObject *as_sequence(PyObject *object, const struct am_py_place *place)
{
    PyObject *fast = NULL;

    if (PySequence_Check(object) && !PyUnicode_Check(object) && !PyDict_Check(object))
        fast = PySequence_Fast(object, "");
    else
        am_py_refuse_type(object, place, "a sequence", "");
    return fast;
}

/*
 * `fast` is a list of the program's own where it gave one; a conversion may call an
 * __index__ that shortens it, so its length is asked for each time and no entry is
 * borrowed.
 */
static bool to_values(PyObject *fast, const struct am_py_place *place,
                      struct am_py_entry entry, struct am_py_arena *arena, size_t n,
                      char *ret)
{
    size_t size = am_py_entry_size(entry);
    bool is_good = true;

    for (size_t i = 0; is_good && i < n; i++) {
        struct am_py_place at = {place, NULL, (Py_ssize_t)i};
        PyObject *item;

        if ((size_t)PySequence_Size(fast) != n)
            return am_py_refuse(PyExc_ValueError, place, "changed while it was read");
        item = PySequence_GetItem(fast, (Py_ssize_t)i);
        if (item == NULL)
            return false;
        is_good = to_value(item, &at, entry, arena, ret + i * size);
        Py_DECREF(item);
    }
    return is_good;
}

bool am_py_to_array(PyObject *object, const struct am_py_place *place,
                    struct am_py_entry entry, struct am_py_arena *arena, size_t *n,
                    const char *with, void **ret)
{
    PyObject *fast = NULL;
    bool is_good = true;
    size_t length = 0;

    *ret = NULL;
    if (object != Py_None) {
        fast = as_sequence(object, place);
        if (fast == NULL)
            return false;
        length = (size_t)PySequence_Size(fast);
    }
    if (*n != SIZE_MAX && *n != length)
        is_good = am_py_refuse(PyExc_ValueError, place, "has %zu entries, but %s has %zu",
                               length, with, *n);
    if (is_good && fast != NULL) {
        *ret = am_py_arena_take(arena, length, am_py_entry_size(entry));
        is_good = *ret != NULL && to_values(fast, place, entry, arena, length, *ret);
    }
    *n = length;
    Py_XDECREF(fast);
    return is_good;
}

PyObject *am_py_from_array(struct am_py_entry entry, const void *values, size_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);
    size_t size = am_py_entry_size(entry);

    for (size_t i = 0; list != NULL && i < n; i++) {
        PyObject *item = from_value(entry, (const char *)values + i * size);

        if (item == NULL)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, (Py_ssize_t)i, item);
    }
    return list;
}

/* ---- fields ---- */

/* Bytes of exactly the array's length. */
static bool to_bytes(PyObject *object, const struct am_py_place *place, size_t n,
                     void *ret)
{
    Py_buffer view;
    bool is_good;

    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) != 0)
        return false;
    is_good = (size_t)view.len == n ||
              am_py_refuse(PyExc_ValueError, place, "must have %zu bytes, not %zd", n,
                           view.len);
    if (is_good)
        memcpy(ret, view.buf, n);
    PyBuffer_Release(&view);
    return is_good;
}

static bool to_text(PyObject *object, const struct am_py_place *place, size_t n,
                    char *ret)
{
    const char *text;

    if (!am_py_text(object, place, &text))
        return false;
    if (text != NULL && strlen(text) >= n)
        return am_py_refuse(PyExc_ValueError, place, "must have less than %zu bytes", n);
    if (text != NULL)
        memcpy(ret, text, strlen(text));
    return true;
}

/* A sequence of at most as many entries as the array has; the others stay zero. */
static bool to_fixed_array(PyObject *object, const struct am_py_place *place,
                           const struct am_py_field *field, struct am_py_arena *arena,
                           char *ret)
{
    struct am_py_entry entry = {field->kind, field->inner};
    PyObject *fast = as_sequence(object, place);
    bool is_good;
    size_t n;

    if (fast == NULL)
        return false;
    n = (size_t)PySequence_Size(fast);
    is_good =
        n <= field->n || am_py_refuse(PyExc_ValueError, place,
                                      "has %zu entries, and takes %zu", n, field->n);
    is_good = is_good && to_values(fast, place, entry, arena, n, ret);
    Py_DECREF(fast);
    return is_good;
}

/*
 * A pointer to entries; their number goes into the other field, unless that was given
 * too.
 */
static bool to_counted(PyObject *object, const struct am_py_place *place,
                       const struct am_py_field *field, struct am_py_arena *arena,
                       char *base)
{
    struct am_py_entry entry = {field->kind, field->inner};
    size_t *count = (size_t *)(void *)(base + field->count->offset);
    size_t n = *count == 0 ? SIZE_MAX : *count;

    if (!am_py_to_array(object, place, entry, arena, &n, field->count->name,
                        (void **)(void *)(base + field->offset)))
        return false;
    *count = n;
    return true;
}

static bool to_field(PyObject *object, const struct am_py_place *place,
                     const struct am_py_field *field, struct am_py_arena *arena,
                     char *base)
{
    struct am_py_entry entry = {field->kind, field->inner};
    char *at = base + field->offset;

    if (field->count != NULL)
        return to_counted(object, place, field, arena, base);
    if (field->kind == AM_PY_TEXT)
        return to_text(object, place, field->n, at);
    if (field->kind == AM_PY_BYTES && PyObject_CheckBuffer(object))
        return to_bytes(object, place, field->n, at);
    if (field->n > 0)
        return to_fixed_array(object, place, field, arena, at);
    return to_value(object, place, entry, arena, at);
}

static PyObject *from_field(const struct am_py_field *field, const char *base)
{
    struct am_py_entry entry = {field->kind, field->inner};
    const char *at = base + field->offset;

    if (field->count != NULL) /* of the library's, which says nothing of its life */
        return from_value((struct am_py_entry){.kind = AM_PY_POINTER}, at);
    if (field->kind == AM_PY_TEXT)
        return am_py_from_text(at, field->n);
    if (field->kind == AM_PY_BYTES)
        return PyBytes_FromStringAndSize(at, (Py_ssize_t)field->n);
    if (field->n > 0)
        return am_py_from_array(entry, at, field->n);
    return from_value(entry, at);
}

/* ---- structs ---- */

static const struct am_py_field *field_find(const struct am_py_struct *type,
                                            PyObject *key)
{
    for (size_t i = 0; i < type->n_fields; i++) {
        if (PyUnicode_CompareWithASCIIString(key, type->fields[i].name) == 0)
            return &type->fields[i];
    }
    return NULL;
}

/*
 * One pass over the dict: its plain fields, or the arrays, which come
 * after their counts.  A conversion may call an __index__ that changes the dict, so
 * nothing is borrowed from it during the pass.
 */
static bool fields_fill(PyObject *dict, const struct am_py_place *place,
                        const struct am_py_struct *type, struct am_py_arena *arena,
                        bool is_counted, char *ret)
{
    bool is_good = true;
    Py_ssize_t at = 0;
    PyObject *key, *value;

    while (is_good && PyDict_Next(dict, &at, &key, &value)) {
        const struct am_py_field *field =
            PyUnicode_Check(key) ? field_find(type, key) : NULL;

        if (field == NULL)
            return am_py_refuse(PyExc_TypeError, place,
                                "has the key %R, which is not a field of %s", key,
                                type->name);
        if ((field->count != NULL) == is_counted) {
            struct am_py_place in = {place, field->name, 0};

            Py_INCREF(value);
            is_good = to_field(value, &in, field, arena, ret);
            Py_DECREF(value);
        }
    }
    return is_good;
}

bool am_py_to_struct(PyObject *object, const struct am_py_place *place,
                     const struct am_py_struct *type, struct am_py_arena *arena,
                     void *ret)
{
    memset(ret, 0, type->size);
    if (!PyDict_Check(object))
        return am_py_refuse_type(object, place, "a dict", "");
    if (type->is_union && PyDict_Size(object) > 1)
        return am_py_refuse(PyExc_TypeError, place,
                            "has %zd keys; %s is a union, so it takes one",
                            PyDict_Size(object), type->name);
    return fields_fill(object, place, type, arena, false, ret) &&
           fields_fill(object, place, type, arena, true, ret);
}

bool am_py_to_struct_or_null(PyObject *object, const struct am_py_place *place,
                             const struct am_py_struct *type, struct am_py_arena *arena,
                             void *storage, void **ret)
{
    *ret = object == Py_None ? NULL : storage;
    return object == Py_None || am_py_to_struct(object, place, type, arena, storage);
}

PyObject *am_py_from_struct(const struct am_py_struct *type, const void *value)
{
    PyObject *dict = PyDict_New();

    for (size_t i = 0; dict != NULL && i < type->n_fields; i++) {
        PyObject *item = from_field(&type->fields[i], value);

        if (item == NULL || PyDict_SetItemString(dict, type->fields[i].name, item) != 0)
            Py_CLEAR(dict);
        Py_XDECREF(item);
    }
    return dict;
}
