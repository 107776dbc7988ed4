"""torch_npu.profiler: the interface without measurements.  `aclmem run --trace` records what streams do."""
import enum


class _Anything:
    """A class whose members are made on demand, for constants that have no effect."""

    def __init__(self, *args, **kwargs):
        vars(self).update(kwargs)


class ProfilerActivity(enum.Enum):
    CPU, NPU = 0, 1


class ProfilerAction(enum.Enum):
    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


class ProfilerLevel:
    Level_none, Level0, Level1, Level2 = "Level_none", "Level0", "Level1", "Level2"


class AiCMetrics:
    PipeUtilization, ArithmeticUtilization, Memory, MemoryL0, MemoryUB, ResourceConflictRatio, L2Cache, MemoryAccess, \
        AiCoreNone = range(9)


class ExportType:
    Text, Db = "text", "db"


class HostSystem:
    CPU, MEM, DISK, NETWORK, OSRT = "cpu", "mem", "disk", "network", "osrt"


class _ExperimentalConfig(_Anything):
    pass


def supported_activities():
    return {ProfilerActivity.CPU, ProfilerActivity.NPU}


def schedule(wait=0, active=1, warmup=0, repeat=0, skip_first=0, **kwargs):
    return lambda step: ProfilerAction.NONE


def tensorboard_trace_handler(dir_name=None, worker_name=None, analyse_flag=True, **kwargs):
    return lambda profiler: None


class profile(_Anything):
    """Records nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False

    def start(self):
        """No effect."""

    stop = step = start

    def export_chrome_trace(self, path):
        raise NotImplementedError("torch_npu.profiler records nothing; `aclmem run --trace FILE` does")

    def add_metadata(self, *args):
        """No effect."""

    add_metadata_json = add_metadata


class dynamic_profile:
    @staticmethod
    def init(path):
        """No effect."""

    @staticmethod
    def step():
        """No effect."""
