"""Membership of this process in a job and its groups: the mesh that they share, and how operations are handed to it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist

from mrclab.hosts.collectives.algorithms import Collective
from mrclab.hosts.collectives.mesh import Mesh, environment_setting
from mrclab.hosts.collectives.operation import CollectiveError, MeshOperation
from mrclab.torch.work import MrcError, MrcWork, MrcWorks, as_torch

CODES: Final = ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter",
                "barrier", "send", "recv")  # fmt: skip
"""Operations by the code that their segments carry."""
_UNSET: Final = timedelta(milliseconds=-1)

_lock = threading.Lock()
_mesh: Mesh | None = None
_users = 0


def _join(rank: int) -> Mesh:
    global _mesh, _users  # noqa: PLW0603 - a process has one place in a job
    with _lock:
        if _mesh is None:
            host = os.environ.get("MRCLAB_HOST", "unknown host")
            lanes = environment_setting("MRCLAB_QPS", 1, 64)
            silence = environment_setting("MRCLAB_SILENCE", 15.0, 1e6)
            try:
                _mesh = Mesh(rank, host, lanes, silence)
            except OSError as error:
                remedy = "start the rank on a host of the lab: mrclab train, or mrclab exec HOST --"
                raise MrcError(f"rank {rank} has no NIC: {error}; {remedy}") from error
        elif _mesh.rank != rank:
            raise MrcError(f"this process is rank {_mesh.rank} already, and cannot be rank {rank} of another job")
        _users += 1
        return _mesh


def _leave(mesh: Mesh) -> None:
    global _mesh, _users  # noqa: PLW0603
    with _lock:
        _users -= 1
        last = not _users
        if last:
            _mesh = None
    if last:
        mesh.close()


class GroupMember(dist.ProcessGroup):  # type: ignore[misc]
    """A group of `ranks` of the job, of which this process is the one at place `rank`."""

    def __init__(
        self, store: dist.Store, rank: int, ranks: Sequence[int], name: str, timeout: timedelta | float
    ) -> None:
        super().__init__(rank, len(ranks))
        self._rank, self._size = rank, len(ranks)
        self._seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
        self._mesh = _join(ranks[rank])
        self._name, self._desc = name, "undefined"
        self._closed = False
        self._sequence = 0
        self._coalescing: list[MrcWork] | None = None
        try:
            self._mesh.connect(store, ranks)
            self._group = self._mesh.group(name, ranks)
        except BaseException as error:
            self._closed = True
            _leave(self._mesh)
            if isinstance(error, CollectiveError):
                raise as_torch(error) from None
            raise

    # --- called by torch.distributed -------------------------------------------------------------------------------

    def name(self) -> str:
        """Return the backend's name."""
        return "mrc"

    getBackendName = name  # noqa: N815 - its name in C++

    def size(self) -> int:
        """Return the number of ranks in the group."""
        return self._size

    def rank(self) -> int:
        """Return this process's place in the group."""
        return self._rank

    def __repr__(self) -> str:
        return f"MrcProcessGroup(rank {self._rank} of {self._size})"

    @property
    def group_name(self) -> str:
        """The name that torch.distributed gave the group."""
        return self._name

    @property
    def group_desc(self) -> str:
        """Purpose of the group."""
        return self._desc

    def getGroupName(self) -> str:  # noqa: N802 - the property's name in C++
        """Return the group's name."""
        return self._name

    def getGroupDesc(self) -> str:  # noqa: N802 - the property's name in C++
        """Return the purpose of the group."""
        return self._desc

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, desc: str) -> None:
        self._desc = desc

    def _get_backend(self, device: torch.device) -> GroupMember:
        """Return the group itself, which is its own backend for CPU tensors."""
        if torch.device(device).type != "cpu":
            raise RuntimeError(f"the backend mrc has nothing for device {device}; it takes CPU tensors")
        return self

    @property
    def supports_splitting(self) -> bool:
        """False: a group is made like any other."""
        return False

    @property
    def supports_coalescing(self) -> bool:
        """True: collectives run side by side."""
        return True

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the time-out of later collectives."""
        self._seconds = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def _set_sequence_number_for_group(self) -> None:
        """Do nothing: collectives are numbered from 0."""

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def abort(self) -> None:
        """End all collectives of the group, on all its ranks."""
        self._mesh.abort(self._group)

    def shutdown(self) -> None:
        """Leave the group; the last one of a process leaves the job."""
        if not self._closed:
            self._closed = True
            self._mesh.leave(self._group)
            _leave(self._mesh)

    # --- operations -------------------------------------------------------------------------------------------------

    def _do(
        self,
        name: str,
        runs: Sequence[Callable[[MeshOperation], Collective]],
        results: Sequence[Any],
        options: Any,
        finish: Callable[[], None] | None = None,
    ) -> MrcWork:
        """Run operations of one kind side by side as one Work."""
        work = MrcWork(results, finish)
        timeout = self._timeout(options)
        self._sequence += 1
        made = [
            MeshOperation(
                self._mesh, self._group, name, run, timeout, code=CODES.index(name), on_end=work.operation_ended
            ) for run in runs
        ]  # fmt: skip
        return self._begin(work, made)

    def _begin(self, work: MrcWork, made: list[MeshOperation]) -> MrcWork:
        work.expect(len(made), lambda: self._mesh.abort(self._group))
        for one in made:
            self._mesh.submit(one)
        if self._coalescing is not None:
            self._coalescing.append(work)
        return work

    def _timeout(self, options: Any) -> float:
        given = getattr(options, "timeout", _UNSET)
        return self._seconds if given is None or given <= timedelta(0) else float(given.total_seconds())

    # --- coalescing: collectives run side by side in any case -------------------------------------------------------

    def _start_coalescing(self, _device: torch.device) -> None:
        """Begin to collect Works."""
        self._coalescing = []

    def _end_coalescing(self, _device: torch.device) -> MrcWork:
        """Return one Work for all that were begun since."""
        works, self._coalescing = self._coalescing or [], None
        return MrcWorks(works)
