"""What the tests hold the module against: the lists of C functions, the headers, and the stubs."""
import ast
import os
import re

import acl

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PACKAGE = os.path.dirname(acl.__file__)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)


def rows(path, pattern):
    return re.findall(pattern, read(path))


# The functions that the module has: those of the runtime.  Captured models (aclmdl) are for C.
def of_module(functions):
    return [f for f in functions if re.match("acl(rt|sys|)[A-Z]", f)]


IMPLEMENTED = of_module(
    rows("src/api/api.def", r"\nAM_FUNCTION(?:\(|_RET\([^,]*,)\s*(\w+)")
    + rows("src/api/api_variadic.def", r"\bAM_API_VARIADIC\([^,]*,\s*(\w+)")
)
UNSUPPORTED = of_module(rows("src/api/api_unsupported.def", r"\bAM_UNSUPPORTED\([^,]*,\s*(\w+)"))
# Those for data on the host: blocks with their sizes, lists of them, descriptions of tensors.
DATA = [f for f in rows("src/toolkit/ascendcl.def", r"\bAM_DATA\((\w+)") if re.match("acl(Create|Destroy|Get|Set|Update|mdl.*Dataset)", f)]
# C function -> names in Python, from the table that the module is made of
TABLE = {}
for path, function in rows("python/wrappers.def", r"\bAM_PY(?:_QUICK)?\(([\w.]+),\s*(\w+)"):
    TABLE.setdefault(function, []).append(path)
C_FUNCTION = {path: function for function, paths in TABLE.items() for path in paths}
UTIL = rows("python/wrappers.def", r"\bAM_PY_UTIL\(([\w.]+)")
PATHS = sorted(C_FUNCTION) + UTIL


def resolve(path):
    """The function acl.PATH."""
    found = acl
    for part in path.split("."):
        found = getattr(found, part)
    return found


def stubs():
    """path -> ast.FunctionDef, of all stubs."""
    found = {}
    for module in ("", "mdl", "rt", "sys", "util"):
        with open(os.path.join(PACKAGE, (module or "__init__") + ".pyi"), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                found[module + "." * bool(module) + node.name] = node
    return found


STUBS = stubs()


def arguments(path):
    """[(name, annotation)] of a function, by its stub."""
    return [(a.arg, ast.unparse(a.annotation)) for a in STUBS[path].args.posonlyargs]
