"""Errors of `topo`, always one sentence that names the thing and the remedy."""


class TopoError(Exception):
    """Base of all errors of this package."""


class EmulationError(TopoError):
    """The machine could not be brought into the intended state."""


class UntrustedPlace(TopoError):  # noqa: N818 - reads as the state it reports
    """Another user could change the files at a place that the lab uses."""


class MachineTooSlow(EmulationError):  # noqa: N818 - reads as the state it reports
    """Timeout because of the machine: says nothing about the network."""


class ProcessStopped(EmulationError):  # noqa: N818 - reads as the state it reports
    """Timeout because a signal had stopped the process: says nothing about the network."""


class LabRunning(TopoError):  # noqa: N818 - reads as the state it reports
    """Another lab holds the lock; `pid` is its process (0 where it is unknown)."""

    def __init__(self, message: str, pid: int) -> None:
        super().__init__(message)
        self.pid = pid
