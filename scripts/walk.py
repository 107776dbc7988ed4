"""Counts the files of src/ that one call of the library runs through.

    gdb -batch -ex 'py FUNCTION = "aclrtMapMem"' -x scripts/walk.py --args PROGRAM ARGUMENTS...

Steps through the first call of the function by single instructions and prints each file with the
number of instructions in it.  x.c and x.h are one file.  The program needs debug information
(preset dev).
"""
import collections
import os

import gdb

def main():
    gdb.execute("set breakpoint pending on")
    gdb.execute("set pagination off")
    gdb.execute("break %s" % FUNCTION)  # noqa: F821
    gdb.execute("run", to_string=True)
    start = int(gdb.parse_and_eval("$sp"))
    files = collections.Counter()
    while int(gdb.parse_and_eval("$sp")) <= start:
        line = gdb.find_pc_line(int(gdb.parse_and_eval("$pc")))
        path = line.symtab.fullname() if line.symtab else ""
        if "/src/" in path:
            files[os.path.splitext(path.split("/src/", 1)[1])[0]] += 1
            gdb.execute("stepi", to_string=True)
        else:
            gdb.execute("finish", to_string=True)  # the C library
    for name, n in files.most_common():
        print("%8d %s" % (n, name))
    print("%s: %d files" % (FUNCTION, len(files)))  # noqa: F821


main()
