"""A switch without ports."""

from collections.abc import Iterator

import pytest

from mrclab.softswitch.switch import SoftSwitch


@pytest.fixture
def switch() -> Iterator[SoftSwitch]:
    made = SoftSwitch(None, 511, 2)
    yield made
    made.close()
