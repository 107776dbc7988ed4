"""What a Python finds that the module is not built for; it is installed as the package's __init__.py.

An extension module goes before a source file, so the Python that the module is built for never reads
this.  Without it, another one takes the folder for a package with nothing in it, and fails far from here.
"""
import os
import sys
import sysconfig

built = [name for name in os.listdir(os.path.dirname(os.path.abspath(__file__))) if name.endswith(".so")]
raise ImportError(
    "%s is not for this Python: it has %s, and %s needs __init__%s; use the Python that it was built for, or build it "
    "for this one, with cmake -DACLMEM_PYTHON=%s"
    % (
        os.path.dirname(os.path.abspath(__file__)),
        " and ".join(sorted(built)) or "no module at all",
        sys.executable,
        sysconfig.get_config_var("EXT_SUFFIX") or sysconfig.get_config_var("SO"),
        sys.executable,
    )
)
