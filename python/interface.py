"""The C interface as the build knows it: functions from the lists in src/api, types and constants from include/acl."""
import os
import re

# Lists of functions: what a row begins with.
API = ("src/api/api.def", "AM_FUNCTION")
API_RET = ("src/api/api.def", "AM_FUNCTION_RET")
VARIADIC = ("src/api/api_variadic.def", "AM_API_VARIADIC")
UNSUPPORTED = ("src/api/api_unsupported.def", "AM_UNSUPPORTED")
DATA = ("src/toolkit/ascendcl.def", "AM_DATA")

SCALARS = {
    "int": "i32",
    "int32_t": "i32",
    "aclError": "i32",
    "int64_t": "i64",
    "uint8_t": "u8",
    "unsigned char": "u8",
    "uint16_t": "u16",
    "uint32_t": "u32",
    "uint64_t": "u64",
    "size_t": "u64",
    "float": "float",
    "char": "char",
    "void": "void",
}


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def split(text, separator=","):
    """The parts of text between separators, but for those inside brackets or quotes."""
    parts, depth, quoted, part = [], 0, False, ""
    for at, c in enumerate(text):
        if c == '"' and text[at - 1 : at] != "\\":
            quoted = not quoted
        depth += 0 if quoted else (c in "([{") - (c in ")]}")
        if c == separator and depth == 0 and not quoted:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    return parts + [part.strip()] if part.strip() else parts


def rows(text, macro):
    """The arguments of each use of a macro in a .def file."""
    text = without_comments(text)
    for found in re.finditer(r"\b%s\(" % macro, text):
        depth, at, quoted = 1, found.end(), False
        while depth > 0:
            if text[at] == '"' and text[at - 1] != "\\":
                quoted = not quoted
            depth += 0 if quoted else (text[at] == "(") - (text[at] == ")")
            at += 1
        yield split(text[found.end() : at - 1])


def columns(arguments):
    """The parameters and the signature of a row of api.def: (type, name, letter) for each argument."""
    triples = [split(argument[1:-1])[:3] for argument in arguments]
    parameters = ", ".join("%s %s" % (of, name) for of, name, _ in triples)
    return "(%s)" % (parameters or "void"), " ".join("%s:%s" % (name, letter) for _, name, letter in triples)


