#!/usr/bin/env python3
"""The documents as a site that can be searched, without a network: docs.py OUT MANUAL

OUT/site is the site, made by mkdocs from the pages of NAV, with the search of scripts/search.js.  MANUAL is the manual page
that `aclmem describe man` prints; it becomes a page too, so that site, manual and completions have one source.  Each
document is in NAV, each link inside the site leads somewhere, and nothing is loaded from elsewhere; otherwise the exit
status is 1.
"""
import html.parser
import json
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
        ("Stream capture", "docs/CAPTURE.md"),
        ("In CI", "docs/CI.md"),
        ("Debuggers and sanitizers", "docs/DEBUGGING.md"),
        ("Questions", "docs/FAQ.md"),
        ("Troubleshooting", "docs/TROUBLESHOOTING.md"),
        ("What it has found", "docs/FOUND.md"),
        ("Compared with real hardware", "docs/FACTS.md"),
    ],
    "Walkthroughs": [
        ("Test an allocator in CI", "docs/walkthroughs/ALLOCATOR_IN_CI.md"),
        ("Expandable segments", "docs/walkthroughs/EXPANDABLE_SEGMENTS.md"),
        ("Sleep and wake", "docs/walkthroughs/SLEEP_AND_WAKE.md"),
        ("A leak hunt", "docs/walkthroughs/LEAK_HUNT.md"),
        ("A race hunt", "docs/walkthroughs/RACE_HUNT.md"),
        ("A bug report", "docs/walkthroughs/BUG_REPORT.md"),
        ("llama.cpp", "docs/walkthroughs/LLAMA_CPP.md"),
        ("Mooncake", "docs/walkthroughs/MOONCAKE.md"),
    ],
    "Reference": [
        ("Functions", "docs/API.md"),
        ("Versions and products", "docs/VERSIONS.md"),
        ("Glossary", "docs/GLOSSARY.md"),
        ("The command", "COMMAND.md"),
        ("Python", "docs/PYTHON.md"),
        ("PyTorch", "docs/TORCH.md"),
        ("The toolkit", "docs/TOOLKIT.md"),
        ("The pool", "docs/POOL.md"),
        ("Other machines", "docs/FABRIC.md"),
        ("NVIDIA GPUs", "docs/CUDA.md"),
    ],
    "Architecture": [
        ("Overview", "docs/ARCHITECTURE.md"),
        ("Decisions", "docs/DECISIONS.md"),
        ("Measurements", "docs/MEASUREMENTS.md"),
        ("Terms", "docs/architecture/TERMS.md"),
        ("Folders", "docs/architecture/FOLDERS.md"),
        ("Calls", "docs/architecture/CALLS.md"),
        ("Host backend", "docs/architecture/HOST.md"),
        ("CUDA backend", "docs/architecture/CUDA.md"),
        ("Streams", "docs/architecture/STREAMS.md"),
        ("Captures", "docs/architecture/CAPTURES.md"),
        ("Blocks", "docs/architecture/BLOCKS.md"),
        ("Ledger", "docs/architecture/LEDGER.md"),
        ("Sharing", "docs/architecture/SHARING.md"),
        ("Python module", "docs/architecture/PYTHON.md"),
        ("Layer check", "docs/architecture/CHECK.md"),
        ("Layer trace", "docs/architecture/TRACE.md"),
        ("Locks and lifetimes", "docs/architecture/LOCKS.md"),
        ("Failures", "docs/architecture/FAILURES.md"),
    ],
    "中文": [
        ("aclmem", "README.zh-CN.md"),
        ("安装", "docs/zh/INSTALL.md"),
        ("指南", "docs/zh/GUIDE.md"),
        ("查找错误", "docs/zh/CHECK.md"),
        ("Trace 与报告", "docs/zh/TRACE.md"),
        ("在 CI 中", "docs/zh/CI.md"),
        ("PyTorch", "docs/zh/TORCH.md"),
        ("常见问题", "docs/zh/FAQ.md"),
        ("故障排查", "docs/zh/TROUBLESHOOTING.md"),
        ("术语表", "docs/zh/GLOSSARY.md"),
    ],
    "Project": [
        ("The trace file", "docs/TRACE_FORMAT.md"),
        ("Compatibility", "docs/ABI.md"),
        ("aarch64", "docs/AARCH64.md"),
        ("Contributing", "CONTRIBUTING.md"),
        ("Security", "SECURITY.md"),
        ("Changes", "CHANGELOG.md"),
    ],
}
MANUAL = "COMMAND.md"

wrong = []


def name_of(source):
    """The file of a page: README is the first one."""
    return "index.md" if source == "README.md" else re.sub("^docs/", "", source).replace("/", "_")


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
    version = re.search(r"^project\(aclmem VERSION (\S+)", read(os.path.join(ROOT, "CMakeLists.txt")), flags=re.M).group(1)
    lines = ["site_name: aclmem %s" % version, "docs_dir: pages", "site_dir: site", "use_directory_urls: false",
             "theme: {name: mkdocs, highlightjs: false}", "plugins: [search]", "markdown_extensions:", "  - tables", "  - toc: {slugify: !!python/name:markdown.extensions.toc.slugify_unicode }", "nav:"]
    for section, pages in NAV.items():
        indent = "  "
        if section:
            lines.append("  - %s:" % section)
            indent = "      "
        lines += ["%s- %s: %s" % (indent, title, PAGES[source]) for title, source in pages]
    write(os.path.join(out, "mkdocs.yml"), "\n".join(lines) + "\n")


# ---- search and languages ----


def search_make(site):
    """Puts scripts/search.js in the place of mkdocs' own search, with the documents as a script, which loads from disk too."""
    folder = os.path.join(site, "search")
    documents = json.loads(read(os.path.join(folder, "search_index.json")))["docs"]
    write(os.path.join(folder, "documents.js"), "var search_documents = %s;\n" % json.dumps(documents, ensure_ascii=False))
    shutil.copy(os.path.join(ROOT, "scripts", "search.js"), os.path.join(folder, "main.js"))
    for name in ("worker.js", "search_index.json"):
        os.remove(os.path.join(folder, name))


def languages_mark(site):
    """Chinese pages say so, since fonts differ."""
    for source, name in PAGES.items():
        if "zh" in re.split(r"[/.-]", source):
            path = os.path.join(site, re.sub("md$", "html", name))
            write(path, read(path).replace('<html lang="en">', '<html lang="zh-CN">', 1))


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
    if not os.path.exists(os.path.join(site, "search", "documents.js")):
        wrong.append("the site cannot be searched")


def main(out, manual):
    if shutil.which("mkdocs") is None:
        print("mkdocs is missing (Debian's package: mkdocs)")
        return 77
    out = os.path.abspath(out)
    pages = os.path.join(out, "pages")
    shutil.rmtree(out, ignore_errors=True)
    for at, _, names in sorted(os.walk(os.path.join(ROOT, "docs"))):
        for source in (os.path.relpath(os.path.join(at, n), ROOT) for n in sorted(names) if n.endswith(".md")):
            if source not in PAGES:
                wrong.append("%s is not in the list of pages" % source)
    for source in PAGES:
        page_make(source, manual_page(read(manual)) if source == MANUAL else read(os.path.join(ROOT, source)), pages)
    config_write(out)
    done = subprocess.run(["mkdocs", "build", "--strict", "--quiet", "--config-file", os.path.join(out, "mkdocs.yml")],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0:
        wrong.append(done.stdout)
    else:
        search_make(os.path.join(out, "site"))
        languages_mark(os.path.join(out, "site"))
        site_check(os.path.join(out, "site"))
    for sentence in wrong:
        print(sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
