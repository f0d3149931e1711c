"""The queue that many share and nobody fills."""

import pytest

from mrclab.topo.economy import EMPTY_QUEUE


@pytest.mark.parametrize("put", [EMPTY_QUEUE.append, EMPTY_QUEUE.appendleft, EMPTY_QUEUE.extend])
def test_what_is_put_in_is_refused_not_lost(put):
    with pytest.raises(TypeError, match="put a deque of your own in its place"):
        put([1])
    assert not EMPTY_QUEUE
