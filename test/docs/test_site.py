#!/usr/bin/env python3
"""The site of the documents is made without a complaint, dead links in it are noticed, and its search finds words of
both languages, from disk, where there is a browser:
test_site.py <scripts/docs.py> <manual page> <folder to make it in>"""
import importlib.util
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "trace"))
import browser

# What is searched -> a page that is found, in Chinese among the first three; or None for nothing.
SEARCHES = {
    "aclrtMapMem": "API.html",
    "suppressions": "CHECK.html",
    "虚拟内存": "zh_GUIDE.html",
    "锁页内存": "zh_CI.html",
    "共享句柄 白名单": "zh_GLOSSARY.html",
    "账本": "zh_GLOSSARY.html",
    "量子": None,
}


def module_load(path):
    spec = importlib.util.spec_from_file_location("docs", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def complaints(docs, site):
    docs.wrong.clear()
    docs.site_check(site)
    return "\n".join(docs.wrong)


def spoil(docs, site, name, old, new, words):
    """Whether the checker fails to say these words when the page is changed."""
    path = os.path.join(site, name)
    text = docs.read(path)
    assert old in text, "%s has no %s to spoil" % (name, old)
    docs.write(path, text.replace(old, new, 1))
    said = complaints(docs, site)
    docs.write(path, text)
    if words in said:
        return False
    print("%s, %s: not noticed: %s" % (name, new, said))
    return True


def search(page, site, words):
    """The pages that the site lists for these words."""
    page.call("Page.navigate", url="file://%s/index.html?q=%s" % (site, urllib.parse.quote(words)))
    page.evaluate(
        "new Promise((done, fail) => { let n = 0; const poll = () => document.querySelector('#mkdocs-search-results > *') ? done() : "
        "++n > 6000 ? fail(new Error('no answer')) : setTimeout(poll, 10); poll(); })"
    )
    return page.evaluate("[...document.querySelectorAll('#mkdocs-search-results a')].map((a) => a.href.split('/').pop())")


def searches_fail(site):
    """Whether a search does not find what it should."""
    if not browser.find():
        print("not run: there is no Chromium, so the search is not tested")
        return False
    is_wrong = False
    page = browser.Browser()
    try:
        for words, expected in SEARCHES.items():
            found = search(page, site, words)
            first = found if words.isascii() else found[:3]
            if not any(f.startswith(expected) for f in first) if expected else found:
                print("the search for %s should find %s, and finds %s" % (words, expected, found[:10]))
                is_wrong = True
    finally:
        page.close()
    return is_wrong


def main(script, manual, folder):
    sys.dont_write_bytecode = True
    docs = module_load(script)
    status = docs.main(folder, manual)
    if status != 0:
        return status
    site = os.path.join(folder, "site")
    is_wrong = "aclmem run" not in docs.read(os.path.join(site, "COMMAND.html"))
    if "<pre><code" not in docs.read(os.path.join(site, "index.html")):
        print("blocks of code are not set as code")
        is_wrong = True
    is_wrong |= spoil(docs, site, "index.html", 'href="GUIDE.html"', 'href="GIDE.html"', "the link to GIDE.html leads nowhere")
    is_wrong |= spoil(docs, site, "GUIDE.html", 'id="limits"', 'id="limit"', "GUIDE.html has no heading #limits")
    is_wrong |= spoil(docs, site, "index.html", 'src="js/', 'src="https://elsewhere/', "index.html loads https://elsewhere/")
    is_wrong |= searches_fail(site)
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
