"""Driver of a ring all-reduce: compares its results with the expected ones."""

from collections.abc import Collection

from typing_extensions import override

from mrclab.hosts.workloads import payload
from mrclab.hosts.workloads.channel import content
from mrclab.lab.traffic.kinds.collectives import RingAllReduce
from mrclab.lab.traffic.running.flows import Running

_CHECKED_ITERATIONS = 4  # compared with the expected result; all are compared between the hosts


class RunningRing(Running):
    """Iterations of a ring, with their results."""

    entry: RingAllReduce
    _expected: tuple[str, ...] = ()  # digests of the first iterations

    @override
    def prepare(self, absent: Collection[str] = ()) -> None:
        """Compute the expected results as well: at the end of one workload this would keep a CPU from the next."""
        super().prepare(absent)
        if not self._expected:
            size, checked = self.entry.size, min(_CHECKED_ITERATIONS, self.entry.rounds or _CHECKED_ITERATIONS)
            reduced = payload.reduced(content(self._content(host), size) for host in self.entry.hosts)
            self._expected = tuple(payload.expected(reduced, size, number) for number in range(checked))

    @override
    def _reduced(self) -> tuple[list[str], list[str]]:
        expected, actual = [], []
        for number, parts in sorted(self._iterations.items()):
            digests = [digest for _, _, digest in parts.values()]
            expected += [self._expected[number] if number < len(self._expected) else digests[0]] * len(self.hosts)
            actual += digests + [""] * (len(self.hosts) - len(digests))
        return expected, actual
