/*
 * Between Python objects and C values.
 *
 * Every conversion knows its place: a chain of names from the function over the argument
 * to the key of a dict, of which a message is made only when something is wrong.  A
 * conversion that returns false has set a TypeError (wrong type, unknown key), an
 * OverflowError (number out of range) or a ValueError, and names that place.
 */
#ifndef ACL_PYTHON_CONVERT_H
#define ACL_PYTHON_CONVERT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a value stands; the outermost is the function. */
struct am_py_place {
    const struct am_py_place *in;
    const char *name; /* NULL: an entry of a sequence */
    Py_ssize_t index;
};

/* A function of the module: its name, and the names of its arguments. */
struct am_py_site {
    struct am_py_place function;
    Py_ssize_t n_least; /* arguments that must be given */
    Py_ssize_t n_most;
    const char *usage; /* "map_mem(vir_ptr, size, offset, handle, flags)" */
};

enum am_py_kind {
    AM_PY_U8,
    AM_PY_U16,
    AM_PY_U32,
    AM_PY_I32,
    AM_PY_U64,
    AM_PY_I64,
    AM_PY_POINTER,
    AM_PY_STRUCT,
    AM_PY_TEXT,  /* an array of char that ends with a 0 */
    AM_PY_BYTES, /* an array of char or uint8_t */
};

struct am_py_struct;

/*
 * A field of a struct.  Where it is a pointer to entries, `count` is the field with
 * their number.
 */
struct am_py_field {
    const char *name;
    enum am_py_kind kind;
    size_t offset;
    size_t n; /* entries of an array; 0: no array */
    const struct am_py_struct *inner;
    const struct am_py_field *count;
};

struct am_py_struct {
    const char *name;
    size_t size;
    bool is_union; /* one key at a time */
    const struct am_py_field *fields;
    size_t n_fields;
};

/* The entries of an array: plain values of one kind, or structs. */
struct am_py_entry {
    enum am_py_kind kind;
    const struct am_py_struct *inner;
};

/* Memory that lives as long as a call: a chain of blocks. */
struct am_py_arena {
    struct am_py_block *blocks;
};

void *am_py_arena_take(struct am_py_arena *arena, size_t n, size_t size);
void am_py_arena_free(struct am_py_arena *arena);

/* Raises `type` with a message that begins with the place; returns false. */
bool am_py_refuse(PyObject *type, const struct am_py_place *place, const char *format,
                  ...);
/* A TypeError: "must be WANTED, not TYPE", and the hint; returns false. */
bool am_py_refuse_type(PyObject *object, const struct am_py_place *place,
                       const char *wanted, const char *hint);
bool am_py_refuse_count(const struct am_py_site *site, Py_ssize_t n);

static inline bool am_py_count(const struct am_py_site *site, Py_ssize_t n)
{
    return (n >= site->n_least && n <= site->n_most) || am_py_refuse_count(site, n);
}

/*
 * Numbers.  Whatever has __index__ is one.  The plain case, an int in range, is inline;
 * all others, and what is wrong, are found out by the slow one.
 */
bool am_py_unsigned_slow(PyObject *object, const struct am_py_place *place, uint64_t most,
                         uint64_t *ret);
bool am_py_signed_slow(PyObject *object, const struct am_py_place *place, int64_t least,
                       int64_t most, int64_t *ret);

static inline bool am_py_unsigned(PyObject *object, const struct am_py_place *place,
                                  uint64_t most, uint64_t *ret)
{
    if (PyLong_CheckExact(object)) {
        *ret = PyLong_AsUnsignedLongLong(object);
        if (*ret <= most && *ret != UINT64_MAX) /* which may be an error */
            return true;
    }
    return am_py_unsigned_slow(object, place, most, ret);
}

static inline bool am_py_signed(PyObject *object, const struct am_py_place *place,
                                int64_t least, int64_t most, int64_t *ret)
{
    if (PyLong_CheckExact(object)) {
        *ret = PyLong_AsLong(object);
        if (*ret >= least && *ret <= most && *ret != -1)
            return true;
    }
    return am_py_signed_slow(object, place, least, most, ret);
}

bool am_py_float(PyObject *object, const struct am_py_place *place, float *ret);
/* Whether it is a numpy.ndarray: 1 or 0; -1 with an exception. */
int am_py_is_array(PyObject *object);
/* An int or None. */
bool am_py_pointer_slow(PyObject *object, const struct am_py_place *place, void **ret);

