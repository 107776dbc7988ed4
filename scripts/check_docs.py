#!/usr/bin/env python3
"""Checks that the documents say what the sources say.

    check_docs.py [ROOT]

- docs/API.md has one row for every function of the lists in src/api and of include/aclmem/aclmem.h, with
  the status of its list and with codes that exist; what src/ marks with "Differs:" is marked there too.
- docs/TOOLKIT.md names every function of the lists in src/toolkit, under what the list says of it.
- docs/PYTHON.md has one row for every function of python/wrappers.def, beside its C function; every name of
  the module that a document gives exists.
- docs/API.md's table of codes has every code of src/base/errors.def.
- docs/TROUBLESHOOTING.md quotes messages that the sources have; docs/VERSIONS.md agrees with lint.def and products.def.
- docs/CHECK.md describes every kind of kinds.def, and its examples have kinds, labels and remedies that the sources have.
- docs/GUIDE.md's tables of options and products agree with options.def, products.def and socs.def.
- The version of CMakeLists.txt is the version of every other file that names one.
- The code in CONTRIBUTING.md is in the source that its step names.
- README.md, the first page, is short, and its test command is the one that CI calls.
- scripts/docs.py has every document, each document has a link from another one, and each picture of docs/pictures is on a page.
- OWNER, in place of the account that hosts the repository, is explained in README.md alone, and no account is named.
- Every file, make target, preset, option, function, code and link that a document names exists.
"""
import functools
import json
import os
import re
import sys

