"""The C text of the module: field tables of structs, a function for each wrapper, tables of methods and constants."""
import textwrap

import interface

KIND_NAMES = {"pointer": "AM_PY_POINTER", "struct": "AM_PY_STRUCT"}
C_TYPES = {"i32": "int32_t", "u32": "uint32_t", "u64": "uint64_t", "i64": "int64_t", "u16": "uint16_t",
           "float": "float", "pointer": "void *"}
# Fields of char that are no text.
RAW_FIELDS = {("aclrtUuid", "bytes"), ("aclrtIpcEventHandle", "reserved")}
MODULES = ("", "mdl", "rt", "sys", "util")


def kind_name(kind):
    return KIND_NAMES.get(kind, "AM_PY_" + kind.upper())


def quoted(text):
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def long_string(text):
    """A C string over several lines."""
    return "\n".join("    " + quoted(line + "\n") for line in text.split("\n"))


# ---- structs ----


def field_kind(struct, field):
    if field.stars > 0:
        return kind_name(field.kind) if field.count else "AM_PY_POINTER"
    if field.kind == "char":
        return "AM_PY_BYTES" if (struct.name, field.name) in RAW_FIELDS else "AM_PY_TEXT"
    if field.kind == "u8" and field.length:
        return "AM_PY_BYTES"
    return kind_name(field.kind)


def counts(struct):
    """Which field counts the entries of which: a pointer to entries, and the number after it."""
    for field, after in zip(struct.fields, struct.fields[1:] + [None]):
        is_counted = field.stars > 0 and after is not None and after.name.startswith("num")
        field.count = after.name if is_counted else None


def struct_tables(known):
    for struct in known.structs.values():
        yield from struct_table(struct, struct.name, struct.name, "")


def struct_table(struct, table, outer, prefix):
    counts(struct)
    for field in struct.fields:
        if field.inner:
            yield from struct_table(field.inner, table + "_" + field.name, outer, prefix + field.name + ".")
    start = "offsetof(%s, %s)" % (outer, prefix[:-1]) if prefix else "0"
    size = "sizeof(((%s *)0)->%s)" % (outer, prefix[:-1]) if prefix else "sizeof(%s)" % outer
    yield "static const struct am_py_field fields_%s[] = {" % table
    for at, field in enumerate(struct.fields):
        inner = "NULL"
        if field.inner:
            inner = "&struct_%s_%s" % (table, field.name)
        elif field.kind == "struct" and (field.stars == 0 or field.count):
            inner = "&struct_%s" % field.base
        yield '    {"%s", %s, offsetof(%s, %s%s) - %s, %s, %s, %s},' % (
            field.name, field_kind(struct, field), outer, prefix, field.name, start, field.length or 0, inner,
            "&fields_%s[%d]" % (table, at + 1) if field.count else "NULL",
        )
    yield "};"
    yield 'static const struct am_py_struct struct_%s = {"%s", %s, %s, fields_%s, %d};' % (
        table, struct.name or table, size, str(struct.is_union).lower(), table, len(struct.fields),
    )
    yield ""


# ---- one wrapper ----


def local(value):
    return "c_" + value.c.name


def pointed(value):
    """The type that a pointer parameter points to."""
    return value.type.text.rstrip()[:-1].rstrip()


def entry(value):
    """The kind of an array's entries."""
    kind = value.type.pointee() or value.type.kind
    inner = "&struct_" + value.type.base if kind == "struct" else "NULL"
    return "(struct am_py_entry){%s, %s}" % (kind_name(kind), inner)


def needs_arena(wrapper):
    return any(v.role in ("array", "list", "text", "ints", "ints_each", "struct") and not
               (v.role == "struct" and v.is_out) for v in wrapper.values)


