"""Rules for tests on every machine: none of them fails because another process had the CPU."""

import time

from hypothesis import given
from hypothesis import strategies as st


@given(st.none())
def test_an_example_of_a_property_may_take_its_time(nothing):
    time.sleep(0.5)  # more than hypothesis lets an example take by default
    assert nothing is None
