/* Where a task was queued, and what it reads and writes: for errors and for the layer check. */
#include "npu.h"

#include <sstream>
#include <unordered_set>

namespace npu
{

namespace
{

constexpr int kFrames = 32;

class WithGil
{
  public:
    WithGil() : state_(PyGILState_Ensure())
    {
    }
    ~WithGil()
    {
        PyGILState_Release(state_);
    }

  private:
    PyGILState_STATE state_;
};

/* Whether the thread runs a Python program: threads of autograd and of streams do not. */
bool has_python()
{
    return Py_IsInitialized() && PyGILState_GetThisThreadState() != nullptr;
}

std::string attribute(PyObject *code, const char *name)
{
    PyObject *value = PyObject_GetAttrString(code, name);
    const char *text = value != nullptr ? PyUnicode_AsUTF8(value) : nullptr;
    std::string result = text != nullptr ? text : "?";

    if (text == nullptr)
        PyErr_Clear(); /* not always: a tensor may end while the program's exception is on its way */
    Py_XDECREF(value);
    return result;
}

/* As a string of JSON. */
void quote(std::ostream &out, const std::string &text)
{
    char escape[8];

    out << '"';
    for (unsigned char c : text) {
        if (c == '"' || c == '\\' || c < ' ') {
            snprintf(escape, sizeof escape, "\\u%04x", c);
            out << escape;
        } else {
            out << c;
        }
    }
    out << '"';
}

/* Frames as aclmem_set_callers() wants them; the operation stands first, at the innermost line. */
std::string frames(const std::string &operation)
{
    WithGil gil;
    std::ostringstream out;
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());

    out << '[';
    for (int i = 0; frame != nullptr && i < kFrames; i++) {
        PyFrameObject *back = PyFrame_GetBack(frame);
        PyObject *code = reinterpret_cast<PyObject *>(PyFrame_GetCode(frame));
        std::string file = attribute(code, "co_filename");
        int line = PyFrame_GetLineNumber(frame);

        for (const std::string &name : {i == 0 ? operation : std::string(), attribute(code, "co_name")}) {
            if (name.empty())
                continue;
            out << (out.tellp() > 1 ? ",[" : "[");
            quote(out, name);
            out << ',';
            quote(out, file);
            out << ',' << line << ']';
        }
        Py_DECREF(code);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    out << ']';
    return out.str();
}

} // namespace

Where where()
{
    static std::unordered_set<PyObject *> codes; /* with a reference each; GIL */
    Where result;

    if (!has_python())
        return result;
    WithGil gil;
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());

    if (frame == nullptr)
        return result;
    result.code = reinterpret_cast<PyObject *>(PyFrame_GetCode(frame));
    result.line = PyFrame_GetLineNumber(frame);
    if (!codes.insert(result.code).second)
        Py_DECREF(result.code);
    Py_DECREF(frame);
    return result;
}

std::string Where::text() const
{
    WithGil gil;

    return attribute(code, "co_filename") + ":" + std::to_string(line) + " in " + attribute(code, "co_name");
}

static thread_local bool has_callers;

/* The outermost one of a thread counts. */
Callers::Callers(const std::string &operation)
{
    if (!aclmem_wants_callers() || has_callers)
        return;
    has_callers = true;
    if (has_python()) {
        text_ = frames(operation);
    } else {
        std::ostringstream out;

        out << '[' << '[';
        quote(out, operation);
        out << ",\"a thread without Python frames\",0]]";
        text_ = out.str();
    }
    aclmem_set_callers(text_.c_str());
}

Callers::~Callers()
{
    if (text_.empty())
        return;
    aclmem_set_callers(nullptr);
    has_callers = false;
}

bool wants_accesses()
{
    return aclmem_wants_access() != 0;
}

Access access_of(const Tensor &tensor, bool is_write)
{
    Access access;

    access.item = (uint32_t)tensor.itemsize();
    access.address = (uintptr_t)tensor.storage().data() + tensor.storage_offset() * access.item;
    access.is_write = is_write;
    for (int64_t i = 0; i < tensor.dim(); i++) {
        access.sizes.push_back(tensor.size(i));
        access.strides.push_back(tensor.stride(i) * (int64_t)access.item);
    }
    return access;
}

} // namespace npu
