#!/usr/bin/env python3
"""The documents as a site that can be searched, without a network: docs.py OUT MANUAL

OUT/site is the site, made by mkdocs from the pages of NAV.  MANUAL is the manual page that `aclmem describe man` prints; it
becomes a page too, so that site, manual and completions have one source.  Each document is in NAV, each link inside the
site leads somewhere, and nothing is loaded from elsewhere; otherwise the exit status is 1.
"""
import html.parser
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

# Section -> title and source of each page.
NAV = {
    "": [("aclmem", "README.md")],
    "Guide": [
        ("Installing", "docs/INSTALL.md"),
        ("Guide", "docs/GUIDE.md"),
        ("Finding mistakes", "docs/CHECK.md"),
        ("Traces and reports", "docs/TRACE.md"),
        ("In CI", "docs/CI.md"),
        ("What it has found", "docs/FOUND.md"),
        ("Beside real hardware", "docs/FACTS.md"),
    ],
    "Reference": [
        ("Functions", "docs/API.md"),
        ("The command", "COMMAND.md"),
        ("Python", "docs/PYTHON.md"),
        ("The toolkit", "docs/TOOLKIT.md"),
        ("The pool", "docs/POOL.md"),
        ("Other machines", "docs/FABRIC.md"),
        ("NVIDIA GPUs", "docs/CUDA.md"),
    ],
    "Inside": [
        ("Architecture and decisions", "docs/ARCHITECTURE.md"),
        ("Compatibility", "docs/ABI.md"),
        ("aarch64", "docs/AARCH64.md"),
        ("Contributing", "CONTRIBUTING.md"),
        ("Changes", "CHANGELOG.md"),
    ],
}
MANUAL = "COMMAND.md"

wrong = []


def name_of(source):
    """The file of a page: README is the first one."""
    return "index.md" if source == "README.md" else os.path.basename(source)


PAGES = {source: name_of(source) for pages in NAV.values() for _, source in pages}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


# ---- pages ----


def link_of(source, target, folder):
    """What a link of a document is in the site; files that are no documents are copied."""
    if "://" in target or target.startswith("#"):
        return target
    path, _, anchor = target.partition("#")
    path = os.path.normpath(os.path.join(os.path.dirname(source), path))
    if path in PAGES:
        return PAGES[path] + ("#" + anchor if anchor else "")
    full = os.path.join(ROOT, path)
    if not os.path.isfile(full):
        wrong.append("%s: the link to %s leads nowhere" % (source, target))
        return target
    place = path[len("docs/"):] if path.startswith("docs/") else "files/" + path
    os.makedirs(os.path.dirname(os.path.join(folder, place)), exist_ok=True)
    shutil.copy(full, os.path.join(folder, place))
    return place


def page_make(source, text, folder):
    """The page, with its links changed; not those in blocks of code."""
    parts = re.split(r"(^```.*?^```\n)", text, flags=re.M | re.S)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"\]\(([^)\s]+)\)", lambda found: "](%s)" % link_of(source, found.group(1), folder), parts[i])
    write(os.path.join(folder, PAGES[source]), "".join(parts))


def plain(line):
    return re.sub(r"\\f[BIR]", "", line).replace("\\-", "-").replace("\\(aq", "'").replace("\\&", "").replace("\\e", "\\")


def manual_page(roff):
    """The manual page as Markdown: the few requests that `aclmem describe man` uses."""
    said = ["# The command aclmem", ""]
    is_term = False
    for line in roff.splitlines():
        request, _, rest = line.partition(" ")
        rest = plain(rest).strip('"')
        if request == ".SH":
            said += ["", "## " + rest.capitalize(), ""]
        elif request == ".SS":
            said += ["", "### " + rest, ""]
        elif request == ".TP":
            is_term = True
        elif request in (".TH", ".br", ".PP"):
            said.append("")
        elif request in (".B", ".I") or is_term:
            said += ["", "`%s`  " % (rest if request in (".B", ".I") else plain(line))]
            is_term = False
        else:
            said.append(plain(line).replace("<", "&lt;"))
    return "\n".join(said) + "\n"


def config_write(out):
    lines = ["site_name: aclmem", "docs_dir: pages", "site_dir: site", "use_directory_urls: false",
             "theme: {name: mkdocs, highlightjs: false}", "plugins: [search]", "markdown_extensions: [tables, toc]", "nav:"]
    for section, pages in NAV.items():
        indent = "  "
        if section:
            lines.append("  - %s:" % section)
            indent = "      "
        lines += ["%s- %s: %s" % (indent, title, PAGES[source]) for title, source in pages]
    write(os.path.join(out, "mkdocs.yml"), "\n".join(lines) + "\n")


# ---- links ----


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.names, self.targets, self.loaded = set(), [], []

    def handle_starttag(self, tag, attributes):
        for key, value in attributes:
            if key in ("id", "name"):
                self.names.add(value)
            elif key == "href" and tag == "a":
                self.targets.append(value)
            elif key in ("src", "href"):
                self.loaded.append(value)


def site_check(site):
    """Complains of each link inside the site that leads nowhere, and of what is loaded from elsewhere."""
    pages = {}
    for name in sorted(n for n in os.listdir(site) if n.endswith(".html") and n != "404.html"):
        pages[name] = Links()
        pages[name].feed(read(os.path.join(site, name)))
    for name, page in pages.items():
        wrong.extend("%s loads %s" % (name, t) for t in page.loaded if re.match(r"(https?:)?//", t))
        for target in page.targets + page.loaded:
            path, _, anchor = (target or "").partition("#")
            if re.match(r"\w+:|//", path):
                continue
            path = path.partition("?")[0] or name
            if not os.path.exists(os.path.join(site, path)):
                wrong.append("%s: the link to %s leads nowhere" % (name, target))
            elif anchor and path in pages and anchor not in pages[path].names:
                wrong.append("%s: %s has no heading #%s" % (name, path, anchor))
    if not os.path.exists(os.path.join(site, "search", "search_index.json")):
        wrong.append("the site cannot be searched")


def main(out, manual):
    if shutil.which("mkdocs") is None:
        print("mkdocs is missing (Debian's package: mkdocs)")
        return 77
    out = os.path.abspath(out)
    pages = os.path.join(out, "pages")
    shutil.rmtree(out, ignore_errors=True)
    for name in sorted(os.listdir(os.path.join(ROOT, "docs"))):
        if name.endswith(".md") and "docs/" + name not in PAGES:
            wrong.append("docs/%s is not in the list of pages" % name)
    for source in PAGES:
        page_make(source, manual_page(read(manual)) if source == MANUAL else read(os.path.join(ROOT, source)), pages)
    config_write(out)
    done = subprocess.run(["mkdocs", "build", "--strict", "--quiet", "--config-file", os.path.join(out, "mkdocs.yml")],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0:
        wrong.append(done.stdout)
    else:
        site_check(os.path.join(out, "site"))
    for sentence in wrong:
        print(sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