static inline bool am_py_pointer(PyObject *object, const struct am_py_place *place,
                                 void **ret)
{
    uint64_t value;

    if (!PyLong_CheckExact(object))
        return am_py_pointer_slow(object, place, ret);
    if (!am_py_unsigned(object, place, UINTPTR_MAX, &value))
        return false;
    *ret = (void *)(uintptr_t)value;
    return true;
}

/* A function that nothing will call, or None. */
bool am_py_callable_or_none(PyObject *object, const struct am_py_place *place);

/* A str or None; the text belongs to the object. */
bool am_py_text(PyObject *object, const struct am_py_place *place, const char **ret);

#define AM_PY_UNSIGNED(type_, name_, most_) \
    static inline bool am_py_##name_(PyObject *object, const struct am_py_place *place, \
                                     type_ *ret) \
    { \
        uint64_t value; \
\
        if (!am_py_unsigned(object, place, most_, &value)) \
            return false; \
        *ret = (type_)value; \
        return true; \
    }
AM_PY_UNSIGNED(uint16_t, u16, UINT16_MAX)
AM_PY_UNSIGNED(uint32_t, u32, UINT32_MAX)
AM_PY_UNSIGNED(uint64_t, u64, UINT64_MAX)
#undef AM_PY_UNSIGNED

#define AM_PY_SIGNED(type_, name_, least_, most_) \
    static inline bool am_py_##name_(PyObject *object, const struct am_py_place *place, \
                                     type_ *ret) \
    { \
        int64_t value; \
\
        if (!am_py_signed(object, place, least_, most_, &value)) \
            return false; \
        *ret = (type_)value; \
        return true; \
    }
AM_PY_SIGNED(int32_t, i32, INT32_MIN, INT32_MAX)
AM_PY_SIGNED(int64_t, i64, INT64_MIN, INT64_MAX)
#undef AM_PY_SIGNED

/*
 * struct.c: a dict with the names of fields, all optional; *ret is zero where there is no
 * key.
 */
bool am_py_to_struct(PyObject *object, const struct am_py_place *place,
                     const struct am_py_struct *type, struct am_py_arena *arena,
                     void *ret);
/* The same, or None; *ret is then NULL. */
bool am_py_to_struct_or_null(PyObject *object, const struct am_py_place *place,
                             const struct am_py_struct *type, struct am_py_arena *arena,
                             void *storage, void **ret);
PyObject *am_py_from_struct(const struct am_py_struct *type, const void *value);

/*
 * A sequence as an array in the arena.  *n is its length; where it is not SIZE_MAX
 * before, another sequence, called `with`, has set it, and the lengths must agree.  None
 * is no array, of length 0.
 */
bool am_py_to_array(PyObject *object, const struct am_py_place *place,
                    struct am_py_entry entry, struct am_py_arena *arena, size_t *n,
                    const char *with, void **ret);
PyObject *am_py_from_array(struct am_py_entry entry, const void *values, size_t n);
/* Text in a buffer of at most n bytes. */
PyObject *am_py_from_text(const char *text, size_t n);
/* Text, or None for NULL. */
PyObject *am_py_from_string(const char *text);
size_t am_py_entry_size(struct am_py_entry entry);

/* A tuple of n objects, whose references it takes; NULL when one of them is. */
PyObject *am_py_tuple(PyObject **objects, size_t n);

/* A shareable handle of either kind. */
union am_py_share {
    uint64_t number;
    uint8_t fabric[128];
};

bool am_py_to_share(PyObject *object, const struct am_py_place *place,
                    union am_py_share *ret);
/* Of the kind `type`; 0 or b"" where the call did not give one. */
PyObject *am_py_from_share(const union am_py_share *share, int32_t type, bool is_given);

/* The value of a pool's attribute, which is 32 or 64 bits wide by its number. */
bool am_py_to_word(PyObject *object, const struct am_py_place *place, int32_t attr,
                   uint64_t *ret);

/* Room for `size` bytes of 32-bit numbers each, and those numbers as lists. */
void **am_py_ints_room(struct am_py_arena *arena, const size_t *sizes, size_t n);
PyObject *am_py_from_ints_each(void **data, const size_t *sizes, size_t n);

#endif
