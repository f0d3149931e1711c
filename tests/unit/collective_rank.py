"""A rank of a job without PyTorch, as a program: WHAT RANK SIZE FOLDER. Numbers are 32-bit, the folder is the store."""

import os
import signal
import sys
import time
from pathlib import Path

from mrclab.hosts.collectives import algorithms
from mrclab.hosts.collectives.mesh import Mesh
from mrclab.hosts.collectives.operation import ANY, MESSAGE, CollectiveError, MeshOperation


def say(*words: object) -> None:
    """A line of output."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")


class FolderStore:
    """Values in files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, key: str) -> Path:
        return self._folder / key.replace("/", "_")

    def set(self, key: str, value: str) -> None:
        draft = self._path(key + ".draft")
        draft.write_text(value)
        draft.replace(self._path(key))

    def get(self, key: str) -> bytes:
        while not self._path(key).exists():
            time.sleep(0.005)
        return self._path(key).read_bytes()


class Rank:
    """This process in the group of all."""

    def __init__(self, rank: int, size: int, store: FolderStore) -> None:
        self.rank, self.size = rank, size
        self.mesh = Mesh(rank, f"h{rank + 1}")
        self.mesh.connect(store, range(size))
        self.group = self.mesh.group("all", range(size))

    def begin(
        self, items: int, value: int, limit: float = 120.0, name: str = "all_reduce"
    ) -> tuple[MeshOperation, memoryview]:
        """Begin to sum numbers."""
        numbers = memoryview(bytearray(4 * items)).cast("I")
        for place in range(items):
            numbers[place] = value
        view = numbers.cast("B")

        def combine(at: int, segment: memoryview) -> None:
            for place, word in enumerate(segment.cast("I"), start=at // 4):
                numbers[place] += word

        def run(out: MeshOperation) -> algorithms.Collective:
            if name == "barrier":
                return algorithms.barrier(out, self.rank, self.size)
            return algorithms.all_reduce(out, self.rank, self.size, view, 4, combine)

        made = MeshOperation(self.mesh, self.group, name, run, limit, code=len(name))
        return self.mesh.submit(made), numbers

    def end(self, operation: MeshOperation) -> None:
        """Wait, and raise what went wrong."""
        operation.wait()
        if operation.error is not None:
            raise operation.error

    def sum(self, items: int, value: int, **options: object) -> int:
        """The sum of a value over all ranks; the same at every place."""
        operation, numbers = self.begin(items, value, **options)
        self.end(operation)
        assert len(set(numbers)) == 1
        return numbers[0]

    def message(self, to: int | None, content: bytearray) -> int:
        """Send, or receive from anybody; the sender."""
        view = memoryview(content)
        kind = {"kind": MESSAGE, "tag": 5, "total": len(view)}
        if to is not None:
            made = MeshOperation(
                self.mesh, self.group, "send", lambda out: algorithms.send(out, to, view), 60.0, sends_to=to, **kind
            )
        else:
            made = MeshOperation(
                self.mesh,
                self.group,
                "recv",
                lambda out: algorithms.receive(out.source, view),
                60.0,
                source=ANY,
                **kind,
            )
        self.end(self.mesh.submit(made))
        return self.rank if made.source is None else made.source


def works(me: Rank) -> None:
    say("small", me.sum(3, me.rank + 1))
    say("large", me.sum(60_000, me.rank + 1))
    both = [me.begin(5_000, factor * (me.rank + 1)) for factor in (1, 2)]
    for operation, _ in both:
        me.end(operation)
    say("at once", [numbers[-1] for _, numbers in both])
    if me.rank == 0:
        content = bytearray(5)
        say(f"message from {me.message(None, content)}: {content.decode()}")
    else:
        if me.rank == 2:
            me.message(0, bytearray(b"hello"))
        say("message none")
    me.end(me.begin(0, 0, name="barrier")[0])
    say("met")


def main() -> None:
    what, rank, size, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    me = Rank(rank, size, FolderStore(folder))
    if what == "works":
        works(me)
        me.mesh.close()
        say("left")
        return
    try:
        me.sum(3, 1)
        if what == "late" and rank == 1:
            while me.group.broken is None:
                time.sleep(0.05)
            return
        if what == "killed" and rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "left" and rank == 2:
            me.mesh.close()
            return
        name = "barrier" if what == "other" and rank == 2 else "all_reduce"
        limit = 1.0 if what == "late" and not rank else 120.0  # rank 0 waits for the late one, rank 2 for rank 0
        me.sum(5 if what == "size" and rank == 2 else 9, 1, limit=limit, name=name)
        say("nothing failed")
    except CollectiveError as error:
        say(error)


main()
