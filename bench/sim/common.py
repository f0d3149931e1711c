"""Loads of both simulators: the same leaf-spine fabric, packets, queues and window.

uet-htsim's packet has a header of 64 bytes, MRC's of 142: MRC Lab's links are faster in proportion, so that a full
packet of 4 KiB takes as long on both. Delays make the longest base RTT 12 µs, where both have the same NSCC constants
(scale and increments of uet-htsim are written for that RTT). Queues mark and trim at the same depths in packets, at the
last hop too. Each flow sprays over all uplinks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from mrclab.hosts.roce import headers as roce
from mrclab.lab.traffic import matrix
from mrclab.lab.traffic.matrix import Matrix
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.model import Fabric
from mrclab.topo.numbers import FULL_HEADER_BYTES
from mrclab.topo.spec import FabricSpec

PAYLOAD = 4096
HTSIM_HEADER = 64
GBPS = 100
_DELAY_NS = 1331  # of each link
_BDP = 36  # packets: 12 µs at 100 Gb/s
_ECN_MIN, _ECN_MAX = 7, 29  # packets: 0.2 and 0.8 BDP
_QUEUE = {"ecn_min": _ECN_MIN, "ecn_max": _ECN_MAX, "trim_threshold": _BDP, "last_hop_trim_threshold": _BDP}
_LOSSLESS_BUFFER = 400  # packets: a port's buffer in uet-htsim's lossless fabric, which never fills
_XOFF, _XON = 15, 12  # packets in an ingress port at which it pauses its peer, and resumes it
_FLOWLET_GAP = 6e-6  # seconds
DCQCN_MARK = 7  # packets of an output queue behind which uet-htsim's DCQCN has every packet marked
_REORDER = 256  # packets, with selective repeat: uet-htsim takes any order
_TIMEOUT_EXPONENT = 10  # 4 ms: RoCEv2 of uet-htsim has a timeout of 1 ms at least, and none is due
_MIN_END_US = 1000
_GROUP_HOSTS = 16  # hosts of an incast or an all-to-all
FLOWS = 10  # of each host of a Poisson load
_PATHS = 256  # entropy values per flow of uet-htsim, which hashes them over the uplinks


def _pfc_queues(full: int, marks: bool) -> dict[str, Any]:
    """Return queues with PFC at uet-htsim's thresholds, in packets of `full` bytes; `marks`: also with DCQCN's ECN."""
    queue = {"buffer": 10_000 * full, "pfc": {"xoff": _XOFF * full, "xon": _XON * full}}
    return {**queue, "ecn_min": DCQCN_MARK, "ecn_max": DCQCN_MARK + 1} if marks else queue


_Pairs = Iterator[tuple[int, int]]


def permutation(hosts: int, rng: random.Random) -> _Pairs:
    """Every host sends to one other, and receives from one."""
    order = rng.sample(range(hosts), hosts)
    return zip(order, [*order[1:], order[0]], strict=True)


def incast(hosts: int, rng: random.Random) -> _Pairs:
    """Sixteen hosts, or all others where there are fewer, send to one."""
    target, *senders = rng.sample(range(hosts), min(_GROUP_HOSTS + 1, hosts))
    return ((sender, target) for sender in senders)


def all_to_all(hosts: int, rng: random.Random) -> _Pairs:
    """In groups of sixteen random hosts, every host sends to every other."""
    order = rng.sample(range(hosts), hosts)
    for begin in range(0, hosts, _GROUP_HOSTS):
        group = order[begin : begin + _GROUP_HOSTS]
        for step in range(1, len(group)):
            for place, one in enumerate(group):
                yield one, group[(place + step) % len(group)]


def whole_incast(hosts: int, rng: random.Random) -> _Pairs:
    """All other hosts send to one."""
    target, *senders = rng.sample(range(hosts), hosts)
    return ((sender, target) for sender in senders)


def poisson(hosts: int, rng: random.Random, flows: int = FLOWS) -> _Pairs:
    """Every host sends to `flows` others, drawn each time, perhaps the same again; `starts` has the times."""
    for source in range(hosts):
        for _ in range(flows):
            destination = rng.randrange(hosts - 1)
            yield source, destination + (destination >= source)


def starts(load: SimLoad) -> Iterator[int]:
    """Yield start times of Poisson transfers, which load each link by half: whole µs, as uet-htsim reads them."""
    rng = random.Random(f"{load.seed}/starts")
    for _ in range(load.hosts):
        at = 0.0
        for _ in range(load.flows):
            at += rng.expovariate(1 / load.gap)
            yield round(at)


TRAFFIC: dict[str, Callable[[int, random.Random], _Pairs]] = {
    "permutation": permutation,
    "incast": incast,
    "all-to-all": all_to_all,
    "poisson": poisson,
    "short-flows": poisson,
    "whole-incast": whole_incast,
}

_POISSON = ("poisson", "short-flows")


def hosts_per_t0(hosts: int) -> int:
    """Return the hosts of a T0, as many as its uplinks: the smallest power of two n with 2n² ≥ hosts."""
    found = 4
    while 2 * found * found < hosts:
        found *= 2
    return found


@dataclass(frozen=True)
class SimLoad:
    """Load of a simulation: senders and receivers on a number of hosts; `size` in bytes, of each transfer.

    `flows` is the number of transfers that each host of a Poisson load begins; `short-flows` is one.
    `selection` and `control` are the path selection (MRC) and congestion control in MRC Lab, `balancing` how T0s choose
    uplinks; `htsim_balancing`, `htsim_control` and `htsim_options` are command-line options of uet-htsim, where they
    are not its defaults. `kind` roce is RoCEv2 in MRC Lab and `htsim_program` in uet-htsim, both on links with PFC.
    """

    hosts: int
    traffic: str
    size: int
    seed: int = 1
    selection: str = "rotation"
    control: str = "nscc"
    htsim_balancing: str = ""
    htsim_control: str = ""
    kind: Literal["mrc", "roce"] = "mrc"
    balancing: Literal["ecmp", "spray", "adaptive", "flowlet"] = "ecmp"
    recovery: str = "go_back_n"
    settings: Mapping[str, float] = field(default_factory=dict, hash=False)  # of the congestion control
    htsim_program: str = "htsim_uec"
    htsim_options: tuple[str, ...] = ()
    flows: int = FLOWS

    @property
    def is_poisson(self) -> bool:
        """True if transfers begin at random times, as a Poisson process."""
        return self.traffic in _POISSON

    @property
    def gap(self) -> float:
        """Mean time between two Poisson transfers of a host, µs, at half of its link's rate."""
        return 2 * self.size * 8 / (GBPS * 1e3)

    def matrix(self) -> Matrix:
        """Return all transfers, with the start of each in microseconds."""
        rng = random.Random(self.seed)
        if not self.is_poisson:
            return matrix.of_pairs(self.hosts, TRAFFIC[self.traffic](self.hosts, rng), self.size)
        made = matrix.of_pairs(self.hosts, poisson(self.hosts, rng, self.flows), self.size)
        begun = (replace(one, start=float(at)) for one, at in zip(made.connections, starts(self), strict=True))
        return replace(made, connections=tuple(begun))

    # --- MRC Lab ------------------------------------------------------------------------------------------------------

    def fabric(self) -> Fabric:
        """One plane; nothing is oversubscribed."""
        header = FULL_HEADER_BYTES if self.kind == "mrc" else roce.HEADER_BYTES
        rate = GBPS * 1e9 * (PAYLOAD + header) / (PAYLOAD + HTSIM_HEADER)
        group = hosts_per_t0(self.hosts)
        lossless = _pfc_queues(PAYLOAD + header, self.control == "dcqcn")
        queue = _QUEUE if self.kind == "mrc" else lossless
        return Fabric(
            FabricSpec.model_validate(  # sections as dicts need no validators of their own
                {
                    "planes": 1,
                    "t0s": self.hosts // group,
                    "t1s": group,
                    "hosts_per_t0": group,
                    "path_mtu": PAYLOAD,
                    "link": {"rate": rate, "delay": _DELAY_NS * 1e-9},
                    "queue": queue,
                    "last_hop_ecn": True,
                    "switch_latency": 0.0,
                    "trimming": self.kind == "mrc",
                    "load_balancing": self.balancing,
                    "flowlet_gap": _FLOWLET_GAP if self.balancing == "flowlet" else None,
                }
            )
        )

    def transport(self) -> TransportSpec:
        """MRC with every uplink in use, or RoCEv2 with one QP for each transfer."""
        if self.kind == "roce":
            dcqcn = {"dcqcn": dict(self.settings)} if self.control == "dcqcn" else {}
            return TransportSpec(
                kind="roce",
                congestion_control=self.control,
                congestion_settings={} if dcqcn else dict(self.settings),
                attributes={
                    "recovery": self.recovery,
                    "timeout_exponent": _TIMEOUT_EXPONENT,
                    "reorder_packets": _REORDER,
                    **dcqcn,
                },
            )
        group = hosts_per_t0(self.hosts)
        return TransportSpec(
            congestion_control=self.control,
            path_selection=self.selection,
            ev_profile={"active_per_plane": group, "backup_per_plane": 0},
        )

    # --- uet-htsim ----------------------------------------------------------------------------------------------------

    def topo(self) -> str:
        """Return the fabric as uet-htsim reads it."""
        group = hosts_per_t0(self.hosts)
        link = f"Downlink_speed_Gbps {GBPS}\nDownlink_Latency_ns {_DELAY_NS}\nSwitch_Latency_ns 0\n"
        return (
            f"Nodes {self.hosts}\nTiers 2\nPodsize {self.hosts}\n\n"
            f"Tier 0\nRadix_Down {group}\nRadix_Up {group}\nOversubscribed 1\n{link}\n"
            f"Tier 1\nRadix_Down {self.hosts // group}\n{link}"
        )

    def options(self) -> list[str]:
        """Return the other command-line options of uet-htsim."""
        senders = self.hosts if self.traffic == "whole-incast" else _GROUP_HOSTS
        most = max(1, self.size * senders * 8 // (GBPS * 1000))  # µs of an incast at line rate
        begun = round(2 * self.gap * self.flows) if self.is_poisson else 0  # µs in which all have begun
        if self.kind == "roce":
            return [
                "-nodes", str(self.hosts), "-linkspeed", str(GBPS * 1000), "-mtu", str(PAYLOAD), "-paths", str(_PATHS),
                "-q", str(_LOSSLESS_BUFFER), "-pfc_thresholds", str(_XON), str(_XOFF),
                "-end", str(20 * max(_MIN_END_US, most)), "-seed", str(self.seed), *self.htsim_options,
            ]  # fmt: skip
        return [
            "-nodes", str(self.hosts), "-linkspeed", str(GBPS * 1000), "-mtu", str(PAYLOAD + HTSIM_HEADER),
            "-q", str(_BDP), "-ecn", str(_ECN_MIN), str(_ECN_MAX), "-paths", str(_PATHS),
            "-sender_cc_algo", self.htsim_control or "nscc", "-enable_accurate_base_rtt",
            "-end", str(max(_MIN_END_US, 20 * most, begun)), "-seed", str(self.seed),
            *(["-load_balancing_algo", self.htsim_balancing] if self.htsim_balancing else []), *self.htsim_options,
        ]  # fmt: skip
