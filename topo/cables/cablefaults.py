"""Faults of a cable as nftables rules: which packets, and the action on them. Text only, nothing is run here.

A fault on one direction of a cable becomes two chains and two counters, so that faults add up and are counted one by
one:

    m<id>  the packets meant: one rule per alternative, `goto x<id>`
    x<id>  counter s<id> (seen), then the action with counter n<id> (hit)

Offsets count from the outer IPv6 header (`@nh`) in bits: destination address 192, uSIDs from 224; the inner IPv6
header begins at 320, the inner UDP header at 640. They hold for the lab's IPv6-in-IPv6 packets without extension
headers.
"""

import random
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from mrclab.topo import srv6
from mrclab.topo.srv6 import USID_BITS, USIDS_PER_ADDRESS

Direction = Literal["both", "up", "down"]  # up: from the lower end of a cable (NIC, T0) to the upper

_SRV6 = "ether type ip6 @nh,48,8 41"  # IPv6 in IPv6
_USID_AREA = 224
_INNER_LABEL = 336  # its low 16 bits
_INNER_SOURCE_PORT = 640
_PPM = 1_000_000
_MAX_COUNT = 2**32 - 1
LONG_CYCLE = 2**20  # packets; a longer one only for tiny rates
_FEW_LOSSES = 100  # from here on whole losses of such a cycle are within 0.5 % of the rate


class Match(NamedTuple):
    """Packets that a fault concerns; the empty match is every packet.

    `usids`: the uSID is still ahead in the destination address. `evs`: whole EVs. `paths`: (plane, uplink) of the EV,
    whatever its tag. `min_length`: frame length in bytes from which on a packet counts (data apart from
    acknowledgements). Several values of one kind are alternatives; different kinds all have to hold.
    """

    usids: tuple[int, ...] = ()
    evs: tuple[int, ...] = ()
    paths: tuple[tuple[int, int], ...] = ()
    min_length: int = 0

    def rules(self) -> Iterator[str]:
        """One nft expression per alternative."""
        length = f"meta length >= {self.min_length} " if self.min_length else ""
        for by_usid in self._usid_alternatives():
            for by_ev in self._ev_alternatives():
                expression = " ".join(part for part in (by_usid, by_ev) if part)
                yield f"{length}{_SRV6 + ' ' if expression else ''}{expression}".strip()

    def _usid_alternatives(self) -> list[str]:
        if not self.usids:
            return [""]
        listed = ", ".join(f"{usid:#06x}" for usid in sorted(set(self.usids)))
        starts = (_USID_AREA + slot * USID_BITS for slot in range(USIDS_PER_ADDRESS))
        return [f"@nh,{start},16 {{ {listed} }}" for start in starts]

    def _ev_alternatives(self) -> list[str]:
        if not (self.evs or self.paths):
            return [""]
        path_mask = srv6.ev(srv6.MAX_PLANE, srv6.MAX_INDEX, 0)
        whole = [_ev_expression(ev, 0xFFFF_FFFF) for ev in self.evs]
        return whole + [_ev_expression(srv6.ev(plane, uplink, 0), path_mask) for plane, uplink in self.paths]


def _ev_expression(ev: int, mask: int) -> str:
    """Compare the bits of an EV under a mask, wherever `srv6.ev_to_wire` puts them."""
    (port, label), (port_mask, label_mask) = srv6.ev_to_wire(ev), srv6.ev_to_wire(mask)
    parts = []
    for start, value, bits in ((_INNER_LABEL, label, label_mask), (_INNER_SOURCE_PORT, port, port_mask)):
        if bits == 0xFFFF:
            parts.append(f"@nh,{start},16 {value:#06x}")
        elif bits:
            parts.append(f"@nh,{start},16 & {bits:#06x} == {value:#06x}")
    return " ".join(parts)


class Drop:
    """Lose every packet that matches; carrier stays up."""

    def rule(self, counter: str) -> str:
        """The action as an nft rule."""
        return f"{counter} drop"


class Loss:
    """Lose each packet with a probability (0…1, resolution one in a million), drawn by the kernel: not repeatable."""

    __slots__ = ("probability",)

    def __init__(self, probability: float) -> None:
        _check_probability(probability)
        self.probability = probability

    def rule(self, counter: str) -> str:
        """The action as an nft rule."""
        return f"{_chance(self.probability)}{counter} drop"


class SeededLoss:
    """Lose each packet with a probability, drawn in advance from a seed: the same packet numbers every time.

    `draws` losses are drawn, over a cycle of packets that then repeats. Both directions of a cable draw the same
    numbers, each counting its own packets.
    """

    __slots__ = ("draws", "probability", "seed")

    def __init__(self, probability: float, seed: str, draws: int = 2048) -> None:
        _check_probability(probability)
        if draws < 1:
            raise ValueError(f"a seeded loss needs at least one draw, not {draws}")
        self.probability = probability
        self.seed = seed
        self.draws = draws  # each takes the kernel some hundred bytes

    def numbers(self) -> tuple[int, tuple[int, ...]]:
        """The cycle in packets, and which of it are lost, counted from 0."""
        cycle = min(LONG_CYCLE, max(2, round(self.draws / self.probability))) if self.probability else 2
        lost = round(cycle * self.probability)
        if self.probability and lost < _FEW_LOSSES and cycle == LONG_CYCLE:
            lost = max(lost, 1)
            cycle = min(round(lost / self.probability), _MAX_COUNT)
        return cycle, tuple(sorted(random.Random(self.seed).sample(range(cycle), lost)))

    def rule(self, counter: str) -> str:
        """The action as an nft rule."""
        return LossCycle(*self.numbers()).rule(counter)


