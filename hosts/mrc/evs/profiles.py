"""The profiles of one host by number: EV profiles and congestion control profiles, which share one count."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from mrclab.hosts.mrc.evs.evprofile import EvProfile
from mrclab.hosts.rdma.errors import VerbsError


class Profiles:
    """Profiles of the control interface, with which QPs are created."""

    def __init__(self) -> None:
        self._ev: dict[int, EvProfile] = {}
        self._cc: dict[int, tuple[str, dict[str, Any]]] = {}
        self._numbers = count(1)

    def add_ev(self, make: Callable[[int], EvProfile]) -> EvProfile:
        """Keep the EV profile that `make` gives for the next number."""
        profile = make(next(self._numbers))
        self._ev[profile.number] = profile
        return profile

    def ev(self, number: int) -> EvProfile:
        """EINVAL if there is no such EV profile."""
        try:
            return self._ev[number]
        except KeyError:
            raise VerbsError("EINVAL", f"there is no EV profile {number}") from None

    def remove_ev(self, number: int) -> None:
        """EBUSY while QPs use it."""
        self.ev(number).check_unused()
        del self._ev[number]

    def add_cc(self, algorithm: str, config: dict[str, Any]) -> int:
        """Keep a congestion control profile; returns its number."""
        number = next(self._numbers)
        self._cc[number] = (algorithm, config)
        return number

    def cc(self, number: int) -> tuple[str, dict[str, Any]]:
        """Algorithm and parameters; EINVAL if there is no such congestion control profile."""
        try:
            return self._cc[number]
        except KeyError:
            raise VerbsError("EINVAL", f"there is no congestion control profile {number}") from None

    def remove_cc(self, number: int) -> None:
        """Forget a congestion control profile that no QP uses."""
        self.cc(number)
        del self._cc[number]