def declarations(wrapper):
    """The local variables, by their role."""
    for name in wrapper.counts:
        yield "size_t n_%s = SIZE_MAX;" % name
    for v in wrapper.values:
        name = local(v)
        if v.role == "struct":
            yield "%s value_%s;" % (v.type.base, v.c.name)
            if not v.is_out and v.type.stars:
                yield "void *%s;" % name
        elif v.role == "share":
            yield "union am_py_share %s = {0};" % name
        elif v.role == "word":
            yield "uint64_t %s = 0;" % name
        elif v.role == "string":
            yield "const char *%s;" % name
        elif v.role in ("array", "ints"):
            yield "void *%s = NULL;" % name
        elif v.role == "list":
            yield "%s *%s;" % (v.type.base, name)
        elif v.role == "ints_each":
            yield "void **%s;" % name
        elif v.role == "view":
            yield "%s %s = NULL;" % (pointed(v), name)
        elif v.role == "text":
            yield "char *%s;" % name
            yield "size_t n_%s;" % v.c.name
        elif v.role == "callback":
            yield "void *number;"
        elif v.role in ("null", "data", "unheard"):
            pass
        elif v.role == "count":
            if v.type.stars:
                yield "%s %s = 0;" % (pointed(v), name)
        elif v.is_out:
            yield "%s%s%s = 0;" % (pointed(v), "" if pointed(v).endswith("*") else " ", name)
        else:
            yield "%s%s%s;" % (C_TYPES[v.role], "" if v.role == "pointer" else " ", name)


def conversion(wrapper, at, v):
    """The expression that turns argument number `at` into C; false when it could not."""
    name = local(v)
    given = "n > %d ? args[%d] : Py_None" % (at, at) if v.has("optional") else "args[%d]" % at
    where = "&at[%d]" % at
    if v.role == "struct" and v.type.stars:
        return "am_py_to_struct_or_null(%s, %s, &struct_%s, &arena, &value_%s, &%s)" % (
            given, where, v.type.base, v.c.name, name)
    if v.role == "struct":
        return "am_py_to_struct(%s, %s, &struct_%s, &arena, &value_%s)" % (given, where, v.type.base, v.c.name)
    if v.role == "string":
        return "am_py_text(%s, %s, &%s)" % (given, where, name)
    if v.role == "share":
        return "am_py_to_share(%s, %s, &%s)" % (given, where, name)
    if v.role == "word":
        return "am_py_to_word(%s, %s, c_%s, &%s)" % (given, where, v.roles["word"][0], name)
    if v.role == "array":
        count = v.roles["array"][0]
        first = next(o for o in wrapper.inputs if o.roles.get("array") == [count])
        return 'am_py_to_array(%s, %s, %s, &arena, &n_%s, "%s", &%s)' % (
            given, where, entry(v), count, first.name, name)
    if v.role == "callback":
        return '(PyCallable_Check(%s) || am_py_refuse_type(%s, %s, "callable", ""))' % (given, given, where)
    if v.role == "unheard":
        return 'am_py_callable_or_none(%s, %s)' % (given, where)
    return "am_py_%s(%s, %s, &%s)" % (v.role, given, where, name)


def room(wrapper):
    """Statements that make room for outputs, once the arguments are known."""
    for v in wrapper.outputs:
        if v.role == "struct":
            yield "memset(&value_%s, 0, sizeof value_%s);" % (v.c.name, v.c.name)
        elif v.role == "text":
            size = v.roles["text"][0]
            size = "c_%s > 0 ? (size_t)c_%s : 0" % (size, size) if size in wrapper.by_name else size
            yield "n_%s = %s;" % (v.c.name, size)
            yield "%s = am_py_arena_take(&arena, n_%s + 1, 1);" % (local(v), v.c.name)
        elif v.role == "list":
            yield "%s = am_py_arena_take(&arena, c_%s, sizeof *%s);" % (local(v), v.roles["list"][0], local(v))
        elif v.role == "ints":
            yield "%s = am_py_arena_take(&arena, c_%s, 1);" % (local(v), v.roles["ints"][0])
        elif v.role == "ints_each":
            sizes = v.roles["ints_each"][0]
            yield "%s = am_py_ints_room(&arena, c_%s, n_%s);" % (local(v), sizes,
                                                               wrapper.by_name[sizes].roles["array"][0])
        if v.role in ("text", "list", "ints", "ints_each"):
            yield "if (%s == NULL)" % local(v)
            yield "    goto out;"


