#!/usr/bin/env python3
"""The Chinese pages say what the English ones say:  test_zh.py

README.zh-CN.md is the Chinese README.md, docs/zh/X.md the Chinese docs/X.md.  Each section of the two has the same
level, blocks of code, lists and tables; each row of a table, and the rest of a section as a whole, has the same code
(commands, options, functions, messages), numbers and links.  A number that English writes as a word may be digits in
Chinese, and Chinese text has Chinese punctuation.  Where a page is out of date, a line names both pages, the section and
what it lacks.
"""
import collections
import functools
import glob
import os
import re
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PAGES = ["README", "CHECK", "CI", "FAQ", "GLOSSARY", "GUIDE", "INSTALL", "TORCH", "TRACE", "TROUBLESHOOTING"]
WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split() + ["hundred", "thousand", "million"]
DIGITS = dict({word: str(i) for i, word in enumerate(WORDS[:13])}, hundred="100", thousand="1000", million="1000000", twice="2")
HALF_WIDTH = r"[\u4e00-\u9fff][,;:?!(]|[,;:?!)][\u4e00-\u9fff]"
BLOCK = r"^(?:<!-- [^\n]* -->\n)?```.*?^```$|(?:^    [^\n]*\n(?:\n(?=    ))?)+"

Section = collections.namedtuple("Section", "title level line blocks items rows prose")
Content = collections.namedtuple("Content", "code numbers words links")


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def chinese_name(page):
    return "README.zh-CN.md" if page == "README.md" else re.sub("^docs/", "docs/zh/", page)


def english_name(page):
    return "README.md" if page == "README.zh-CN.md" else re.sub("^docs/zh/", "docs/", page)


def without_blocks(text):
    """The text with its blocks of code empty, so that lines keep their numbers, and the line and text of each block."""
    blocks = []

    def take(match):
        blocks.append((text.count("\n", 0, match.start()), match.group(0).strip("\n")))
        return "\n" * match.group(0).count("\n")

    return re.sub(BLOCK, take, text, flags=re.M | re.S), blocks


@functools.lru_cache(maxsize=None)
def anchors(text):
    """The anchors of the headings, in their order."""
    titles = re.findall(r"^#+ (.*)$", without_blocks(text)[0], flags=re.M)
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]


def content(text, page, texts):
    """What both languages share of a text; links are those of the English page, anchors the number of their heading."""
    text = re.sub(r"\s+", " ", text)
    code = re.findall(r"`([^`]+)`", text)
    links = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if "://" not in target:
            path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if anchor and path in texts:
                names = anchors(texts[path])
                anchor = names.index(anchor) if anchor in names else anchor
            if page != english_name(page) and path == english_name(path) != chinese_name(path) in texts:
                path += " in English although it is there in Chinese"
            path = english_name(path)
        links.append("%s#%s" % (path, anchor) if anchor != "" else path)
    prose = re.sub(r"`[^`]+`|\]\([^)]*\)|https?://\S+", " ", text)
    numbers = {n.replace(",", "").rstrip(".") for n in re.findall(r"(?<![A-Za-z_\d.])\d[\d,]*(?:\.\d+)*", prose)}
    words = {DIGITS[word] for word in re.findall(r"[a-z]+", prose.lower()) if word in DIGITS}
    return Content(set(code), numbers, words, sorted(set(links)))


def sections(name, texts):
    """The sections of a page; the line that links to the other language is not of them."""
    text, all_blocks = without_blocks(re.sub(r"^(?:English \| \[中文\]|\[English\]).*$", "", texts[name], count=1, flags=re.M))
    starts = [m.start() for m in re.finditer(r"^#+ ", text, flags=re.M)] + [len(text)]
    found = []
    for start, end in zip(starts, starts[1:]):
        title, _, body = text[start:end].partition("\n")
        level, _, title = title.partition(" ")
        first, last = text.count("\n", 0, start), text.count("\n", 0, end)
        blocks = [block for line, block in all_blocks if first <= line < last]
        rows = [line for line in body.splitlines() if line.startswith("|")]
        rest = "\n".join(line for line in body.splitlines() if not line.startswith("|"))
        found.append(Section(title, len(level), first + 1, blocks, len(re.findall(r"^(?:[-*]|\d{1,2}\.) ", rest, flags=re.M)),
                             [content(row, name, texts) for row in rows], content(rest, name, texts)))
    return found


def content_compare(english, chinese):
    """What one has and the other has not."""
    for what in ("code", "links"):
        old, new = set(getattr(english, what)), set(getattr(chinese, what))
        for missing in sorted(old - new):
            yield "lacks %s" % missing
        for added in sorted(new - old):
            yield "has %s, which the English page has not" % added
    for missing in sorted(english.numbers - chinese.numbers):
        yield "lacks the number %s" % missing
    for added in sorted(chinese.numbers - english.numbers - english.words):
        yield "has the number %s, which the English page has not" % added


def section_compare(english, chinese):
    if english.level != chinese.level:
        yield "is a heading of level %d, not %d" % (chinese.level, english.level)
    if english.items != chinese.items:
        yield "has %d items in lists, not %d" % (chinese.items, english.items)
    if len(english.blocks) != len(chinese.blocks):
        yield "has %d blocks of code, not %d" % (len(chinese.blocks), len(english.blocks))
    else:
        for old, new in zip(english.blocks, chinese.blocks):
            if old != new:
                lines = [line for line in old.splitlines() if line not in new.splitlines()] or old.splitlines()
                yield "has another block of code: %s" % lines[0].strip()
    if len(english.rows) != len(chinese.rows):
        yield "has %d rows in tables, not %d" % (len(chinese.rows), len(english.rows))
    else:
        for i, (old, new) in enumerate(zip(english.rows, chinese.rows), 1):
            yield from ("line %d of the tables %s" % (i, what) for what in content_compare(old, new))
    yield from content_compare(english.prose, chinese.prose)