DOCUMENTS = ["README.md", "README.zh-CN.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]

# A stranger has two minutes for the first page.
README_LINES = 200

# The lists of functions: what a row begins with, up to the name, and the status that it means.
LISTS = {
    "src/api/api.def": (r"\bAM_FUNCTION(?:\(|_RET\([^,]*,)\s*(\w+)", "works"),
    "src/api/api_variadic.def": (r"\bAM_API_VARIADIC\([^,]*,\s*(\w+)", "works"),
    "src/api/api_unsupported.def": (r"\bAM_UNSUPPORTED\([^,]*,\s*(\w+)", "207000"),
    "include/aclmem/aclmem.h": (r"\b(aclmem_\w+)\(", "works"),
    "include/aclmem/access.h": (r"\b(aclmem_\w+)\(", "works"),
}

# Messages of other programs, which docs/TROUBLESHOOTING.md explains too.
FOREIGN_MESSAGES = ("error while loading shared libraries", "No module named")

# The toolkit's lists: the section of docs/TOOLKIT.md, and what its rows begin with, up to the name.
TOOLKIT = {
    "What works": r"\bAM_DATA\((\w+)",
    "What refuses": r"\bAM_REFUSED(?:_NAME\(|\([^,]*,)\s*(\w+)",
    "The runtime below": r"\bAM_RUNTIME\(\s*(\w+)",
}

# The feature columns of the guide's product table: cells for a set of features.
PRODUCT_CELLS = [
    lambda has: "yes" if "VMM" in has else "no",
    lambda has: "yes" if "VMM_ALL" in has else "no",
    lambda has: ", ".join(n[:3] for n in ("MEM_1G", "HBM_1G", "P2P_1G") if n in has) or "none",
    lambda has: "yes" if "NO_UC" in has else "no",
    lambda has: ("yes" if "BRANCHES" in has else "yes, without conditional tasks") if "CAPTURE" in has else "no",
]

wrong = []


def complain(where, what):
    wrong.append("%s: %s" % (where, what))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def code_of(path):
    """A source file's text without its comments."""
    return re.sub(r"/\*.*?\*/", " ", read(path), flags=re.S)


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def rows_of(text, first):
    """The table rows whose first cell is code that matches `first`: (that code, the other cells)."""
    for line in text.splitlines():
        found = re.match(r"\| `(%s)` \|" % first, line)
        if found:
            yield found.group(1), cells_of(line)[1:]


def once(where, names):
    for name in sorted({n for n in names if names.count(n) > 1}):
        complain(where, "%s is there twice" % name)


def same(where, documented, real):
    once(where, documented)
    for name in sorted(set(real) - set(documented)):
        complain(where, "%s is missing" % name)
    for name in sorted(set(documented) - set(real)):
        complain(where, "%s does not exist" % name)


# ---- docs/API.md ----


def differing_functions():
    """Of each "Differs:" comment the function that comes after it, or that it names, and its file."""
    for at, _, names in os.walk("src"):
        for name in sorted(n for n in names if n.endswith((".c", ".h"))):
            path = os.path.join(at, name)
            text = read(path)
            for comment in re.finditer(r"/\*(?:(?!\*/).)*\bDiffers:.*?\*/", text, flags=re.S):
                found = re.search(r"\b(?:am_|AM_SAME_AS\()(acl\w+)[(,]", text[comment.end() :]) or re.search(
                    r"\b(aclrt?[A-Z]\w+)", comment.group()
                )
                if found:
                    yield path, found.group(1)
                else:
                    complain(path, '"Differs:" with no function of the API behind it')


def check_api():
    where = "docs/API.md"
    text = read(where)
    rows = list(rows_of(text, r"acl\w+"))
    status = {}
    for path, (pattern, meaning) in LISTS.items():
        for name in re.findall(pattern, code_of(path)):
            status[name] = meaning
    same(where, [name for name, _ in rows], list(status))
    for name, cells in rows:
        if len(cells) != 3:
            complain(where, "%s has %d cells, not 4" % (name, len(cells) + 1))
        elif cells[0] != status.get(name, cells[0]):
            complain(where, "%s is said to be %s, and is %s" % (name, cells[0], status[name]))
        elif (cells[0] == "works") != bool(cells[1]):
            complain(where, "%s: a function that works has errors, or none" % name)
        elif not re.fullmatch(r"|none|\d{6}(, \d{6})*", cells[1]):
            complain(where, '%s: the errors are "%s", and should be codes with commas, or none' % (name, cells[1]))

    notes = {name: cells[-1] for name, cells in rows}
    for path, name in differing_functions():
        if "Differs:" not in notes.get(name, ""):
            complain(where, '%s is not marked with "Differs:", as in %s' % (name, path))


# ---- docs/TOOLKIT.md ----


def toolkit_names(pattern):
    lists = sorted(n for n in os.listdir("src/toolkit") if n.endswith(".def"))
    return [name for n in lists for name in re.findall(pattern, code_of("src/toolkit/" + n))]


def check_toolkit():
    text = read("docs/TOOLKIT.md")
    for title, pattern in TOOLKIT.items():
        section = text.partition("## %s\n" % title)[2].partition("\n## ")[0]
        # The functions are in the first cell, but of what refuses in the second.
        cells = [cells_of(line)[title == "What refuses"] for line in section.splitlines() if line.startswith("|")]
        named = re.findall(r"`(\w+)`", " ".join(cells))
        same("docs/TOOLKIT.md, %s" % title, named, toolkit_names(pattern))


# ---- docs/PYTHON.md ----


def python_functions():
    """name in Python -> C function, or "" for those of acl.util."""
    text = code_of("python/wrappers.def")
    found = {"acl." + path: "`%s`" % c for path, c in re.findall(r"\bAM_PY(?:_QUICK)?\(([\w.]+),\s*(\w+)", text)}
    found.update(("acl." + path, "") for path in re.findall(r"\bAM_PY_UTIL\(([\w.]+)", text))
    return found


def check_python():
    where = "docs/PYTHON.md"
    functions = python_functions()
    names = read(where).partition("## All functions")[2]
    rows = re.findall(r"^\| `(?:[\w, ]+ = )?(acl\.[\w.]+)\([\w, ]*\)` \| (.*?) ?\|$", names, flags=re.M)
    same(where, [name for name, _ in rows], list(functions))
    for name, c in rows:
        if functions.get(name, c) != c:
            complain(where, "%s is %s in C" % (name, functions[name] or "nothing"))


# ---- README.md, docs/GUIDE.md ----


def definitions(path, macro):
    """The rows of a .def, as lists of arguments; strings without their quotes, joined."""
    for row in re.finditer(r'\b%s\(((?:[^()"]|"[^"]*")*)\)' % macro, code_of(path)):
        fields = re.findall(r'(?:[^,"]|"[^"]*")+', row.group(1))
        yield ["".join(re.findall(r'"([^"]*)"', f)) if '"' in f else f.strip() for f in fields]


def check_options():
    where = "docs/GUIDE.md, options"
    options = {"ACLMEM_" + d[0].upper(): d for d in definitions("src/base/options.def", "AM_OPTION")}
    rows = list(rows_of(read("docs/GUIDE.md"), r"ACLMEM_\w+"))
    same(where, [name for name, _ in rows], list(options))
    for name, cells in rows:
        if name not in options:
            continue
        _, kind, default, choices = options[name][:4]
        shown = re.match(r"`([^`]*)`", cells[0])
        if (shown.group(1) if shown else "") != default:
            complain(where, '%s: the default is "%s"' % (name, default))
        for choice in choices.split("|") if kind == "CHOICE" else []:
            if "`%s`" % choice not in " ".join(cells):
                complain(where, "%s: nothing is said of %s" % (name, choice))


def check_products():
    where = "docs/GUIDE.md, products"
    products = {d[0]: d for d in definitions("src/core/device/products.def", "AM_PRODUCT")}
    rows = list(rows_of(read("docs/GUIDE.md"), r"(?:[A-Z]|\d{3})[-\w]{0,6}"))
    same(where, [name for name, _ in rows], list(products))
    for name, cells in rows:
        if name not in products:
            continue
        _, soc, title, features = products[name][:4]
        has = set(re.split(r"\W+", features))
        expected = ["`%s`" % soc, title] + [cell(has) for cell in PRODUCT_CELLS]
        if cells != expected:
            complain(where, "%s: the row should be | %s |" % (name, " | ".join(expected)))
    check_socs()


def check_socs():
    """The second table: the names beside the products' own."""
    names = {}
    for product, soc in definitions("src/core/device/socs.def", "AM_SOC"):
        names.setdefault(product, []).append(soc.replace("*", "..."))
    for alias, product in definitions("src/core/device/socs.def", "AM_ALIAS"):
        names[product].append(alias)
    for product in names:
        row = "| %s | %s |" % (product, ", ".join("`%s`" % name for name in names[product]))
        if row not in read("docs/GUIDE.md"):
            complain("docs/GUIDE.md, products", "there should be a row %s" % row)


def check_codes():
    """Every code that has a message of its own has a row in the table of codes."""
    listed = set(re.findall(r"^\| \d{6} \| `(ACL\w+)` \|", read("docs/API.md"), flags=re.M))
    for name in re.findall(r"^AM_ERROR\((ACL_\w+)", read("src/base/errors.def"), flags=re.M):
        if name not in listed:
            complain("docs/API.md", "the table of codes lacks %s" % name)


# ---- docs/TROUBLESHOOTING.md ----


@functools.lru_cache
def texts_of_sources():
    """The string literals of the sources as one text: adjacent ones joined, conversions and numbers replaced by @."""
    texts = []
    for top in ("src", "tools", "python", "npu"):
        for at, _, names in os.walk(top):
            texts += [read(os.path.join(at, n)) for n in names if n.endswith((".c", ".h", ".cpp", ".py", ".def"))]
    text = re.sub(r'"\s*(?:PRI\w+\s*)?"', "", "".join(texts).replace('\\"', "'"))
    return re.sub(r"%[-+ #0-9.*]*(?:hh|h|ll|l|z|j)?[a-zA-Z]|\d+", "@", text)


def check_messages():
    where = "docs/TROUBLESHOOTING.md"
    sources = texts_of_sources()
    for line in read(where).splitlines():
        message = re.match(r"\| `([^`]+)`(?! is)", line)
        if not message or message.group(1).startswith(FOREIGN_MESSAGES):
            continue
        for piece in re.split(r"\.\.\.|: |'[^']*'|\"[^\"]*\"|0x", message.group(1)):
            piece = re.sub(r"ACLMEM_RULES|\d+", "@", piece).strip()
            if len(piece) > 8 and piece not in sources:
                complain(where, 'no source has the message "%s"' % piece)


# ---- docs/CHECK.md ----


def check_findings():
    """Every kind is described; the examples, which no test runs, have kinds, labels of stacks and remedies of the sources."""
    where = "docs/CHECK.md"
    text, sources = read(where), texts_of_sources()
    kinds = [row[1] for row in definitions("src/layer/kinds.def", "AM_KIND")]
    for kind in kinds:
        if not re.search(r"`%s`|^### .*(?<![\w.-])%s(?![\w.-])" % (kind, kind), text, flags=re.M):
            complain(where, "nothing is said of the kind %s" % kind)
    for kind in re.findall(r"^ {4}aclmem: ([\w.-]+): ", text, flags=re.M):
        if kind not in kinds:
            complain(where, "no kind %s" % kind)
    labels = re.findall(r"^ {8}(?!what to do)([a-z][^:\n]+): ", text, flags=re.M)
    for words in labels + re.findall(r"^ {8}what to do: (.*)", text, flags=re.M):
        if words not in sources:
            complain(where, 'no finding says "%s"' % words)


# ---- docs/VERSIONS.md ----


def check_versions():
    where = "docs/VERSIONS.md"
    text = read("src/layer/lint.def")
    products = dict(re.findall(r'AM_LINT_PRODUCT\((\w+), "([^"]+)"\)', text))
    rows = dict(rows_of(read(where), r"acl\w+"))
    functions = re.findall(r"^AM_LINT_FUNCTION\((\w+), (\w+), ([^)]+)\)", text, flags=re.M)
    same(where, list(rows), [name for name, _, _ in functions])
    for name in re.findall(r"^AM_FUNCTION\((aclmdlRI\w+)", read("src/api/api.def"), flags=re.M):
        if name not in rows:  # no edition of CANN 8.0 has captured models
            complain("src/layer/lint.def", "%s has no row" % name)
    for name, since, has in functions:
        edition = "after 8.0" if since == "LATER" else "%d.%d" % divmod(int(since), 100)
        listed = set(products) if has.startswith("EVERY") else set()
        for sign, product in re.findall(r"([-+]|^) ?(P\w+|A\d)", has):
            (listed.discard if sign == "-" else listed.add)(product)
        cells = [edition] + ["yes" if product in listed else "no" for product in products]
        if rows.get(name, cells) != cells:
            complain(where, "the row of %s should be %s" % (name, " | ".join(cells)))
    for name, limits in definitions_of_products():
        row = "| `%s` | %s |" % (name, " | ".join(limits))
        if row not in read(where):
            complain(where, "there should be a row %s" % row)


def definitions_of_products():
    """(product, [streams, events, processes])"""
    pattern = r'AM_PRODUCT\(\s*"([^"]+)".*?(\d+),\s*(\d+),\s*(\d+)\)'
    for name, *limits in re.findall(pattern, read("src/core/device/products.def"), flags=re.S):
        yield name, limits


def check_tutorial():
    steps = read("CONTRIBUTING.md").partition("## Add a function\n")[2].partition("\n## ")[0]
    if len(re.findall(r"^ *```c$", steps, flags=re.M)) < 3:
        complain("CONTRIBUTING.md", "steps 1 to 3 of the tutorial have no blocks of code")
    for step in re.split(r"^\d\. ", steps, flags=re.M)[1:]:
        paths = [p for p in re.findall(r"`((?:src|test|include)/[\w./]+)`", step) if os.path.isfile(p)]
        sources = " ".join(" ".join(read(path).split()) for path in paths)
        for block in re.findall(r"```c\n(.*?)```", step, flags=re.S):
            if " ".join(block.split()) not in sources:
                complain("CONTRIBUTING.md", "%s does not have: %s" % (" and ".join(paths), block.split("\n")[0].strip()))


def check_readme():
    lines = read("README.md").splitlines()
    if len(lines) > README_LINES:
        complain("README.md", "%d lines; the first page has at most %d" % (len(lines), README_LINES))
    if os.path.exists(".ci/run"):
        for command in re.findall(r"^make .*$", read(".ci/run"), flags=re.M):
            if command not in lines:
                complain("README.md", "CI calls %s, which is not shown" % command)


# ---- the version ----

# Where the version of CMakeLists.txt is written once more: every match has to be that version.
VERSIONS = [
    ("README.md", r"^Version (\d+\.\d+\.\d+)"),
    ("README.md", r"OWNER/aclmem@v([\d.]+)"),
    ("CHANGELOG.md", r"\A.*?^## (\S+)"),
    ("docs/CI.md", r"(?:OWNER/aclmem@|--branch )v([\d.]+)"),
    ("docs/GUIDE.md", r"\baclmem[- ](\d+\.\d+\.\d+)"),
    ("docs/API.md", r"^\| `aclmem_version` .* `([\d.]+)` \|"),
    ("include/aclmem/aclmem.h", r'^/\* "([\d.]+)" \*/'),
    ("debian/changelog", r"\Aaclmem \(([^)]+)\)"),
]


def check_version():
    version = re.search(r"^project\(aclmem VERSION (\S+)", read("CMakeLists.txt"), flags=re.M).group(1)
    for where, pattern in VERSIONS:
        found = re.findall(pattern, read(where), flags=re.M | re.S if pattern.startswith(r"\A") else re.M)
        if set(found) != {version}:
            complain(where, "it names the version %s, and CMakeLists.txt %s" % (", ".join(found) or "nowhere", version))


# ---- whatever is named ----


def known_things():
    """name -> the set of names that exist, for each kind of thing that a document may name."""
    headers = "".join(
        read(os.path.join(at, n)) for at, _, names in os.walk("include") for n in names
    )
    makefile = read("Makefile")
    plugin = re.findall(r"\baclmem_\w+", read("python/aclmem/pytest_plugin.py"))  # its markers and fixtures
    return {
        "function": set(re.findall(r"\bacl\w+", headers)) | set(toolkit_names(TOOLKIT["What refuses"])) | set(plugin),
        "Python function": {name for name in python_functions()} | {"acl.mdl", "acl.rt", "acl.util", "acl.sys"},
        "constant": set(re.findall(r"\bACL_\w+", headers)),
        "code": set(re.findall(r"\b\d{6}\b", headers)),
        "make target": set(re.findall(r"^([\w-]+):", makefile, flags=re.M)),
        "make variable": set(re.findall(r"\b([A-Z]+)\b", makefile)),
        "preset": {p["name"] for p in json.loads(read("CMakePresets.json"))["configurePresets"]},
        "option": {"ACLMEM_" + d[0].upper() for d in definitions("src/base/options.def", "AM_OPTION")}
        | set(re.findall(r"\bACLMEM_\w+", headers + read("CMakeLists.txt"))),
    }


@functools.lru_cache
def top_folders():
    return {n for n in os.listdir(".") if os.path.isdir(n) and n not in ("build", ".git")}


def check_path(where, text):
    """Whether code that looks like a path from the root is one; a * stands for anything."""
    first = text.split("/")[0]
    looks = re.fullmatch(r"[\w./-]+", text) and (
        ("/" in text and first in top_folders()) or re.fullmatch(r"[A-Z]\w+\.(md|txt|json)", text)
    )
    if looks and not os.path.exists(text):
        complain(where, "there is no %s" % text)


def anchors_of(text):
    titles = re.findall(r"^#+ (.*)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


def check_links(where, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(where), path)) if path else where
        if not os.path.exists(path):
            complain(where, "the link to %s leads nowhere" % target)
        elif anchor and anchor not in anchors_of(read(path)):
            complain(where, "%s has no heading #%s" % (path, anchor))


def code_in(text):
    """What is set as code: between backquotes, in fences, or indented."""
    fences = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.M | re.S)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return re.findall(r"`([^`\n]+)`", prose), "\n".join(fences + re.findall(r"^    (.*)$", prose, flags=re.M))


