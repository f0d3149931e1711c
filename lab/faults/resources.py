"""Parts of the control plane that a fault claims or needs, in words: two faults that claim the same may not overlap."""

THE_CONTROLLER = "the controller"


def process_of(switch: str) -> str:
    """Return the claim to a switch's process."""
    return f"the process of {switch}"


def running_of(switch: str) -> str:
    """Return the claim to the running state of a switch."""
    return f"whether {switch} runs"


def channel_of(switch: str) -> str:
    """Return the claim to a switch's control channel."""
    return f"the control channel of {switch}"
