"""For Python's tools: docstrings, and type stubs."""
import re
import textwrap

import emit_c

NUMBERS = {"i32": "int", "u32": "int", "u64": "int", "i64": "int", "u16": "int", "float": "float"}


def entry_type(value):
    kind = value.type.pointee() or value.type.kind
    if kind == "struct":
        return "_" + value.type.base
    return "int | None" if kind == "pointer" else "int"


def input_type(value):
    if value.role in NUMBERS:
        return NUMBERS[value.role]
    if value.role == "struct":
        return "_%s%s" % (value.type.base, " | None" if value.type.stars else "")
    if value.role == "array":
        return "Sequence[%s] | None" % entry_type(value)
    return {"pointer": "int | None", "string": "str | None", "share": "int | bytes", "word": "int",
            "callback": "Callable[[Any], object]", "data": "Any",
            "unheard": "Callable[[int], object] | None"}[value.role]


def output_type(value):
    if value.role in NUMBERS:
        return NUMBERS[value.role]
    if value.role == "struct":
        return "_" + value.type.base
    if value.role == "list":
        return "list[%s]" % entry_type(value)
    return {"pointer": "int", "share": "int | bytes", "word": "int", "text": "str", "view": "list[int]",
            "ints": "list[int]", "ints_each": "list[list[int]]"}[value.role]


def return_type(wrapper, known):
    returns = wrapper.function.returns
    if returns == "void":
        return "None"
    if returns == "const char *":
        return "str | None"
    if not wrapper.has_ret():
        return NUMBERS.get(known.kind(returns), "int")
    if not wrapper.outputs:
        return "int"
    return "tuple[%s]" % ", ".join([output_type(v) for v in wrapper.outputs] + ["int"])


# ---- docstrings ----


def fields_text(struct, known):
    """{location {id, type}, reserve}, and {attrs [{attr}]} for a list."""
    def text(field):
        is_dict = field.kind == "struct" and (field.stars == 0 or field.count)
        inner = field.inner or (known.structs[field.base] if is_dict else None)
        if inner is None:
            return field.name
        is_list = field.count or field.length
        return field.name + (" [%s]" if is_list else " %s") % fields_text(inner, known)

    return "{%s}" % ", ".join(text(f) for f in struct.fields)


def describe(value, known, is_output):
    """A line on an argument or an output, or None where its type says it all."""
    if value.role == "struct":
        return "%s: dict %s" % (value.name, fields_text(known.structs[value.type.base], known))
    if value.role in ("array", "list") and entry_type(value).startswith("_"):
        return "%s: %s of dicts %s" % (value.name, "list" if is_output else "sequence",
                                       fields_text(known.structs[value.type.base], known))
    kind = output_type(value) if is_output else input_type(value)
    kind = kind.replace(" | ", " or ")
    return "%s: %s%s" % (value.name, kind, ", may be left out" if value.has("optional") else "")


def wrapped(text, indent="    "):
    return textwrap.fill(text, 88, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def docstring(wrapper, known):
    """The first lines are what inspect.signature reads."""
    lines = [wrapper.signature(), "--", ""]
    given = ", ".join(wrapper.returned())
    path = "acl." + wrapper.path[: -len(wrapper.name)]
    lines += [wrapped("%s%s%s" % (given + " = " if given else "", path, wrapper.usage())), ""]
    lines += [wrapped(wrapper.doc, "")]
    if not hasattr(wrapper, "inputs"):
        return "\n".join(lines)
    lines += [""]
    if wrapper.inputs:
        lines += ["Arguments:"] + [wrapped("  " + describe(v, known, False)) for v in wrapper.inputs]
    lines += ["Returns:"]
    if wrapper.has_ret():
        lines += [wrapped("  " + describe(v, known, True)) for v in wrapper.outputs]
        lines += ["  ret: int, 0 or an error code"]
    else:
        lines += ["  " + return_type(wrapper, known).replace(" | ", " or ")]
    lines += ["", wrapped("In C: " + wrapper.function.prototype())]
    return "\n".join(lines)


# ---- stubs ----


def struct_type(struct, name):
    for field in struct.fields:
        if field.inner:
            yield from struct_type(field.inner, name + "_" + field.name)
    yield "class %s(TypedDict, total=False):" % name
    for field in struct.fields:
        yield "    %s: %s" % (field.name, field_type(struct, field, name))
    yield ""


def field_type(struct, field, name):
    kind = emit_c.field_kind(struct, field)
    if kind == "AM_PY_TEXT":
        return "str"
    if kind == "AM_PY_BYTES":
        return "bytes"
    inner = name + "_" + field.name if field.inner else "_" + (field.base or "")
    plain = inner if kind == "AM_PY_STRUCT" else "int"
    return "list[%s]" % plain if field.length or field.count else plain


HEAD = '''"""%s

Made from the same table as the module itself.  Arguments are positional.  Structs are dicts whose keys are
all optional; a key that is not given is 0.
"""
from collections.abc import Callable, Sequence
from typing import Any, TypedDict
'''


def function_stub(wrapper, known):
    if hasattr(wrapper, "inputs"):
        arguments = ["%s: %s%s" % (v.name, input_type(v), " = None" if v.has("optional") else "")
                     for v in wrapper.inputs]
        signature = "(%s) -> %s" % (", ".join(arguments + ["/"] * bool(arguments)), return_type(wrapper, known))
    else:
        signature = wrapper.stub.replace(") ->", ", /) ->")
    yield "def %s%s:" % (wrapper.name, signature)
    yield '    """%s"""' % wrapper.doc
    yield ""


def stub(module, wrappers, known):
    """The text of the stub of one module: "" is acl itself."""
    yield HEAD % ("The Python module acl%s of aclmem." % ("." + module if module else ""))
    if module == "":
        yield "from . import rt as rt, sys as sys, util as util"
        yield ""
        yield "__version__: str"
        yield from ("%s: int" % name for name in known.constants())
        yield ""
    body = [line for w in wrappers if w.module == module for line in function_stub(w, known)]
    text = "\n".join(body)
    yield from needed_types(known, text)
    yield text


def needed_types(known, text):
    """The dicts that the functions name, and those inside them, which come first."""
    needed = []

    def need(name):
        struct = known.structs[name]
        for field in struct.fields + [f for g in struct.fields if g.inner for f in g.inner.fields]:
            if field.kind == "struct" and field.base in known.structs:
                need(field.base)
        if name not in needed:
            needed.append(name)

    for name in known.structs:
        if re.search(r"\b_%s\b" % name, text):
            need(name)
    for name in needed:
        yield from struct_type(known.structs[name], "_" + name)
