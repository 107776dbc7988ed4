/*
 * The Python frames of a call, for the layers of the library: file, function, line.
 *
 * They are listed before the GIL is given up, and only where a layer wants them.
 */
#include "callers.h"

#include <stdio.h>

#include "aclmem/aclmem.h"

#define FRAMES_MAX 32
#define TEXT_MAX 8192
#define TEXT_ROOM 48 /* left free: an escape, two quotes, the line, the ends */

/* As JSON: quotes, backslashes and control characters are escaped. */
static size_t quote(char *text, size_t at, const char *string)
{
    text[at++] = '"';
    for (; *string != '\0' && at < TEXT_MAX - TEXT_ROOM; string++) {
        if (*string == '"' || *string == '\\' || (unsigned char)*string < ' ')
            at += (size_t)sprintf(text + at, "\\u%04x", (unsigned char)*string);
        else
            text[at++] = *string;
    }
    text[at++] = '"';
    return at;
}

/* An attribute's text; "?" where it has none.  *ret_kept is to be dropped afterwards. */
static const char *text_of(PyObject *object, const char *name, PyObject **ret_kept)
{
    const char *text = NULL;

    *ret_kept = object != NULL ? PyObject_GetAttrString(object, name) : NULL;
    if (*ret_kept != NULL)
        text = PyUnicode_AsUTF8AndSize(*ret_kept, NULL);
    if (text == NULL)
        PyErr_Clear();
    return text != NULL ? text : "?";
}

static size_t frame_add(char *text, size_t at, PyObject *frame)
{
    PyObject *code = PyObject_GetAttrString(frame, "f_code");
    PyObject *kept[2];

    text[at++] = '[';
    at = quote(text, at, text_of(code, "co_name", &kept[0]));
    text[at++] = ',';
    at = quote(text, at, text_of(code, "co_filename", &kept[1]));
    at +=
        (size_t)sprintf(text + at, ",%d]", PyFrame_GetLineNumber((PyFrameObject *)frame));
    Py_XDECREF(kept[0]);
    Py_XDECREF(kept[1]);
    Py_XDECREF(code);
    return at;
}

void am_py_callers_begin(struct am_py_callers *callers)
{
    PyObject *frame;
    size_t at = 0;

    callers->text = NULL;
    if (!aclmem_wants_callers())
        return;
    callers->text = PyMem_Malloc(TEXT_MAX);
    if (callers->text == NULL)
        return;
    callers->text[at++] = '[';
    frame = (PyObject *)PyEval_GetFrame();
    Py_XINCREF(frame);
    for (int i = 0;
         frame != NULL && frame != Py_None && i < FRAMES_MAX && at < TEXT_MAX / 2; i++) {
        PyObject *back = PyObject_GetAttrString(frame, "f_back");

        if (i > 0)
            callers->text[at++] = ',';
        at = frame_add(callers->text, at, frame);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    callers->text[at++] = ']';
    callers->text[at] = '\0';
    aclmem_set_callers(callers->text);
}

void am_py_callers_end(struct am_py_callers *callers)
{
    if (callers->text == NULL)
        return;
    aclmem_set_callers(NULL);
    PyMem_Free(callers->text);
}
