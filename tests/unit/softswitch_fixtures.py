"""A switch without ports."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mrclab.softswitch.switch import SoftSwitch


@pytest.fixture
def switch() -> Iterator[SoftSwitch]:
    made = SoftSwitch(None, 511, 2)
    yield made
    made.close()


@contextmanager
def looping(switch: SoftSwitch) -> Iterator[None]:
    """Have the switch serve its descriptors."""
    thread = threading.Thread(target=switch.loop)
    thread.start()
    try:
        yield
    finally:
        switch.stop()
        thread.join()
