#!/usr/bin/env python3
"""The site of the documents is made without a complaint, and dead links in it are noticed:
test_site.py <scripts/docs.py> <manual page> <folder to make it in>"""
import importlib.util
import os
import sys


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
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