class LossCycle:
    """Lose the packets of these numbers, counted from 0, in each cycle: repeatable."""

    __slots__ = ("lost", "packets")

    def __init__(self, packets: int, lost: tuple[int, ...]) -> None:
        if packets < 1 or not all(0 <= number < packets for number in lost):
            raise ValueError(f"a cycle of {packets} packets cannot lose those of other numbers")
        self.packets, self.lost = packets, lost

    def rule(self, counter: str) -> str:
        """The action as an nft rule."""
        if not self.lost:
            return f"numgen inc mod {self.packets} >= {self.packets} {counter} drop"
        if len(self.lost) == self.packets:
            return f"{counter} drop"
        listed = ", ".join(map(str, self.lost))
        return f"numgen inc mod {self.packets} {listed if len(self.lost) == 1 else f'{{ {listed} }}'} {counter} drop"


def every_nth(n: int, first: int = 1) -> LossCycle:
    """Lose packets number first, first + n, first + 2n… counted from 1: repeatable."""
    if not 1 <= first <= n:
        raise ValueError(f"every n-th packet needs 1 ≤ first ≤ n, not first {first} and n {n}")
    return LossCycle(n, (first - 1,))


def exactly(numbers: Iterable[int]) -> LossCycle:
    """Lose exactly these packets, counted from 1 from the moment the fault begins: repeatable."""
    lost = sorted(set(numbers))
    if not lost or lost[0] < 1:
        raise ValueError("a list of packets to lose needs numbers from 1 on")
    return LossCycle(_MAX_COUNT, tuple(number - 1 for number in lost))


class Corrupt:
    """Flip bits of one byte with a probability. `offset` is in bytes from the outer IPv6 header."""

    __slots__ = ("flip", "offset", "probability")

    def __init__(self, probability: float = 1.0, offset: int = 160, flip: int = 0x55) -> None:
        _check_probability(probability)
        if not (1 <= flip <= 0xFF and 0 <= offset < 2**13):
            raise ValueError(f"corruption needs a byte offset of 0…8191 and bits 1…255, not {offset} and {flip}")
        self.probability = probability
        self.offset = offset  # inside an MRC payload
        self.flip = flip

    def rule(self, counter: str) -> str:
        """The action as an nft rule."""
        byte = f"@nh,{self.offset * 8},8"
        return f"{_chance(self.probability)}{counter} {byte} set {byte} ^ {self.flip:#04x}"


class RateLimit:
    """Drop packets beyond a rate (a policer: nothing is queued)."""

    __slots__ = ("burst", "packets_per_second")

    def __init__(self, packets_per_second: int, burst: int = 5) -> None:
        if packets_per_second < 1 or burst < 1:
            raise ValueError("a rate limit needs a rate and a burst of at least one packet")
        self.packets_per_second, self.burst = packets_per_second, burst

    def rule(self, counter: str) -> str:
        """The action as an nft rule."""
        return f"limit rate over {self.packets_per_second}/second burst {self.burst} packets {counter} drop"


class LoadLoss:
    """Lose packets by chance, none up to a load `above`, from there on in proportion, `rate` of them at full load.

    Load is the mean over a `window` in seconds, as a share of `bits_per_second`. Virtual time only.
    """

    __slots__ = ("above", "bits_per_second", "rate", "seed", "window")

    def __init__(self, rate: float, above: float, bits_per_second: float, window: float, seed: str) -> None:
        self.rate, self.above, self.bits_per_second, self.window, self.seed = rate, above, bits_per_second, window, seed

    def rule(self, counter: str) -> str:
        """Refuse: nftables cannot lose packets by load."""
        raise ValueError("nft knows no load; run it in virtual time")


Action = Drop | Loss | SeededLoss | LossCycle | Corrupt | RateLimit | LoadLoss

EVERY_PACKET = Match()


def install(table: str, name: str, match: Match, action: Action) -> str:
    """Lines of an nft batch that make the chains and counters of one fault in one direction."""
    lines = [f"add counter {table} s{name}", f"add counter {table} n{name}"]
    lines += [f"add chain {table} x{name}", f"add chain {table} m{name}"]
    lines.append(f'add rule {table} x{name} counter name "s{name}"')
    lines.append(f"add rule {table} x{name} " + action.rule(f'counter name "n{name}"'))
    lines += [f"add rule {table} m{name} {expression} goto x{name}" for expression in match.rules()]
    return "\n".join(lines) + "\n"


def uninstall(table: str, name: str) -> str:
    """Return the lines of an nft batch that remove the chains of `install`, once nothing jumps to them."""
    lines = [f"delete chain {table} m{name}", f"delete chain {table} x{name}"]
    return "\n".join([*lines, f"delete counter {table} s{name}", f"delete counter {table} n{name}"]) + "\n"


def _chance(probability: float) -> str:
    """Expression that holds for a share of the packets; nothing where it would always hold."""
    limit = round(probability * _PPM)
    return f"numgen random mod {_PPM} < {limit} " if limit < _PPM else ""


def _check_probability(value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"a probability is 0…1, not {value}")