def check_names(where, text, known):
    inline, blocks = code_in(text)
    code = "\n".join(inline + [blocks])
    for piece in inline:
        check_path(where, piece)
    uses = {
        "function": r"(?<!bin/)\b(acl(?:[a-z]*[A-Z]|mem_)\w+)\b(?!\*)",
        "Python function": r"(?<![/\w])(acl\.(?:[a-z]+\.)?[a-z]\w+)\b(?![.]|/)",
        "constant": r"\b(ACL_[A-Z0-9_]+\w)\b(?!\*|\w)",
        "code": r"\b([1257]0[07]\d{3})\b",
        "make target": r"^(?:\$ )?make (?:[A-Z]+=\S* )*([a-z][a-z0-9-]*)\b",
        "make variable": r"^(?:\$ )?make .*\b([A-Z]+)=",
        "preset": r"--preset (\w+)",
        "option": r"\b(ACLMEM_[A-Z_]+\w)\b",
    }
    for kind, pattern in uses.items():
        source = text if kind in ("code", "function", "option") else code
        for name in sorted(set(re.findall(pattern, source, flags=re.M))):
            if name not in known[kind]:
                complain(where, "there is no %s %s" % (kind, name))


# ---- the site ----


def pages():
    """Every document in docs/, with its folder."""
    return sorted(os.path.join(at, n) for at, _, names in os.walk("docs") for n in names if n.endswith(".md"))