def passed(wrapper, v):
    """What the C function is given for a parameter."""
    name = local(v)
    if v.role in ("null", "unheard"):
        return "NULL"
    if v.role == "callback":
        return "am_py_callback_run"
    if v.role == "data":
        return "number"
    if v.role == "struct":
        if v.is_out:
            return "&value_%s" % v.c.name
        return name if v.type.stars else "value_%s" % v.c.name
    if v.role in ("share", "word", "view") or (v.is_out and v.role in C_TYPES):
        return "&" + name
    if v.role == "count":
        return "&" + name if v.type.stars else "(%s)n_%s" % (v.type.text, v.c.name)
    if v.role in ("list", "text", "ints", "ints_each"):
        return name
    return "(%s)%s" % (v.type.text, name)


def made(wrapper, v):
    """The expression for an output; what is not plain is empty after a failure."""
    name = local(v)
    if v.role == "struct":
        return "ret == 0 ? am_py_from_struct(&struct_%s, &value_%s) : PyDict_New()" % (v.type.base, v.c.name)
    if v.role == "text":
        return "am_py_from_text(%s, ret == 0 ? n_%s : 0)" % (name, v.c.name)
    if v.role == "list":
        most, filled = v.roles["list"]
        return "am_py_from_array(%s, %s, ret == 0 ? Py_MIN(c_%s, c_%s) : 0)" % (entry(v), name, filled, most)
    if v.role == "view":
        return "am_py_from_array((struct am_py_entry){AM_PY_I32, NULL}, %s, ret == 0 ? c_%s : 0)" % (
            name, v.roles["view"][0])
    if v.role == "ints":
        return "am_py_from_array((struct am_py_entry){AM_PY_I32, NULL}, %s, ret == 0 ? c_%s / 4 : 0)" % (
            name, v.roles["ints"][0])
    if v.role == "ints_each":
        sizes = wrapper.by_name[v.roles["ints_each"][0]]
        return "am_py_from_ints_each(%s, %s, ret == 0 ? n_%s : 0)" % (name, local(sizes), sizes.roles["array"][0])
    if v.role == "share":
        return "am_py_from_share(&%s, c_%s, ret == 0)" % (name, v.roles["share"][0])
    return number(v.role, name)


def number(role, name):
    if role in ("i32", "u16"):
        return "PyLong_FromLong(%s)" % name
    if role == "i64":
        return "PyLong_FromLongLong(%s)" % name
    if role == "float":
        return "PyFloat_FromDouble((double)%s)" % name
    if role == "pointer":
        return "PyLong_FromVoidPtr((void *)%s)" % name
    return "PyLong_FromUnsignedLongLong(%s)" % name


def call(wrapper):
    """The call itself, and what has to be around it."""
    f = wrapper.function
    arguments = [passed(wrapper, v) for v in wrapper.values]
    if f.is_variadic:
        arguments.insert(-1, '"%s"')
    text = "%s(%s);" % (f.name, ", ".join(arguments))
    callback = next((v for v in wrapper.inputs if v.role == "callback"), None)
    drops = next((v for v in wrapper.inputs if v.has("drops")), None)
    at_zero = next((v for v in wrapper.outputs if v.has("drops_at_zero")), None)
    does_drop = drops or at_zero or "drops_all" in wrapper.flags
    if callback:
        is_blocking = "c_blockType == ACL_CALLBACK_BLOCK" if "blockType" in wrapper.by_name else "true"
        data = next(i for i, v in enumerate(wrapper.inputs) if v.role == "data")
        yield "number = am_py_callback_add(args[%d], args[%d], c_stream, %s);" % (
            wrapper.inputs.index(callback), data, is_blocking)
        yield "if (number == NULL)"
        yield "    goto out;"
    if does_drop:
        yield "last = am_py_callback_last();"
    if "reports" in wrapper.flags:
        yield "am_py_callback_report_begin();"
    yield "am_py_callers_begin(&callers);"
    if not wrapper.is_quick:
        yield "Py_BEGIN_ALLOW_THREADS"
    yield ("" if f.returns == "void" else "ret = ") + text
    if not wrapper.is_quick:
        yield "Py_END_ALLOW_THREADS"
    yield "am_py_callers_end(&callers);"
    if "reports" in wrapper.flags:
        yield "if (!am_py_callback_report_end())"
        yield "    goto out;"
    if callback:
        yield "if (ret != 0)"
        yield "    am_py_callback_drop(number);"
    if does_drop:
        condition = " && %s != NULL" % local(drops) if drops else " && %s == 0" % local(at_zero) if at_zero else ""
        yield "if (ret == 0%s)" % condition
        yield "    am_py_callback_forget(%s, last);" % (local(drops) if drops else "NULL")


