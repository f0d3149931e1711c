"""Errors between a client and a server."""


class RpcError(Exception):
    """An error response: `code` is an errno name such as EINVAL, `message` one sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message


class RpcUnavailable(RpcError):  # noqa: N818 - the sentence is the error, the name says the state
    """The server cannot be reached: no socket, no listener, or a disconnect during a call."""


class RpcTimeout(RpcUnavailable):
    """The server did not answer in time; the connection is closed, since its answer may still be under way."""


class RpcStopped(RpcTimeout):
    """A signal has stopped the server's process, `pid`; the connection is closed, since it may still answer."""

    def __init__(self, message: str, pid: int) -> None:
        super().__init__("ESTOPPED", message)
        self.pid = pid


class FramingError(RpcError):
    """A line that is too long, not JSON, or not an object."""

    def __init__(self, message: str) -> None:
        super().__init__("EPROTO", message)