def check_site():
    site = read("scripts/docs.py")
    for page in pages():
        if '"%s"' % page not in site:
            complain(page, "it is not in NAV of scripts/docs.py, which makes the site")


def check_orphans():
    linked = set()
    for where in DOCUMENTS + pages():
        for target in re.findall(r"\]\(([^)\s#]+)", read(where)):
            linked.add(os.path.normpath(os.path.join(os.path.dirname(where), target)))
    for page in sorted(set(pages()) - linked):
        complain(page, "no other page has a link to it")


def check_pictures():
    texts = "".join(read(page) for page in DOCUMENTS + pages())
    for name in sorted(n for n in os.listdir("docs/pictures") if not n.endswith(".txt")):  # draw.py reads those
        if "pictures/%s)" % name not in texts:
            complain("docs/pictures/%s" % name, "no page shows it")


def check_owner():
    for where in DOCUMENTS + pages():
        text = read(where)
        for place in re.finditer(r"/aclmem(?:\.git\b|@v)", text):
            account = re.search(r"[\w.-]*$", text[: place.start()]).group()
            if account != "OWNER":
                complain(where, "it names the account %s, and not OWNER" % account)
        if len(re.findall("`OWNER` is ", text)) != (where == "README.md"):
            complain(where, "README.md explains OWNER, once, and no other page does")


def main(argv):
    os.chdir(argv[1] if len(argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    check_api()
    check_toolkit()
    check_python()
    check_options()
    check_products()
    check_codes()
    check_messages()
    check_findings()
    check_versions()
    check_tutorial()
    check_readme()
    check_version()
    check_site()
    check_orphans()
    check_pictures()
    check_owner()
    known = known_things()
    for where in DOCUMENTS + pages():
        text = read(where)
        check_links(where, text)
        check_names(where, text, known)
    for sentence in wrong:
        print(sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
