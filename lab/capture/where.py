"""Selection of cables by a person."""

from collections.abc import Sequence

from mrclab.topo.model import Fabric, Link


def cables(fabric: Fabric, words: Sequence[str]) -> list[Link]:
    """The cables that these words mean: cables, ports, or all of a node or `pN` (a plane); all where there are none.

    TopoError names a word that means nothing.
    """
    wanted: set[int] = set()
    for word in words:
        own = {
            link.index for link in fabric.links if word in {end.node for end in link.ends} or word == f"p{link.plane}"
        }
        wanted |= own or {fabric.link(word).index}
    return [link for link in fabric.links if not words or link.index in wanted]
