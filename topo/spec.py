"""Fabric specification: sizes, link, queues. Validated here, with the field named; nothing is built.

`FabricSpec.model_validate(data)` raises pydantic's ValidationError; `explain` turns one into sentences with a remedy,
and `load` does both and raises `SpecError`.
"""

import functools
from collections.abc import Mapping
from operator import eq, is_, not_
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from mrclab.topo.errors import TopoError
from mrclab.topo.input.exacttypes import ExactTypes
from mrclab.topo.input.quantities import BitRate, Delay, Duration
from mrclab.topo.input.sentences import mistake, nearest, shown
from mrclab.topo.links import LINK_TIERS, LinkRule, LinkTier, LinkTimes
from mrclab.topo.numbers import CPU_PORT, FULL_HEADER_BYTES, MTU_HEADROOM, SACK_BYTES
from mrclab.topo.srv6 import MAX_INDEX, MAX_PLANE

MAX_INTERFACE_MTU = 9216  # bytes; jumbo frames as switches carry them
_PROCESS_LATENCY, _CHIP_LATENCY = 300e-6, 500e-9  # seconds a switch takes: a process of the lab, and a switch chip
_INTERACTIVE_RTT = 0.02  # seconds; base RTT of fabrics at interactive rates
_MANY_HOSTS = 4096  # from which on hosts are sampled less often
_PAUSE_BYTES = 64
SAMPLE_INTERVAL = 0.1  # seconds between two samples of a host, interactively
CONTROL_DEPTH = 256  # packets; that queue is not rate limited, so this only bounds a burst


class SpecError(TopoError, ValueError):
    """A fabric description that cannot be built; its text names every field at fault and the remedy."""


class _Strict(ExactTypes):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)


class LinkSpec(_Strict):
    """Every cable of the fabric."""

    rate_pps: int = Field(default=500, ge=1, le=200_000_000, description="full-size packets per second and direction")
    rate: BitRate | None = Field(
        default=None,
        ge=1e3,
        le=1.6e12,
        description="bits per second and direction, such as 100 Gb/s, in place of rate_pps: packets then take a link"
        " for their bytes",
    )
    delay: Delay = Field(default=0.002, ge=0, le=10, description="seconds one way; applied by the receiving NIC")

    def at_mtu(self, path_mtu: int) -> "LinkSpec":
        """Return a copy with the packet rate that follows from a rate in bits."""
        if self.rate is None:
            return self
        packets = max(1, round(self.rate / 8 / (path_mtu + FULL_HEADER_BYTES)))
        if "rate_pps" in self.model_fields_set and self.rate_pps != packets:
            raise ValueError(
                f"link.rate {self.rate / 1e9:g} Gb/s is {packets} packets/s at this path_mtu, not link.rate_pps"
                f" {self.rate_pps}; leave one of them out"
            )
        return self.model_copy(update={"rate_pps": packets})


_IS_ONE, _IS_NONE = functools.partial(eq, 1), functools.partial(is_, None)


class PfcSpec(_Strict):
    """Priority flow control of data (IEEE 802.1Qbb) at every port, in bytes."""

    xoff: int = Field(
        default=0, ge=0, description="buffered bytes at which an ingress port pauses its peer; default: queue.alpha"
    )
    xon: int = Field(
        default=0, ge=0, description="buffered bytes at which it resumes its peer; default: two packets below"
    )
    headroom: int = Field(
        default=0, ge=0, description="of each port, for data in flight when the pause is sent; default: that"
    )
    watchdog: Duration | None = Field(
        default=None, gt=0, le=10, description="drop data that a pause has blocked for this long; default: never"
    )
    watchdog_restoration: Duration | None = Field(
        default=None, gt=0, le=60, description="time without a pause after which it stops dropping; default: at once"
    )
    watchdog_action: Literal["drop", "forward"] = Field(
        default="drop", description="`forward`: in place of dropping, the port sends in spite of pauses"
    )

    @model_validator(mode="after")
    def _has_effect(self) -> "PfcSpec":
        if self.watchdog is None:
            for name, given in (
                ("watchdog_restoration", self.watchdog_restoration is not None),
                ("watchdog_action", self.watchdog_action != "drop"),
            ):
                if given:
                    raise ValueError(f"{name} has no effect without watchdog; give watchdog, or leave it out")
        if self.xoff and self.xon > self.xoff:
            raise ValueError(f"xon {self.xon} exceeds xoff {self.xoff}; lower xon or raise xoff")
        return self