def string(text):
    """A C string, of one or more pieces."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)).replace('\\"', '"')


class Type:
    """A C type: its name without const, how many stars stand behind it, and what kind the name is."""

    def __init__(self, text, known):
        self.text = " ".join(text.split())
        self.is_const = bool(re.search(r"\bconst\b[^*]*\*", self.text))
        self.stars = self.text.count("*")
        self.base = " ".join(re.sub(r"\bconst\b|\*", " ", self.text).split())
        self.kind = "void" if self.stars and self.base in known.opaque else known.kind(self.base)
        if self.kind == "pointer":  # void * under another name
            self.kind, self.stars = "void", self.stars + 1

    def scalar(self):
        """The kind of value that one variable of this type is; None for a text, an array or an output."""
        if self.stars == 0 and self.kind not in ("struct", "char"):
            return self.kind
        return "pointer" if self.stars == 1 and self.kind == "void" else None

    def pointee(self):
        """The kind of what a pointer of this type points to."""
        if self.stars == 2 and self.kind == "void":
            return "pointer"
        return self.kind if self.stars == 1 else None


class Parameter:
    def __init__(self, text, known):
        text = " ".join(text.split())
        found = re.match(r"(.*?[\s*])(\w+)$", text)
        self.type = Type(found.group(1), known)
        self.name = found.group(2)


class Function:
    def __init__(self, name, returns, parameters, signature, known, is_unsupported=False):
        inner = parameters.strip()[1:-1]
        self.name = name
        self.returns = returns
        self.is_variadic = inner.rstrip().endswith("...")
        self.parameters = [] if inner.strip() == "void" else [
            Parameter(p, known) for p in split(inner) if p != "..."
        ]
        self.letters = dict(pair.split(":") for pair in signature.split())
        self.is_unsupported = is_unsupported

    def prototype(self):
        def declare(p):
            return p.type.text + ("" if p.type.text.endswith("*") else " ") + p.name

        inner = ", ".join([declare(p) for p in self.parameters] + ["..."] * self.is_variadic)
        return "%s%s%s(%s)" % (self.returns, "" if self.returns.endswith("*") else " ", self.name, inner or "void")


class Field:
    """A field of a struct: kind, how many if it is an array, and the inner fields of an unnamed struct."""

    def __init__(self, name, kind, base, stars, length, inner=None):
        self.name = name
        self.kind = kind
        self.base = base
        self.stars = stars
        self.length = length
        self.inner = inner


class Struct:
    def __init__(self, name, is_union, fields):
        self.name = name
        self.is_union = is_union
        self.fields = fields


class Interface:
    """Everything that is read from the sources in the folder root."""

    def __init__(self, root):
        self.root = root
        self.headers = self.header_text()
        self.enums = set(re.findall(r"typedef\s+enum\s+(\w+)", self.headers))
        self.pointers = set(re.findall(r"typedef\s+void\s*\*\s*(\w+)\s*;", self.headers))
        self.pointers |= set(re.findall(r"typedef\s+[\w\s]+\*?\s*\(\*(\w+)\)\s*\(", self.headers))
        self.plain = dict(
            (new, old) for old, new in re.findall(r"typedef\s+(u?int\d+_t|int)\s+(\w+)\s*;", self.headers)
        )
        bodies = re.findall(r"typedef\s+(struct|union)\s+(\w+)\s*(\{.*?\})\s*\2\s*;", self.headers, flags=re.S)
        self.struct_names = {name for _, name, _ in bodies}
        # Structs that programs have only pointers to.
        self.opaque = set(re.findall(r"typedef\s+struct\s+(\w+)\s+\1\s*;", self.headers)) - self.struct_names
        self.structs = {}
        for kind, name, body in bodies:
            self.structs[name] = Struct(name, kind == "union", list(self.fields(body)))
        self.functions = {f.name: f for f in self.all_functions()}

    def header_text(self):
        texts = []
        for at, folders, names in os.walk(os.path.join(self.root, "include", "acl")):
            folders.sort()
            texts += [read(at, name) for name in sorted(names) if name.endswith(".h")]
        return without_comments("\n".join(texts))

    def kind(self, base):
        if base in SCALARS:
            return SCALARS[base]
        if base in self.plain:
            return self.kind(self.plain[base])
        if base in self.enums:
            return "i32"
        return "pointer" if base in self.pointers else "struct"

    def fields(self, body):
        for text in split(body.strip()[1:-1], ";"):
            inner = re.match(r"(struct|union)\s*(\{.*\})\s*(\w+)$", text, flags=re.S)
            if inner:
                nested = Struct(None, inner.group(1) == "union", list(self.fields(inner.group(2))))
                yield Field(inner.group(3), "struct", None, 0, None, nested)
                continue
            found = re.match(r"(.*?)([\s*]+)(\w+)\s*(?:\[\s*(\w+)\s*\])?$", " ".join(text.split()))
            base, stars, name, length = found.groups()
            kind = Type(base + stars, self)
            yield Field(name, kind.kind, kind.base, kind.stars, length)

    def all_functions(self):
        for name, *arguments in rows(read(self.root, API[0]), API[1]):
            yield Function(name, "aclError", *columns(arguments), self)
        for returns, name, *arguments in rows(read(self.root, API_RET[0]), API_RET[1]):
            yield Function(name, returns, *columns(arguments), self)
        for returns, name, parameters in rows(read(self.root, VARIADIC[0]), VARIADIC[1]):
            yield Function(name, returns, parameters, "", self)
        for (name,) in rows(read(self.root, DATA[0]), DATA[1]):
            returns, parameters = re.search(r"ACL_FUNC_VISIBILITY ([^;()]*)\b%s(\([^;]*\));" % name, self.headers).groups()
            if "[" not in parameters and "**" not in parameters:  # none of those has a wrapper
                yield Function(name, returns.strip(), parameters, "", self)
        for returns, name, parameters in rows(read(self.root, UNSUPPORTED[0]), UNSUPPORTED[1]):
            yield Function(name, returns, parameters, "", self, True)

    def constants(self):
        """The names of all numbers that the headers define, in their order."""
        found = re.findall(r"^#define\s+(ACL\w*)[ \t]+[\w(]", self.headers, flags=re.M)
        found = [name for name in found if name != "ACL_FUNC_VISIBILITY"]
        found += re.findall(r"static\s+const\s+\w+\s+(ACL\w+)\s*=", self.headers)
        for body in re.findall(r"typedef\s+enum\s+\w+\s*\{(.*?)\}", self.headers, flags=re.S):
            found += re.findall(r"\b(ACL\w+)\s*=", body)
        return sorted(set(found))
