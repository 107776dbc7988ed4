#!/bin/sh
# After `make wheel`: how the wheel is installed, also where python3 has no pip.
if python3 -c 'import pip' 2>/dev/null; then
    echo "To install it: python3 -m pip install build/wheel/*.whl"
else
    echo "This python3 has no pip. Install pip (Debian's packages: python3-pip, python3-venv), or do without:"
    echo "make deb has the package python3-aclmem, and make install a tree with PYTHONPATH=/opt/aclmem/python/site-packages"
fi
