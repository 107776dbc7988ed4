"""What aclmem adds for Python: the command, where its library and headers are, aclmem.torch and aclmem.npu.

    aclmem.root()    the folder with include/ and lib64/, for a build: -I.../include -L.../lib64 -lascendcl

aclmem.torch is the memory pool as PyTorch's allocator.
"""
import os
import pkgutil
import sys

__path__ = pkgutil.extend_path(__path__, __name__)  # aclmem.npu may be installed in another folder


def root():
    """The folder with bin/, lib64/ and include/: of a wheel, an installed tree, or a build (without include/)."""
    here = os.path.dirname(os.path.realpath(__file__))  # Debian's package has links
    for up in ("", os.path.join("..", "..", ".."), os.path.join("..", "..")):
        folder = os.path.normpath(os.path.join(here, up))
        if os.path.exists(os.path.join(folder, "lib64", "libascendcl.so")):
            return folder
    raise OSError("there is no lib64/libascendcl.so in or above %s" % here)


def main():
    """The command `aclmem`: becomes the program of the same name."""
    program = os.path.join(root(), "bin", "aclmem")
    try:
        os.execv(program, ["aclmem"] + sys.argv[1:])
    except OSError as error:
        sys.exit("aclmem: %s: %s; is the wheel one for this machine's processor?" % (program, error.strerror))
