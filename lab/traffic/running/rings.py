"""Driver of a ring all-reduce: compares its results with the expected ones."""

from typing_extensions import override

from mrclab.hosts.workloads import ring
from mrclab.hosts.workloads.channel import content
from mrclab.lab.traffic.kinds.collectives import RingAllReduce
from mrclab.lab.traffic.running.flows import Running

_CHECKED_ITERATIONS = 4  # compared with the expected result; all are compared between the hosts


class RunningRing(Running):
    """Iterations of a ring, with their results."""

    entry: RingAllReduce

    @override
    def _reduced(self) -> tuple[list[str], list[str]]:
        size = self.entry.size
        sums, got = [], []
        sources: list[bytearray] = []
        for number, parts in sorted(self._iterations.items()):
            digests = [digest for _, _, digest in parts.values()]
            expected = digests[0]
            if number < _CHECKED_ITERATIONS:
                sources = sources or [content(self._content(host), size) for host in self.entry.hosts]
                expected = ring.expected(sources, size, number)
            sums += [expected] * len(self.hosts)
            got += digests + [""] * (len(self.hosts) - len(digests))
        return sums, got
