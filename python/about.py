"""What CMake has to know of this Python: where its headers are, and how a module's file ends."""
import os
import sys
import sysconfig

headers = sysconfig.get_path("include")
if sys.version_info < (3, 9):
    sys.exit("it is older than 3.9")
if not os.path.exists(os.path.join(headers, "Python.h")):
    sys.exit("its headers are missing (Debian's package: python3-dev)")
print(headers + ";" + sysconfig.get_config_var("EXT_SUFFIX"))