def _true_or_false(value: object) -> object:
    """`true` → all defaults, `false` → none."""
    return {} if value is True else None if value is False else value


_CHIP_BUFFER = 35e-6
"""Seconds of all its ports' rate that a switch chip's buffer holds: 113 MB at 25.6 Tb/s, a Tomahawk 4."""


class QueueSpec(_Strict):
    """Queues of a switch port, in packets. 0: computed from the bandwidth-delay product.

    Where link.rate is given they are as many bytes: those of full packets, of SACKs for control_depth.
    """

    depth: int = Field(default=0, ge=0, description="data queue; tail drop beyond; default depth_bdps × BDP")
    depth_bdps: float = Field(default=4.0, ge=1, le=1000, description="depth in BDPs where it is not given in packets")
    control_depth: int = Field(default=CONTROL_DEPTH, ge=1, le=100_000, description="control and trimmed packets")
    trim_threshold: int = Field(default=0, ge=0, description="trim at this data queue depth; default 1 × BDP")
    last_hop_trim_threshold: int = Field(default=0, ge=0, description="the same towards a host; default 1.5 × BDP")
    ecn_min: int = Field(default=0, ge=0, description="no ECN mark below; default 0.2 × BDP")
    ecn_max: int = Field(default=0, ge=0, description="every packet marked above; default 0.8 × BDP")
    buffer: int = Field(
        default=0,
        ge=0,
        le=1 << 40,
        exclude_if=not_,
        description="bytes that all ports of a switch share, in place of depth; default: each port has its own."
        " Virtual time with link.rate only",
    )
    alpha: float = Field(
        default=1.0,
        gt=0,
        le=1024,
        exclude_if=_IS_ONE,
        description="a queue may hold this many times the free buffer",
    )
    pfc: Annotated[PfcSpec | None, BeforeValidator(_true_or_false)] = Field(
        default=None,
        exclude_if=not_,
        description="pause senders, not drop: true, or what differs from the defaults; buffer then is that of a chip",
    )

    def resolved(self, bdp: float) -> "QueueSpec":
        """Return a copy with every 0 replaced by its default for a bandwidth-delay product of `bdp` packets.

        Thresholds follow the proportions of UET's NSCC; the depth keeps tail drops, which look like a path failure,
        away from trimming. Floors keep ecn_min < ecn_max < trim ≤ last hop < depth where a BDP is few packets.
        """
        ecn_min = self.ecn_min or max(2, round(0.2 * bdp))
        ecn_max = self.ecn_max or max(ecn_min + 2, round(0.8 * bdp))
        trim = self.trim_threshold or max(ecn_max + 1, round(bdp))
        last = self.last_hop_trim_threshold or max(trim, round(1.5 * bdp))
        depth = self.depth or max(32, 2 * last, round(self.depth_bdps * bdp))
        return self.model_copy(
            update={
                "depth": depth,
                "trim_threshold": trim,
                "last_hop_trim_threshold": last,
                "ecn_min": ecn_min,
                "ecn_max": ecn_max,
            }
        )


