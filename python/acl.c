/*
 * The Python module `acl`: the names, arguments and return order of pyACL over
 * libascendcl.so.
 *
 * wrappers.def names the functions; generate.py makes a C function of each row, with the
 * types that src/api and the headers give, and the tables that are included here. Outputs
 * come first and the code last; a refused call is a code, never an exception.  Only what
 * is wrong with the Python side of a call raises: a wrong type, a number out of range, an
 * unknown key.
 *
 * The module keeps the GIL in functions that neither wait nor copy and gives it up in all
 * others, so that other threads, and functions that a stream runs, can go on.  Its tables
 * are guarded by the GIL and belong to the process, as the runtime does: it refuses
 * sub-interpreters, and says that it needs the GIL.
 */
#include "convert.h"

#include <string.h>

#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
#include "acl/acl_prof.h"
#include "acl/acl_tdt.h"
#include "callback.h"
#include "callers.h"
#include "util.h"

struct constant {
    const char *name;
    long long value;
};

#include <wrappers.inc> /* made by generate.py */

PyDoc_STRVAR(
    acl_doc,
    "AscendCL for Python: memory, streams and events of Ascend devices.\n"
    "\n"
    "acl.rt has the runtime, acl.util addresses of Python's objects and threads for\n"
    "callbacks, acl.sys versions; acl.ACL_... are the constants of the C headers.\n"
    "\n"
    "A call gives its outputs first and the error code `ret` last, or ret alone where "
    "it\n"
    "has no output.  ret is 0 when all went well; a failed call is a code, never an\n"
    "exception, and acl.get_recent_err_msg() says what was wrong.  The outputs of a "
    "failed\n"
    "call are 0, or empty.\n"
    "\n"
    "Addresses and handles are ints, and None is the null pointer.  Structs are dicts "
    "with\n"
    "the names of the C fields; a key that is not given is 0.\n");

static struct PyModuleDef submodules[] = {
    {PyModuleDef_HEAD_INIT, "acl.mdl", "Sets of data buffers; models do not run.", -1,
     methods_mdl, NULL, NULL, NULL, NULL},
    {PyModuleDef_HEAD_INIT, "acl.rt", "The runtime: devices, memory, streams, events.",
     -1, methods_rt, NULL, NULL, NULL, NULL},
    {PyModuleDef_HEAD_INIT, "acl.sys", "Versions of what is installed.", -1, methods_sys,
     NULL, NULL, NULL, NULL},
    {PyModuleDef_HEAD_INIT, "acl.util",
     "Addresses of Python's objects, objects over addresses, threads for callbacks.", -1,
     methods_util, NULL, NULL, NULL, NULL},
};

/* As acl.NAME, and for `import acl.NAME`. */
static int submodule_add(PyObject *module, struct PyModuleDef *def)
{
    PyObject *submodule = PyModule_Create(def);
    int rc = -1;

    if (submodule == NULL)
        return -1;
    if (PyDict_SetItemString(PyImport_GetModuleDict(), def->m_name, submodule) == 0)
        rc = PyObject_SetAttrString(module, strchr(def->m_name, '.') + 1, submodule);
    Py_DECREF(submodule);
    return rc;
}

static int constants_add(PyObject *module)
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(constants); i++) {
        PyObject *value = PyLong_FromLongLong(constants[i].value);
        int rc =
            value != NULL ? PyObject_SetAttrString(module, constants[i].name, value) : -1;

        Py_XDECREF(value);
        if (rc != 0)
            return -1;
    }
    return PyModule_AddStringConstant(module, "__version__", ACLMEM_PYTHON_VERSION);
}

static int acl_exec(PyObject *module)
{
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) { /* 0 is the main one */
        PyErr_SetString(PyExc_ImportError,
                        "acl: the runtime belongs to the process; import acl in the main "
                        "interpreter, not in a sub-interpreter");
        return -1;
    }
    if (am_py_callback_init() != 0 || am_py_util_init() != 0 ||
        constants_add(module) != 0)
        return -1;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(submodules); i++) {
        if (submodule_add(module, &submodules[i]) != 0)
            return -1;
    }
    return 0;
}

static PyModuleDef_Slot acl_slots[] = {
    {Py_mod_exec, acl_exec},
#ifdef Py_mod_multiple_interpreters /* not in the limited API of 3.11, whatever the headers */
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef acl_def = {
    PyModuleDef_HEAD_INIT, "acl", acl_doc, 0, methods_acl, acl_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_acl(void);

PyMODINIT_FUNC PyInit_acl(void)
{
    return PyModuleDef_Init(&acl_def);
}