def result(wrapper, known):
    returns = wrapper.function.returns
    if returns == "void":
        yield "result = Py_None;"
        yield "Py_INCREF(result);"
    elif returns == "const char *":
        yield "result = am_py_from_string(ret);"
    elif not wrapper.has_ret():
        yield "result = %s;" % number(interface.Type(returns, known).scalar(), "ret")
    elif not wrapper.outputs:
        yield "result = PyLong_FromLong(ret);"
    else:
        yield "{"
        yield "    PyObject *made[] = {"
        for v in wrapper.outputs:
            yield "        %s," % made(wrapper, v)
        yield "        PyLong_FromLong(ret),"
        yield "    };"
        yield ""
        yield "    result = am_py_tuple(made, Py_ARRAY_LENGTH(made));"
        yield "}"


def wrapper_function(wrapper, known):
    inputs = wrapper.inputs
    has_arena = needs_arena(wrapper)
    body = []
    steps = ["am_py_count(&site, n)"] + [
        conversion(wrapper, i, v) for i, v in enumerate(inputs) if v.role != "data"
    ]
    body.append("if (!%s)" % " ||\n    !".join(steps))
    body.append("    goto out;")
    body += list(room(wrapper)) + list(call(wrapper)) + list(result(wrapper, known))
    yield "static PyObject *%s(PyObject *self, PyObject *const *args, Py_ssize_t n)" % c_name(wrapper)
    yield "{"
    yield "    static const struct am_py_site site = {{NULL, %s, 0}, %d, %d, %s};" % (
        quoted(wrapper.path), wrapper.n_least(), len(inputs), quoted(wrapper.usage()))
    if inputs:
        yield "    static const struct am_py_place at[] = {"
        for v in inputs:
            yield "        {&site.function, %s, 0}," % quoted(v.name)
        yield "    };"
    for line in declarations(wrapper):
        yield "    " + line
    if has_arena:
        yield "    struct am_py_arena arena = {NULL};"
    if any("drops" in text for v in wrapper.values for text in v.roles) or "drops_all" in wrapper.flags:
        yield "    uint64_t last;"
    if wrapper.function.returns != "void":
        yield "    %s ret;" % wrapper.function.returns
    yield "    struct am_py_callers callers;"
    yield "    PyObject *result = NULL;"
    yield ""
    for line in body:
        yield textwrap.indent(line, "    ")
    yield "out:"
    if has_arena:
        yield "    am_py_arena_free(&arena);"
    yield "    return result;"
    yield "}"
    yield ""


def c_name(wrapper):
    return "py_" + wrapper.path.replace(".", "_")


# ---- the whole ----


def emit(known, wrappers, utils, docstring):
    yield "/* Generated by python/generate.py from python/wrappers.def, src/api and include/acl. */"
    yield from struct_tables(known)
    for wrapper in wrappers:
        yield from wrapper_function(wrapper, known)
    for module in MODULES:
        yield "static PyMethodDef methods_%s[] = {" % (module or "acl")
        for w in wrappers + utils:
            if w.module != module:
                continue
            function, how = (c_name(w), "METH_FASTCALL") if w in wrappers else (w.function, w.how)
            yield "    {%s, (PyCFunction)(void (*)(void))%s, %s," % (quoted(w.name), function, how)
            yield long_string(docstring(w)) + "},"
        yield "    {NULL, NULL, 0, NULL},"
        yield "};"
        yield ""
    yield "static const struct constant constants[] = {"
    for name in known.constants():
        yield '    {"%s", %s},' % (name, name)
    yield "};"
