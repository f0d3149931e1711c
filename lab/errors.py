"""What can go wrong for a person at the command line; every text is one sentence with the remedy."""


class LabError(Exception):
    """Base of the errors that the command line prints and turns into its exit status."""

    status = 2  # exit status of the command


class Refused(LabError):  # noqa: N818 - the sentence is the error
    """The machine or the user cannot run this: no root, no Mininet, another lab is running."""


class ScenarioError(LabError):
    """A scenario that cannot run. `mistakes` holds one line for each thing that is wrong with it."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class Interrupted(LabError):  # noqa: N818 - the sentence is the error
    """Ctrl-C or another signal ended the lab."""

    status = 130  # as a shell says it: 128 + SIGINT


class RunError(LabError):
    """The lab came up, but what was asked of it failed: a process died, a transfer broke off, a timeout."""

    status = 1
