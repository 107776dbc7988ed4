#!/usr/bin/env python3
"""Checks the lists of functions in src/api and src/toolkit against themselves and the public headers.

    check_api_def.py SOURCE_DIR INCLUDE_DIR      (src and include)

- Every row has the form that its list is for.
- In api.def each letter fits its argument's type.
- No name has two rows.
- Every declared function has a row, with the same result and parameters if the row has any, and
  every row is declared, except those of opapi.def and runtime.def, which are not.

That rows and declarations agree for the compiler too is seen when the library is built.
"""

import pathlib
import re
import sys

# The columns of each list's rows, in order.
TOOLKIT = {"AM_DATA": ["name"], "AM_REFUSED": ["ret", "name", "params", "value"], "AM_REFUSED_NAME": ["name", "value"]}
LISTS = {
    "api/api.def": {"AM_FUNCTION": ["name", "triples"], "AM_FUNCTION_RET": ["ret", "name", "triples"]},
    "api/api_unsupported.def": {"AM_UNSUPPORTED": ["ret", "name", "params"]},
    "api/api_variadic.def": {"AM_API_VARIADIC": ["ret", "name", "params"]},
    "toolkit/ascendcl.def": TOOLKIT,
    "toolkit/acl_op_compiler.def": TOOLKIT,
    "toolkit/acl_tdt_channel.def": TOOLKIT,
    "toolkit/nnopbase.def": TOOLKIT,
    "toolkit/hccl.def": TOOLKIT,
    "toolkit/opapi.def": TOOLKIT,
    "toolkit/runtime.def": {"AM_RUNTIME": ["name", "params"]},
}
UNDECLARED = ["toolkit/opapi.def", "toolkit/runtime.def"]

# The letters that fit a type; those of enumerations, structs and handles follow from the
# headers.  Any pointer may be called p, which says only that it is one.
MARKS = ("nonnull", "nonzero", "zero", "null", "timeout", "to_1", "to_2", "to_3", "to_7", "to_9", "any")
MARKS += ("stream", "own_stream", "event", "notify", "model", "complete_model", "context", "pool", "device", "device_id")
LETTERS = {
    "size_t": "z",
    "uint64_t": "xl",
    "int64_t": "l",
    "int32_t": "i",
    "uint32_t": "u",
    "float": "f",
    "aclFloat16": "h",
    "const char *": "s",
    "char *": "sS",
    "void **": "P",
    "uint64_t **": "P",
}


def strip_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def squeeze(text):
    return " ".join(text.split())


def split_commas(text):
    """Splits at the commas that are inside no parenthesis and no string."""
    parts, depth, start, quoted = [], 0, 0, False
    for i, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif not quoted:
            depth += (c == "(") - (c == ")")
            if c == "," and depth == 0:
                parts.append(squeeze(text[start:i]))
                start = i + 1
    return parts + [squeeze(text[start:])]


def unwrap(text, left, right):
    """The text between its first and last character, or None when those are others."""
    if len(text) >= 2 and text[0] == left and text[-1] == right:
        return text[1:-1].strip()
    return None


def param_type(param):
    """The type without a const of the parameter's own, which says nothing to the caller."""
    bare = re.sub(r"\w+$", "", param).strip()
    bare = re.sub(r"\bconst$", "", bare)
    return re.sub(r"\s*\bconst\s*(?=\w+$)", "", bare).strip()