def alike(old, new):
    """How much of their content two sections share, 0 to 1; a little more for the same level."""
    first, second = ({*s.blocks, *s.prose.code, *s.prose.links, *(c for row in s.rows for c in row.code)} for s in (old, new))
    share = len(first & second) / len(first | second) if first | second else 0.2
    return 0.9 * share + (0.1 if old.level == new.level else 0)


def align(olds, news):
    """Pairs of sections in their order, with None where one page has a section that the other has not."""
    best = {}
    for i in range(len(olds), -1, -1):
        for j in range(len(news), -1, -1):
            ways = [(0, [])] if i == len(olds) and j == len(news) else []
            if i < len(olds) and j < len(news):
                ways.append((best[i + 1, j + 1][0] + alike(olds[i], news[j]), [(olds[i], news[j]), (i + 1, j + 1)]))
            if i < len(olds):
                ways.append((best[i + 1, j][0], [(olds[i], None), (i + 1, j)]))
            if j < len(news):
                ways.append((best[i, j + 1][0], [(None, news[j]), (i, j + 1)]))
            best[i, j] = max(ways, key=lambda way: way[0])
    at = best[0, 0][1]
    while at:
        yield at[0]
        at = best[at[1]][1]


def page_compare(page, texts):
    """What is out of date in the Chinese page."""
    chinese = chinese_name(page)
    for name, other, label in ((page, chinese, "English | [中文](%s)"), (chinese, page, "[English](%s) | 中文")):
        link = label % os.path.relpath(other, os.path.dirname(name) or ".")
        lines = [line for line in texts[name].splitlines() if line]
        if link not in lines[:2]:
            yield "%s: the first line below its title should be: %s" % (name, link)
    prose = re.sub(r"`[^`\n]+`|\]\([^)]*\)", "", without_blocks(texts[chinese])[0])
    for i, line in enumerate(prose.splitlines(), 1):
        for found in re.findall(HALF_WIDTH, line):
            yield "%s:%d: punctuation of Latin text in Chinese text: %s" % (chinese, i, found)
    for old, new in align(sections(page, texts), sections(chinese, texts)):
        if not new:
            yield "%s: there is no section for %s:%d (%s)" % (chinese, page, old.line, old.title)
        elif not old:
            yield "%s:%d (%s): %s has no such section" % (chinese, new.line, new.title, page)
        else:
            where = "%s:%d (%s), of %s:%d (%s)" % (chinese, new.line, new.title, page, old.line, old.title)
            for what in section_compare(old, new):
                yield "%s: %s" % (where, what)


def texts_read():
    names = ["README.md", "README.zh-CN.md"] + [os.path.relpath(path, ROOT) for path in
                                                 glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True)]
    return {name: read(name) for name in names if os.path.exists(os.path.join(ROOT, name))}


def compare(texts):
    pages = ["README.md" if name == "README" else "docs/%s.md" % name for name in PAGES]
    for name in sorted(texts):
        if (name.startswith("docs/zh/") or name == "README.zh-CN.md") and english_name(name) not in pages:
            yield "%s: it is not in the list of %s" % (name, os.path.basename(__file__))
    for page in pages:
        if chinese_name(page) not in texts:
            yield "%s: there is no %s" % (page, chinese_name(page))
        else:
            yield from page_compare(page, texts)


# (page, what is replaced, by what, words of the complaint): each has to be noticed, with the page and the section.
SPOILS = [
    ("docs/INSTALL.md", r"\n## Wheel\n", "\n## Windows\n\nNo.\n\n## Wheel\n", "(Windows)"),
    ("docs/INSTALL.md", r"^## Wheel$", "### Wheel", "is a heading of level 2, not 3"),
    ("docs/INSTALL.md", r"aclmem run \./prog$", "aclmem run ./program", "has another block of code: aclmem run ./program"),
    ("docs/FAQ.md", r"30 to 300 ns", "30 to 250 ns", "lacks the number 250"),
    ("docs/zh/FAQ.md", r"180 ns", "170 ns", "has the number 170"),
    ("docs/FAQ.md", r"`--exit-code N`", "`--exit N`", "lacks --exit N"),
    ("docs/TROUBLESHOOTING.md", r"`ACLMEM_LOCK_WARNING=0`", "`ACLMEM_QUIET=0`", "of the tables lacks ACLMEM_QUIET=0"),
    ("docs/TROUBLESHOOTING.md", r"^\| `No module.*\n", "", "(At the start): has"),
    ("docs/zh/CI.md", r"\(CHECK\.md#pytest\)", "(../CHECK.md#pytest)", "although it is there in Chinese"),
    ("docs/zh/CI.md", r"\(CHECK\.md#pytest\)", "(CHECK.md#json)", "lacks docs/CHECK.md#"),
    ("docs/zh/TORCH.md", r"^- .*\n", "", "items in lists"),
    ("docs/zh/FAQ.md", r"不需要。", "不需要,", "punctuation of Latin text in Chinese text"),
    ("docs/CI.md", r"^English \|.*$", "", "the first line below its title should be"),
]


def main():
    texts = texts_read()
    wrong = list(compare(texts))
    if not wrong:
        for name, old, new, words in SPOILS:
            spoilt, n = re.subn(old, new, texts[name], count=1, flags=re.M)
            said = list(page_compare(english_name(name), dict(texts, **{name: spoilt})))
            if n == 0 or not any(words in what and os.path.basename(name) in what for what in said):
                wrong.append('%s with %s changed: expected "%s", got %s' % (name, old, words, said))
    for what in wrong:
        print(what)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
