"""Errors of the verbs interface, with the errno names that the OCP headers promise."""

import errno


class VerbsError(Exception):
    """A refused call; `code` is an errno name such as EINVAL, the text one sentence with the remedy."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def errno(self) -> int:
        """The number behind the name."""
        return int(getattr(errno, self.code))


class DiscardError(Exception):
    """A discarded frame; the text is the name of its counter."""
