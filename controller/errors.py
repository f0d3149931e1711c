"""Errors between the controller and a switch; every text is one sentence that names the switch."""

from typing import NamedTuple


class ControllerError(Exception):
    """Base of all errors that the controller raises on purpose."""


class ProgramError(ControllerError):
    """The compiled P4 program cannot be read, or lacks a table that the controller writes."""


class WatchError(ControllerError):
    """An EV that cannot be watched, or is not."""


class SwitchError(ControllerError):
    """A switch cannot be reached, does not respond in time, or refuses a request. `code` is a gRPC status name."""

    def __init__(self, switch: str, message: str, code: str = "") -> None:
        super().__init__(f"{switch}: {message}")
        self.switch = switch
        self.code = code


class NotPrimaryError(SwitchError):
    """Another controller holds the higher election id on this switch; only it may write."""


class FailedUpdate(NamedTuple):
    """One update of a batch that the switch refused, and the switch's error."""

    update: str
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.update}: {self.code} {self.message}".rstrip()


class WriteError(SwitchError):
    """A batch of writes of which some, or all, were refused. `failed` names each of them."""

    def __init__(self, switch: str, failed: tuple[FailedUpdate, ...], total: int) -> None:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        super().__init__(switch, f"{len(failed)} of {total} updates were refused: {failed[0]}{more}", failed[0].code)
        self.failed = failed