class Checker:
    def __init__(self):
        self.problems = []
        self.rows = {}  # name -> (list, ret, params)
        self.handles = set()
        self.structs = set()
        self.enums = set()

    def wrong(self, where, what):
        self.problems.append(f"{where}: {what}")

    def read_headers(self, folder):
        """Fills in the kinds of types; gives name -> (ret, params) of the functions."""
        declared = {}
        for path in sorted(folder.rglob("*.h")):
            text = strip_comments(path.read_text())
            self.handles |= set(re.findall(r"typedef\s+void\s*\*\s*(\w+)\s*;", text))
            self.handles |= set(re.findall(r"typedef\b[^;{(]*\(\*(\w+)\)", text))
            self.enums |= set(re.findall(r"typedef\s+enum\s+(\w+)", text))
            self.structs |= set(re.findall(r"typedef\s+(?:struct|union)\s+(\w+)", text))
            code = re.sub(r"^\s*#.*$", "", text, flags=re.M)
            found = re.findall(
                r"\bACL_FUNC_VISIBILITY\s+([^;(){}]*?)(\w+)\s*\(([^;]*)\)\s*;", code
            )
            for ret, name, params in found:
                if name in declared:
                    self.wrong(path, f"{name} is declared twice")
                declared[name] = (squeeze(ret), squeeze(params))
            n_all = len(re.findall(r"\b(?:acl[a-z]*|Hccl)[A-Z]\w*\s*\([^;{]*\)\s*;", code))
            if n_all != len(found):
                self.wrong(path, f"{n_all} declarations, {len(found)} of them exported")
        return declared

    def read_list(self, path, macros):
        text = re.sub(r"^#.*$", "", strip_comments(path.read_text()), flags=re.M)
        position = 0
        for row in re.finditer(r"(\w+)\s*\(", text):
            if row.start() < position:
                continue
            if text[position : row.start()].strip():
                self.wrong(path.name, f"not a row: {text[position:row.start()].strip()}")
            position = self.row_end(text, row.end())
            fields = split_commas(text[row.end() : position - 1])
            columns = macros.get(row.group(1), [])
            if "triples" in columns:
                fields = fields[: len(columns) - 1] + [fields[len(columns) - 1 :]]
            if not columns or len(fields) != len(columns):
                self.wrong(path.name, f"not a row: {squeeze(text[row.start():position])}")
                continue
            self.check_row(path.parent.name + "/" + path.name, dict(zip(columns, fields)))
        if text[position:].strip():
            self.wrong(path.name, f"not a row: {text[position:].strip()}")

    @staticmethod
    def row_end(text, start):
        depth, quoted = 1, False
        for i in range(start, len(text)):
            if text[i] == '"':
                quoted = not quoted
            elif not quoted:
                depth += (text[i] == "(") - (text[i] == ")")
                if depth == 0:
                    return i + 1
        return len(text)

    def check_row(self, list_name, row):
        name = row["name"]
        where = f"{list_name}: {name}"
        if name in self.rows:
            self.wrong(where, f"also in {self.rows[name][0]}")
        ret = row.get("ret", "aclError")
        params = unwrap(row["params"], "(", ")") if "params" in row else None
        if "triples" in row:
            params = self.params_of(where, row["triples"])
        self.rows[name] = (list_name, ret, params)
        if "params" in row and not params:
            self.wrong(where, "parameters are (void) or (type name, ...)")

    def params_of(self, where, triples):
        """The parameters as a declaration has them, from (type, name, letter) for each."""
        params = []
        for triple in triples:
            parts = split_commas(unwrap(triple, "(", ")") or "")
            if len(parts) not in (3, 4) or (len(parts) == 4 and parts[3] not in MARKS):
                self.wrong(where, f"not (type, name, letter) or (type, name, letter, mark): {triple}")
                continue
            type_, name, letter = parts[:3]
            params.append(type_ + ("" if type_.endswith("*") else " ") + name)
            allowed = self.letters(param_type(params[-1]))
            if len(letter) != 1 or letter not in allowed:
                self.wrong(where, f"{params[-1]} has type {letter}, not one of {allowed}")
        return ", ".join(params) or "void"

    def letters(self, type_):
        """The letters that fit a parameter type; a handle counts as a pointer."""
        if type_ in self.handles:
            return "p"
        if type_ in self.enums:
            return "e"
        if type_ in self.structs:
            return "v"
        fit = LETTERS.get(type_, "")
        if not type_.endswith("*"):
            return fit
        pointer = re.fullmatch(r"(const )?(\w+) \*", type_)
        if pointer is not None and not fit:
            is_const, target = pointer.groups()
            if target in self.structs:
                fit = "t" if is_const else "tT"
            elif not is_const:
                fit = self.letters(target).upper()
        return fit + "p"

    def compare(self, declared):
        for name, (ret, params) in declared.items():
            if name not in self.rows:
                self.wrong(name, "declared, but has no row")
                continue
            list_name, row_ret, row_params = self.rows[name]
            if list_name in UNDECLARED:
                self.wrong(f"{list_name}: {name}", "is declared, so its row is elsewhere")
            elif row_params is not None and (row_ret, row_params) != (ret, params):
                self.wrong(f"{list_name}: {name}", f"declared as {ret} ({params})")
        for name, (list_name, _, _) in self.rows.items():
            if name not in declared and list_name not in UNDECLARED:
                self.wrong(f"{list_name}: {name}", "is not declared")


def main(argv):
    if len(argv) != 3 or not all(pathlib.Path(p).is_dir() for p in argv[1:]):
        print("usage: check_api_def.py SOURCE_DIR INCLUDE_DIR", file=sys.stderr)
        return 2
    source, include = pathlib.Path(argv[1]), pathlib.Path(argv[2])
    checker = Checker()
    declared = {}
    for folder in ("acl", "aclnn", "hccl"):
        declared.update(checker.read_headers(include / folder))
    for list_name, macros in LISTS.items():
        if (source / list_name).is_file():
            checker.read_list(source / list_name, macros)
        else:
            checker.wrong(list_name, f"is not in {source}")
    for path in sorted([*source.glob("api/api*.def"), *source.glob("toolkit/*.def")]):
        if str(path.relative_to(source)) not in LISTS:
            checker.wrong(path.name, "is a list that this script does not know")
    checker.compare(declared)
    for problem in checker.problems:
        print(problem, file=sys.stderr)
    print(
        f"{len(declared)} functions declared, {len(checker.rows)} rows, "
        f"{len(checker.problems)} wrong"
    )
    return 1 if checker.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
