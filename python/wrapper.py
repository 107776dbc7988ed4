"""A function of the module: what a row of wrappers.def and the C interface say of it together."""
import re

import interface

KINDS = ("u8", "u16", "u32", "i32", "u64", "i64", "float", "pointer")


def snake(name):
    """virPtr -> vir_ptr, devPtr -> dev_ptr, numAttrs -> num_attrs."""
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


class Value:
    """A C parameter, and what it is in Python: an argument, an output, or neither (role null, count)."""

    def __init__(self, parameter, roles):
        self.c = parameter
        self.type = parameter.type
        self.roles = roles
        self.name = roles["name"][0] if "name" in roles else snake(parameter.name)
        self.role = None
        self.is_out = False

    def has(self, *names):
        return next((n for n in names if n in self.roles), None)


class Wrapper:
    """One row of AM_PY or AM_PY_QUICK."""

    def __init__(self, row, is_quick, known):
        self.path = row[0]
        self.module, _, self.name = self.path.rpartition(".")
        self.function = known.functions[row[1]]
        self.doc = interface.string(row[3])
        self.is_quick = is_quick
        roles, self.flags = self.parse_roles(interface.string(row[2]))
        unknown = set(roles) - {p.name for p in self.function.parameters}
        if unknown:
            raise ValueError("%s: there is no parameter %s" % (self.path, ", ".join(sorted(unknown))))
        self.values = [Value(p, roles.get(p.name, {})) for p in self.function.parameters]
        self.by_name = {v.c.name: v for v in self.values}
        for value in self.values:
            self.decide(value)
        for value in self.values:
            if value.role in ("array", "list", "view"):
                self.count_of(value)
        self.inputs = [v for v in self.values if not v.is_out and v.role not in ("null", "count")]
        self.outputs = [v for v in self.values if (v.is_out and v.role != "count") or v.has("back")]
        self.counts = list(dict.fromkeys(v.roles["array"][0] for v in self.values if v.role == "array"))

    @staticmethod
    def parse_roles(text):
        roles, flags = {}, set()
        for part in filter(None, (p.strip() for p in text.split(","))):
            parameter, is_role, role = part.partition("=")
            if not is_role:
                flags.add(part)
                continue
            name, *arguments = role.split(":")
            roles.setdefault(parameter, {})[name] = arguments
        return roles, flags

    def decide(self, value):
        """The role of a parameter, from the row or by the rule."""
        special = ("null", "array", "list", "view", "text", "ints", "ints_each", "share", "word", "callback", "data",
                   "unheard")
        value.role = value.has(*special)
        if value.role:
            value.is_out = value.role in ("list", "view", "text", "ints", "ints_each") or value.has("out") is not None
        elif value.has("address"):
            value.role = "pointer"
        elif value.type.scalar() in KINDS:
            value.role = value.type.scalar()
        elif value.type.kind == "struct":
            value.role = "struct"
            value.is_out = value.type.stars == 1 and not self.is_read(value)
        elif value.type.kind == "char" and value.type.stars == 1:
            value.role = "string"
        elif value.type.pointee() in KINDS and not value.type.is_const:
            value.role, value.is_out = value.type.pointee(), True
        else:
            raise ValueError("%s: %s needs a role" % (self.path, value.c.name))

    def is_read(self, value):
        """Whether a struct behind a pointer is an argument."""
        if value.has("in", "out"):
            return value.has("in") is not None
        return value.type.is_const or self.function.letters.get(value.c.name) == "t"

    def count_of(self, value):
        """The number of an array's entries is neither an argument nor an output."""
        count = self.by_name[value.roles[value.role][-1]]
        count.role = "count"

    def n_least(self):
        return sum(not v.has("optional") for v in self.inputs)

    def signature(self):
        names = [v.name + ("=None" if v.has("optional") else "") for v in self.inputs]
        return "%s(%s)" % (self.name, ", ".join(names + ["/"] * bool(names)))

    def usage(self):
        return "%s(%s)" % (self.name, ", ".join(v.name for v in self.inputs))

    def has_ret(self):
        return self.function.returns == "aclError"

    def returned(self):
        """What the call gives, by name."""
        if not self.has_ret():
            return [] if self.function.returns == "void" else ["value"]
        return [v.name for v in self.outputs] + ["ret"]


class Util:
    """A row of AM_PY_UTIL."""

    def __init__(self, row):
        self.path = row[0]
        self.module, _, self.name = self.path.rpartition(".")
        self.function = row[1]
        self.how = row[2]
        self.stub = interface.string(row[3])
        self.outputs = interface.string(row[4])
        self.doc = interface.string(row[5])

    def arguments(self):
        inner = self.stub[1 : self.stub.rindex(") ->")]
        return [part.partition(":")[0] for part in interface.split(inner)]

    def signature(self):
        return "%s(%s, /)" % (self.name, ", ".join(self.arguments()))

    def usage(self):
        return "%s(%s)" % (self.name, ", ".join(self.arguments()))

    def returned(self):
        return [self.outputs]


def load(root, path="python/wrappers.def"):
    """(the interface, all wrappers, all functions of acl.util), in the order of the table."""
    known = interface.Interface(root)
    text = interface.without_comments(interface.read(root, path))
    wrappers = []
    for found in re.finditer(r"^(AM_PY(_QUICK)?)\(", text, flags=re.M):
        row = next(interface.rows(text[found.start() :], found.group(1)))
        wrappers.append(Wrapper(row, found.group(2) is not None, known))
    return known, wrappers, [Util(row) for row in interface.rows(text, "AM_PY_UTIL")]
