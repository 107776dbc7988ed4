"""What CMake has to know of this Python: where its headers are, how a module's file ends, and the definitions for it.

From 3.11 on the limited API has all that the module uses, so what is built with those headers is for every Python
from 3.9 on: the functions that came to the limited API after 3.9 were there, and the same, before.  Headers before
that, and those of a Python without the GIL, make a module for that Python alone.
"""
import os
import sys
import sysconfig

headers = sysconfig.get_path("include")
if sys.version_info < (3, 9):
    sys.exit("it is older than 3.9")
if not os.path.exists(os.path.join(headers, "Python.h")):
    sys.exit("its headers are missing (Debian's package: python3-dev)")
if sys.version_info >= (3, 11) and not sysconfig.get_config_var("Py_GIL_DISABLED"):
    print(headers + ";.abi3.so;Py_LIMITED_API=0x030B0000")
else:
    print(headers + ";" + sysconfig.get_config_var("EXT_SUFFIX") + ";")
