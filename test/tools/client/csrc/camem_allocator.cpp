/*
 * Stands in for vllm-ascend's allocator where there is no network: the same functions, and
 * none of its code.  One block at a time is enough.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "acl/acl.h"

static PyObject *on_malloc;
static PyObject *on_free;
static aclrtDrvMemHandle handle;

static void wake(int device, size_t size, void *at)
{
    aclrtPhysicalMemProp prop = {};

    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.id = (uint32_t)device;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    if (aclrtMallocPhysical(&handle, size, &prop, 0) == ACL_SUCCESS)
        aclrtMapMem(at, size, 0, handle, 0);
}

static void sleep(void *at)
{
    aclrtUnmapMem(at);
    aclrtFreePhysical(handle);
}

extern "C" __attribute__((visibility("default"))) void *my_malloc(ssize_t size, int device,
                                                                  aclrtStream)
{
    void *at = nullptr;

    if (aclrtReserveMemAddress(&at, (size_t)size, 0, nullptr, 1) != ACL_SUCCESS)
        return nullptr;
    Py_XDECREF(PyObject_CallFunction(on_malloc, "((iKKK))", device, (unsigned long long)size,
                                     (unsigned long long)at, 0ULL));
    wake(device, (size_t)size, at);
    return at;
}

extern "C" __attribute__((visibility("default"))) void my_free(void *at, ssize_t, int, aclrtStream)
{
    Py_XDECREF(PyObject_CallFunction(on_free, "K", (unsigned long long)at));
    sleep(at);
    aclrtReleaseMemAddress(at);
}

static PyObject *init_module(PyObject *, PyObject *args)
{
    return PyArg_ParseTuple(args, "OO", &on_malloc, &on_free) ? Py_BuildValue("") : nullptr;
}

static PyObject *create_and_map(PyObject *, PyObject *args)
{
    unsigned long long v[4];

    if (!PyArg_ParseTuple(args, "KKKK", &v[0], &v[1], &v[2], &v[3]))
        return nullptr;
    wake((int)v[0], v[1], (void *)v[2]);
    Py_RETURN_NONE;
}

static PyObject *unmap_and_release(PyObject *, PyObject *args)
{
    unsigned long long v[4];

    if (!PyArg_ParseTuple(args, "KKKK", &v[0], &v[1], &v[2], &v[3]))
        return nullptr;
    sleep((void *)v[2]);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"init_module", init_module, METH_VARARGS, nullptr},
    {"python_create_and_map", create_and_map, METH_VARARGS, nullptr},
    {"python_unmap_and_release", unmap_and_release, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "vllm_ascend_C", nullptr, -1, methods};

PyMODINIT_FUNC PyInit_vllm_ascend_C(void)
{
    return PyModule_Create(&definition);
}
