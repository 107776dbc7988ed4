"""Marks for the vendor's profiler.  They have no effect."""
import contextlib


class mstx:
    @staticmethod
    def mark(message="None", stream=None, domain="default"):
        """No effect."""

    @staticmethod
    def range_start(message="None", stream=None, domain="default"):
        return 0

    @staticmethod
    def range_end(range_id, domain="default"):
        """No effect."""

    @staticmethod
    def range_push(message="None", stream=None, domain="default"):
        return 0

    @staticmethod
    def range_pop(domain="default"):
        return 0

    @staticmethod
    @contextlib.contextmanager
    def mstx_range(message="None", stream=None, domain="default"):
        yield
