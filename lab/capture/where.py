"""Selection of cables by a person."""

from collections.abc import Sequence

from mrclab.topo.model import Fabric, Link


def cables(fabric: Fabric, words: Sequence[str]) -> list[Link]:
    """Return the cables selected by words: cables, ports, nodes or `pN` (a plane); all cables without words. Raises
    TopoError for an unknown word.
    """
    indices: set[int] = set()
    for word in words:
        own = {
            link.index for link in fabric.links if word in {end.node for end in link.ends} or word == f"p{link.plane}"
        }
        indices |= own or {fabric.link(word).index}
    return [link for link in fabric.links if not words or link.index in indices]
