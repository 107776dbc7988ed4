"""torch.npu.utils: versions."""
import os
import re


def get_cann_version(module="CANN"):
    """The version in ascend_*_install.info under ASCEND_HOME_PATH, or "not known"."""
    root = os.environ.get("ASCEND_HOME_PATH", "")
    for at, _, names in os.walk(root) if root else ():
        for name in names:
            if re.match(r"ascend_.*_install\.info$", name):
                with open(os.path.join(at, name), encoding="utf-8", errors="replace") as file:
                    found = re.search(r"^version=(.*)$", file.read(), re.MULTILINE)
                if found:
                    return found.group(1).strip()
    return "not known"