class FabricSpec(_Strict):
    """A multi-plane Clos: `planes` times (`t0s` T0 + `t1s` T1), every host with one NIC port in each plane."""

    planes: int = Field(default=4, ge=1, le=MAX_PLANE, description="planes; as many ports has each NIC")
    t0s: int = Field(default=2, ge=1, le=MAX_INDEX, description="T0 switches per plane; as many T0 groups")
    t1s: int = Field(
        default=2, ge=1, le=MAX_INDEX, description="T1 switches per plane, or per pod; as many uplinks has each T0"
    )
    pods: int = Field(
        default=1,
        ge=1,
        le=MAX_INDEX,
        exclude_if=_IS_ONE,
        description="pods of each plane, with a third tier above them",
    )
    t2s: int = Field(
        default=0,
        ge=0,
        le=MAX_INDEX,
        exclude_if=not_,
        description="T2 switches per plane, with pods; default t1s",
    )
    rails: int = Field(
        default=1,
        ge=1,
        le=MAX_INDEX,
        exclude_if=_IS_ONE,
        description="NICs of each server, which are hosts here: NIC i of a server is on the i-th T0 of its block",
    )
    hosts_per_t0: int = Field(default=2, ge=1, le=MAX_INDEX, description="hosts per T0 group; downlinks of each T0")
    path_mtu: int = Field(default=4096, ge=256, le=MAX_INTERFACE_MTU - MTU_HEADROOM, description="payload bytes")
    link: LinkSpec = LinkSpec.model_construct()  # its validator is built where one is given
    links: tuple[LinkRule, ...] = Field(
        default=(),
        exclude_if=not_,
        description="links that are not as link says, by tier, plane or cable; later ones win. With link.rate only",
    )
    queue: QueueSpec = QueueSpec.model_construct()
    trimming: bool = True
    last_hop_ecn: bool = Field(default=False, description="T0 ports towards hosts mark ECN as those between switches")
    switch_latency: Delay | None = Field(
        default=None,
        ge=0,
        le=1,
        description="seconds that a switch takes for a packet on its way, part of the base RTT; default 300us, which is"
        " the delay of a switch process, or 500ns where link.rate is given",
    )
    nic_latency: Delay = Field(
        default=0.0,
        ge=0,
        le=1,
        description="seconds that a NIC and the host behind it take for a packet, sending and receiving alike; part of"
        " the base RTT. Virtual time only",
    )
    nic_jitter: Delay = Field(
        default=0.0,
        ge=0,
        le=1,
        exclude_if=not_,
        description="seconds that a NIC and the host behind it take longer at most for a packet that arrives: drawn"
        " evenly for each, from the seed; packets stay in order. Not part of the base RTT. Virtual time only",
    )
    sample_every: Duration | None = Field(
        default=None,
        ge=1e-7,
        le=SAMPLE_INTERVAL,
        exclude_if=_IS_NONE,
        description="time between two samples of a host, which makes those of queues as much closer (2.5 times it);"
        " default: 0.1 s at interactive rates, else some round trips",
    )
    load_balancing: Literal["ecmp", "spray", "adaptive", "flowlet"] = Field(
        default="ecmp",
        exclude_if=functools.partial(eq, "ecmp"),
        description="how T0s choose the uplink of data packets. ecmp: a hash for RoCEv2, and MRC's sender chooses;"
        " spray, adaptive: packet by packet, of either; flowlet: of RoCEv2. Virtual time only",
    )
    flowlet_gap: Duration | None = Field(
        default=None,
        ge=0,
        le=10,
        exclude_if=_IS_NONE,
        description="a flow that pauses for longer takes another uplink where load_balancing is flowlet; default: half"
        " of the longest base RTT",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "FabricSpec":
        object.__setattr__(self, "link", self.link.at_mtu(self.path_mtu))  # frozen for users; completed here once
        if self.switch_latency is None:
            object.__setattr__(self, "switch_latency", _PROCESS_LATENCY if self.link.rate is None else _CHIP_LATENCY)
        self._check_tiers()
        self._check_links()
        queue = self.queue.resolved(self.bdp_packets)
        _check_queue(queue)
        object.__setattr__(self, "queue", queue)
        self._check_buffer()
        if self.flowlet_gap is not None and self.load_balancing != "flowlet":
            raise ValueError(f"flowlet_gap has no effect with load_balancing {self.load_balancing}; leave it out")
        return self

    def _check_tiers(self) -> None:
        if self.pods == 1 and self.t2s:
            raise ValueError(f"t2s {self.t2s} join pods, and there is one; give pods, or leave t2s out")
        if self.t0s // self.pods % self.rails:
            of = "a pod" if self.pods > 1 else "the fabric"
            raise ValueError(
                f"rails {self.rails} need as many T0s, or a multiple, and {of} has {self.t0s // self.pods}; change t0s"
            )
        if self.pods == 1:
            return
        if self.t0s % self.pods:
            raise ValueError(f"t0s {self.t0s} do not make {self.pods} pods of as many; give a multiple of pods")
        if not self.t2s:
            object.__setattr__(self, "t2s", self.t1s)
        if self.t2s % self.t1s:
            raise ValueError(
                f"t2s {self.t2s} cannot be shared out among {self.t1s} T1s of a pod; give a multiple of t1s"
            )
        if self.pods * self.t1s > MAX_INDEX:
            raise ValueError(f"{self.pods} pods of {self.t1s} T1s are more than {MAX_INDEX}; lower pods or t1s")

    @property
    def t2s_per_t1(self) -> int:
        """T2s above each T1; 0 in two tiers."""
        return self.t2s // self.t1s

    @property
    def tiers(self) -> int:
        """Tiers of switches, 2 or 3."""
        return 3 if self.pods > 1 else 2

    def _check_links(self) -> None:
        if self.links and self.link.rate is None:
            raise ValueError("links have rates in bits, and link counts packets: give link.rate, such as 400 Gb/s")
        for number, rule in enumerate(self.links, 1):
            if absent := [plane for plane in rule.planes or () if not 1 <= plane <= self.planes]:
                raise ValueError(f"links.{number}.planes: there is no plane {absent[0]}, but 1 to {self.planes}")

    def times(self, tier: LinkTier, plane: int) -> LinkTimes:
        """Rate and delay of a tier's cables in a plane, single cables that differ apart; with a rate in bits only."""
        assert self.link.rate is not None
        found = LinkTimes(self.link.rate, self.link.delay)
        for rule in self.links:
            if rule.holds(tier, plane):
                found = rule.apply(found)
        return found

    @property
    def line_pps(self) -> float:
        """Full-size packets per second that all NIC ports of a host take together."""
        return sum(self.port_pps(plane) for plane in range(1, self.planes + 1))

    def port_pps(self, plane: int, tier: LinkTier = "nic") -> float:
        """Full-size packets per second of a NIC port, or of a cable between switches."""
        if not self.links or self.link.rate is None:
            return self.link.rate_pps
        return self.link.rate_pps * self.times(tier, plane).rate / self.link.rate

    @property
    def worst(self) -> LinkTimes:
        """The highest rate and the longest delay of all tiers."""
        assert self.link.rate is not None
        every = [self.times(tier, plane) for tier in LINK_TIERS for plane in range(1, self.planes + 1)]
        single = [rule.apply(LinkTimes(0.0, 0.0)) for rule in self.links if rule.cables]
        return LinkTimes(max(one.rate for one in every + single), max(one.delay for one in every + single))

    def _check_buffer(self) -> None:
        queue = self.queue
        if not queue.buffer and queue.pfc is None:
            if queue.alpha != 1:
                raise ValueError("queue.alpha has no effect without queue.buffer or queue.pfc; leave it out")
            return
        if self.link.rate is None:
            raise ValueError("queue.buffer is bytes, and links count packets: give link.rate, for example 400 Gb/s")
        full = self.path_mtu + FULL_HEADER_BYTES
        ports = max(self.hosts_per_t0 + self.t1s, self.t0s // self.pods + self.t2s_per_t1, self.pods)
        least = ports * self.headroom + 4 * full
        if not queue.buffer:
            chip = round(_CHIP_BUFFER * ports * self.worst.rate / 8)
            object.__setattr__(self, "queue", queue.model_copy(update={"buffer": max(chip, 2 * least)}))
            return
        if queue.buffer < least:
            raise ValueError(
                f"queue.buffer {queue.buffer} is too little for {ports} ports with {self.headroom} bytes of headroom"
                f" and four packets; give {least} at least"
            )

    @property
    def headroom(self) -> int:
        """Bytes of a port for data that arrives after it paused its peer; 0 without PFC.

        Default: the bytes that a link carries until a pause arrives behind a frame in transmission and takes effect.
        """
        pfc = self.queue.pfc
        if pfc is None or self.link.rate is None:
            return 0
        in_flight = self.worst.rate / 8 * (2 * self.worst.delay + self.latency + self.nic_latency)
        return pfc.headroom or round(in_flight) + 3 * (self.path_mtu + FULL_HEADER_BYTES) + _PAUSE_BYTES

    @property
    def beyond_p4(self) -> str:
        """Return why the P4 program cannot serve this many ports; empty where it can."""
        most = CPU_PORT - 1  # v1model's port numbers have nine bits, and the last two are taken
        if self.hosts_per_t0 + self.t1s > most:
            what = f"hosts_per_t0 {self.hosts_per_t0} and t1s {self.t1s} together exceed the {most} ports of a T0"
        elif self.t0s // self.pods + self.t2s_per_t1 > most:
            what = f"t0s {self.t0s} exceed the {most} ports of a T1"
        else:
            return ""
        return f"{what} on the wire; lower them, or run it with --world sim"

    @property
    def bdp_packets(self) -> float:
        """Bandwidth-delay product of one plane on the longest path, in full-size packets."""
        return self.link.rate_pps * self.base_rtt(self.longest)

    @property
    def longest(self) -> int:
        """Links between the hosts that are furthest apart."""
        return 6 if self.pods > 1 else 4 if self.t0s > 1 else 2

    @property
    def latency(self) -> float:
        """Seconds that a switch takes for a packet."""
        assert self.switch_latency is not None
        return self.switch_latency

    def base_rtt(self, links: int) -> float:
        """Seconds over `links` links and back on an idle fabric, with the delays of NICs at both ends.

        Of the slowest plane, single cables that differ apart.

        At a rate in bits, for a full packet and its SACK, with the delays of switches and serialization delays;
        else without, since switches and hosts then are processes with delays of their own.
        """
        if self.links:
            return max(self.plane_rtt(links, plane) for plane in range(1, self.planes + 1))
        there_and_back = 2 * links * self.link.delay + 4 * self.nic_latency
        if self.link.rate is None:
            return there_and_back or 1 / self.link.rate_pps  # without any delay, the time of one packet
        bits = 8 * (self.path_mtu + FULL_HEADER_BYTES + SACK_BYTES)
        return there_and_back + 2 * (links - 1) * self.latency + links * bits / self.link.rate

    def plane_rtt(self, links: int, plane: int) -> float:
        """`base_rtt` of one plane."""
        if not self.links:
            return self.base_rtt(links)
        bits = 8 * (self.path_mtu + FULL_HEADER_BYTES + SACK_BYTES)
        there_and_back = sum(2 * one.delay + bits / one.rate for one in self.links_between(links, plane))
        return 4 * self.nic_latency + 2 * (links - 1) * self.latency + there_and_back

    def tier_pps(self, tier: LinkTier, plane: int) -> float:
        """Full-size packets per second of a NIC port, of all uplinks of a T0 (t0-t1), or of a pod (t1-t2)."""
        return self.port_pps(plane, tier) * {"nic": 1, "t0-t1": self.t1s, "t1-t2": self.t2s}[tier]

    def links_between(self, links: int, plane: int) -> list[LinkTimes]:
        """The links between two hosts of a plane, as many as there are between them."""
        up = [self.times(tier, plane) for tier in LINK_TIERS[: links // 2]]
        return [*up, *reversed(up)]

    def byte_time(self, links: int) -> float:
        """Serialization delay of a byte on `links` of the slowest plane, seconds; 0 where links count packets."""
        if self.link.rate is None:
            return 0.0
        if not self.links:
            return 8 * links / self.link.rate
        return max(self.plane_byte_time(links, plane) for plane in range(1, self.planes + 1))

    def plane_byte_time(self, links: int, plane: int) -> float:
        """`byte_time` of one plane."""
        return sum(8 / one.rate for one in self.links_between(links, plane)) if self.links else self.byte_time(links)

    @property
    def gap(self) -> float:
        """Seconds of a flow's pause after which a switch that balances flowlets chooses again."""
        return self.base_rtt(self.longest) / 2 if self.flowlet_gap is None else self.flowlet_gap

    @property
    def time_scale(self) -> float:
        """Time-scale factor, 1 or less: periodic work runs at this fraction of its interactive interval."""
        return 1.0 if self.link.rate is None else min(1.0, self.base_rtt(self.longest) / _INTERACTIVE_RTT)

    @property
    def display_scale(self) -> float:
        """Time-scale factor of every host's periodic work for displays: slower with very many hosts."""
        if self.sample_every is not None:
            return self.sample_every / SAMPLE_INTERVAL
        return min(1.0, self.time_scale * max(1.0, self.t0s * self.hosts_per_t0 / _MANY_HOSTS))

    @property
    def telemetry_scale(self) -> float:
        """Time-scale factor of the controller's telemetry: slower where `sample_every` asks for fewer samples."""
        return self.time_scale if self.sample_every is None else max(self.time_scale, self.display_scale)

    @property
    def sample_interval(self) -> float:
        """Seconds between two samples of a host."""
        return SAMPLE_INTERVAL * self.display_scale

    @property
    def quiet(self) -> float:
        """Seconds after which all reports of a run are in: each host's last sample, and dead processes.

        Three sampling intervals; with very many hosts, which are sampled less often, one of those and two shorter ones.
        """
        return SAMPLE_INTERVAL * (self.display_scale + 2 * self.time_scale)

    @property
    def interface_mtu(self) -> int:
        """MTU of every port, bytes."""
        return self.path_mtu + MTU_HEADROOM


def load(data: Mapping[str, Any]) -> FabricSpec:
    """Validate a description; SpecError lists every mistake."""
    try:
        return FabricSpec.model_validate(data)
    except ValidationError as error:
        raise SpecError("; ".join(explain(error, FabricSpec, "fabric"))) from None


def explain(error: ValidationError, model: type[BaseModel], root: str) -> list[str]:
    """Return one sentence per mistake: the field from `root` down, the value given, and a valid one."""
    return [_sentence(item, model, root) for item in error.errors(include_url=False)]


def _sentence(item: Any, model: type[BaseModel], root: str) -> str:
    where = ".".join(str(part) for part in (root, *item["loc"]))
    if item["type"] == "extra_forbidden":
        known = _fields_at(model, item["loc"][:-1])
        return f"{where} is not a known field; {nearest(str(item['loc'][-1]), known)}"
    message = mistake(item)
    given = item.get("input")
    got = f" (got {shown(given)})" if item["loc"] and isinstance(given, (str, int, float, bool, type(None))) else ""
    return f"{where}: {message[:1].lower()}{message[1:]}{got}"


def _fields_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Names that are valid at a place of a nested model; empty where the place is no model."""
    for part in path:
        field = model.model_fields.get(str(part))
        inner = field.annotation if field else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        model = inner
    return [field.alias or name for name, field in model.model_fields.items()]


def _check_queue(queue: QueueSpec) -> None:
    order = ("ecn_min", "ecn_max", "trim_threshold", "last_hop_trim_threshold", "depth")
    strict = {("ecn_min", "ecn_max"), ("last_hop_trim_threshold", "depth")}
    for low, high in (order[:2], order[2:4], order[3:5], (order[2], order[4]), (order[1], order[4])):
        a, b = getattr(queue, low), getattr(queue, high)
        if a > b or (a == b and (low, high) in strict):
            raise ValueError(f"queue.{low} {a} must be below queue.{high} {b}; raise {high} or lower {low}")
