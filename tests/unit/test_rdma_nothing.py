"""The queue that many share and nobody fills."""

import pytest

from mrclab.hosts.rdma.nothing import NOTHING


@pytest.mark.parametrize("put", [NOTHING.append, NOTHING.appendleft, NOTHING.extend])
def test_what_is_put_in_is_refused_not_lost(put):
    with pytest.raises(TypeError, match="put a deque of your own in its place"):
        put([1])
    assert not NOTHING
