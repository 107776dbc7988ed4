#!/usr/bin/env python3
"""Makes what the module `acl` is built of:  generate.py ROOT FILE.inc STUBS

FILE.inc is the C text that acl.c includes; STUBS is the folder of the type stubs.  Nothing of it is kept
in the repository.
"""
import os
import sys

import emit_c
import emit_stub
import wrapper


def write(path, lines):
    """Leaves a file alone that is as it should be, so that nothing is built for it."""
    text = "\n".join(lines) + "\n"
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main(root, target, stubs):
    known, wrappers, utils = wrapper.load(root)
    os.makedirs(stubs, exist_ok=True)
    write(target, emit_c.emit(known, wrappers, utils, lambda w: emit_stub.docstring(w, known)))
    for module in emit_c.MODULES:
        name = "%s.pyi" % (module or "__init__")
        write(os.path.join(stubs, name), emit_stub.stub(module, wrappers + utils, known))
    write(os.path.join(stubs, "py.typed"), [])


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
