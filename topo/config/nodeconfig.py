"""Node config: one host's view of the fabric, written by the controller and read by the host agent.

A host never sees the fabric model. Everything it needs reaches it in `node/<host>.json`, whose schema is this module:
its own ports, one SRv6 address template per destination T0 group, EV profiles, transport defaults and the denylist.
Facts: templates and EVs as in arXiv 2605.04333 §2.3 (Fig. 3); the profile's words are those of the OCP MRC headers.
Seconds are floats, sizes are bytes, rates are full-size packets per second.
"""

import ipaddress
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator

from mrclab.topo import srv6
from mrclab.topo.economy import LazySequence
from mrclab.topo.input import files, sentences
from mrclab.topo.srv6 import MAX_INDEX, MAX_PLANE

MPR_UNIT = 128  # PSNs per unit of MPR
ACK_TIMEOUT_UNIT = 1.024e-6  # seconds; the local ACK timeout is this × 2^t

Scope = Literal["t0-local", "cross-t1", "cross-t2"]
Mac = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")]
Positive = Annotated[int, Field(ge=1)]
Plane = Annotated[int, Field(ge=1, le=MAX_PLANE)]
UsidIndex = Annotated[int, Field(ge=1, le=MAX_INDEX)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class NodeConfigError(ValueError):
    """A node config file that cannot be read or does not fit the schema; the text is one sentence with the remedy."""


class _Part(BaseModel):
    """Base of every section: immutable, and an unknown field is an error."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


def _ipv6(value: str) -> str:
    """`value` in the canonical spelling of RFC 5952; ValueError if it is not an IPv6 address."""
    try:
        return str(ipaddress.IPv6Address(value))
    except ipaddress.AddressValueError as error:
        raise ValueError(f"{value!r} is not an IPv6 address ({error})") from None


class HostSection(_Part):
    """Identity of this host."""

    name: str
    number: Positive
    group: UsidIndex  # number of the T0 it is attached to, the same in every plane
    downlink: UsidIndex  # its port on that T0, the same in every plane
    address: str  # inner IPv6 address, also the outer source address

    _address = field_validator("address")(_ipv6)


class LinkSection(_Part):
    """One link of the fabric; ports and templates have their differences from it."""

    rate_pps: Annotated[float, Field(gt=0, allow_inf_nan=False)]  # full-size packets per second
    delay: Seconds  # propagation, one way, per link: applied by the receiving NIC's delay line
    rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None  # bits per second, if configured
    time_scale: Annotated[float, Field(gt=0, le=1)] = 1.0  # of the intervals of periodic work


class NicPortConfig(_Part):
    """One NIC port and the T0 port at the other end of its cable."""

    number: Positive
    name: str  # the interface, e.g. h3-p1
    plane: Plane
    mac: Mac
    peer_switch: str
    peer_port: Positive
    peer_mac: Mac
    rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None  # bits per second, where not the link's


class Template(_Part):
    """Template of one T0 group: an SRv6 destination address with plane, T1 and downlink still open.

    t0-local: `locator | T0 | downlink`; cross-t1: `locator | T0 src | T1 | T0 dst | downlink`; cross-t2:
    `locator | T0 src | T1 | T2 | T1 | T0 dst | downlink`. The plane field of every uSID is 0, and so are the indices of
    the T2 and of the downlink; T1 indices are those of a pod's first T1. `topo.srv6` adds the numbers.
    """

    group: UsidIndex
    prefix: str  # inner addresses of the group, /64
    scope: Scope
    address: str
    uplinks: dict[Plane, tuple[UsidIndex, ...]]  # per plane the T0 uplinks that lead there; empty tuples where t0-local
    base_rtt: Seconds  # of one full-size packet and its SACK on an idle network
    links: Positive  # cables crossed one way
    fan: Annotated[int, Field(ge=0)] = 0  # cross-t2: T2s above each T1, and an uplink is a T2's number
    byte_time: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = (
        None  # seconds on all of them, if they differ
    )

    _address = field_validator("address")(_ipv6)

    @field_validator("prefix")
    @classmethod
    def _prefix(cls, value: str) -> str:
        try:
            return str(ipaddress.IPv6Network(value))
        except ValueError as error:
            raise ValueError(f"{value!r} is not an IPv6 prefix ({error})") from None

    @model_validator(mode="after")
    def _uplinks_fit_scope(self) -> "Template":
        for plane, uplinks in self.uplinks.items():
            if bool(uplinks) != (self.scope != "t0-local"):
                raise ValueError(f"a {self.scope} template cannot have uplinks {list(uplinks)} in plane {plane}")
        return self


class EvProfileConfig(_Part):
    """Settings of EVs: how many a QP draws, and when one that went ASSUMED_BAD may return.

    `active_per_plane`, `backup_per_plane` and `ev_min_active` are those of cross-T1 pairs; inside a T0 group there is
    one EV per plane, and the floor is lower in proportion.
    """

    name: str
    active_per_plane: Positive
    backup_per_plane: Annotated[int, Field(ge=0)]
    ev_min_active: Annotated[int, Field(ge=0)]  # over all planes: below it, a loss only makes an EV SKIP
    probe_interval_rtts: Annotated[float, Field(gt=0)] = 50.0  # first interval between probes of an ASSUMED_BAD EV
    probe_timeout_rtts: Annotated[float, Field(gt=0)] = 8.0  # a probe without answer after this has failed
    probe_backoff_cap: Annotated[float, Field(ge=1)] = 8.0  # the interval doubles per failure up to this × the first
    successes_needed: Positive = 3  # consecutive clean answers before the EV returns
    successes_cap: Positive = 24  # the number doubles with each failure inside refail_window, up to this
    refail_window: Seconds = 60.0
    hold_down: Seconds = 0.0  # least time an EV stays ASSUMED_BAD

    @property
    def ev_count(self) -> int:
        """EVs per plane, active and backup."""
        return self.active_per_plane + self.backup_per_plane


class DcqcnSection(_Part):
    """DCQCN of the RoCEv2 baseline, in base RTTs and shares of the line rate; docs/roce.md says why these values."""

    g: Annotated[float, Field(gt=0, le=1)] = 1 / 64  # weight of one alpha update
    cnp_interval_rtts: Annotated[float, Field(ge=0)] = 2.0  # least time between two CNPs of a QP
    alpha_period_rtts: Annotated[float, Field(gt=0)] = 2.2  # without a CNP for this long, alpha decays
    increase_period_rtts: Annotated[float, Field(gt=0)] = 3.5  # the increase timer
    byte_counter_bdps: Annotated[float, Field(gt=0)] = 4.0  # the byte counter
    fast_recovery_steps: Positive = 5
    additive_share: Annotated[float, Field(gt=0, le=1)] = 0.005
    hyper_share: Annotated[float, Field(gt=0, le=1)] = 0.025
    least_share: Annotated[float, Field(gt=0, le=1)] = 0.001  # no rate below this


class TransportSection(_Part):
    """Defaults of a QP; `create_qp` may override them."""

    kind: Literal["mrc", "roce"] = "mrc"  # which transport the host's agent runs
    mpr: Annotated[int, Field(ge=1, le=255)]  # in units of 128 PSNs, as requestor and as responder
    wimm: Positive = 128  # outstanding WRITE_WITH_IMM messages
    timeout_exponent: Annotated[int, Field(ge=0, le=24)]  # t: local ACK timeout = 1.024 µs × 2^t
    retry_linear: Annotated[int, Field(ge=0, le=7)] = 7
    retry_exponential: Annotated[int, Field(ge=0, le=25)] = 25  # 25 = without end
    sack_gen_threshold: Annotated[int, Field(ge=0)]  # bytes: a SACK goes out when more than this is unacknowledged
    # A packet is lost when one sent this much later was SACKed; where links take packets, later by one on each link.
    reorder_rtts: Annotated[float, Field(gt=0)] = 1.5
    tail_probe_rtts: Annotated[float, Field(gt=0)] = 2.0  # until a probe, without a SACK for data in flight
    timestamps: bool = True  # data packets carry a TSETH
    remap_delay: Seconds = 0.0  # between a local port going down and its EVs leaving service
    cc_profile: str = "uet-1.0-nscc"
    cc_config: dict[str, float | bool] = {}  # settings of that congestion control
    path_selection: str = "rotation"  # MRC: how the next EV of a plane is chosen
    path_config: dict[str, float | bool] = {}  # settings of that path selection
    scheduler: str = "round_robin"  # MRC: which QP sends next
    scheduler_config: dict[str, float | bool] = {}  # settings of that scheduler
    ev_profile: str = "default"
    trimming: bool  # the fabric trims, and a QP negotiates TRIM_NACK
    dynamic_mpr: bool = False  # SACKs carry the responder's MPR of the moment, its share of bitmap_units
    reorder_cap_rtts: Annotated[float, Field(gt=0)] = 6.0  # spurious retransmissions widen the time rule up to this
    same_ev_rule: bool = True  # a packet is lost when a later one on the same EV was SACKed
    # What a receiving host can take (docs/mrc-protocol.md §2.18). The first three are the host's, not a QP's.
    memory_rate: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0  # full-size packets/s; 0: all that come
    packet_buffer: Positive = 64  # packets that the NIC keeps for a slow memory
    bitmap_units: Annotated[int, Field(ge=0)] = 0  # units of 128 PSNs, beyond one per QP, for all QPs; 0: enough
    always_skip_after: Annotated[int, Field(ge=0)] = 0  # ECN marks in a row that make a SACK say ALWAYS_SKIP; 0: never
    share_path_failures: bool = False  # QPs to the same host retire a path together, and one probes it for all
    # Ablations: what MRC does, each to be switched off by itself.
    spray: bool = True  # off: one EV carries everything; the other paths of its plane are backups
    ecn_skip: bool = True  # off: neither an ECN mark nor a trim in the core makes an EV SKIP
    ecn_echo: bool = True  # off: the receiver keeps ECN marks to itself, so they steer neither paths nor window
    sack_loss: bool = True  # off: SACKs declare nothing lost, only NACKs and the local ACK timeout do
    quick_adapt: bool = True  # off: NSCC never sets its window to what was delivered
    port_status_update: bool = True  # off: peers are not notified of a port that went down
    trim_threshold: Positive  # packets queued at which a core port trims
    drop_threshold: Positive  # packets queued at which a port drops
    retry_count: Annotated[int, Field(ge=0, le=7)] = 7  # RoCE: timeouts in a row after which a QP is in error
    ack_packets: Positive = 4  # RoCE: packets per ACK request
    recovery: Literal["go_back_n", "selective_repeat"] = "go_back_n"  # RoCE: what is retransmitted after a gap
    window_bdps: Annotated[float, Field(ge=0, le=1000)] = 0.0  # RoCE: in flight at most, in BDPs of a port; 0: the MPR
    reorder_packets: Annotated[int, Field(ge=0, le=0x7FFFFF)] = 0  # RoCE: that may overtake one that is not lost
    dcqcn: DcqcnSection = DcqcnSection.model_construct()  # RoCE: the defaults of congestion control dcqcn

    @property
    def ack_timeout(self) -> float:
        """The local ACK timeout in seconds."""
        return float(ACK_TIMEOUT_UNIT * 2**self.timeout_exponent)

    @property
    def mpr_psns(self) -> int:
        """The window of PSNs, MPR × 128."""
        return self.mpr * MPR_UNIT


class MapperSection(_Part):
    """Clustermapper in the host: in every cycle one self-probe per own T0, and per own T1 path or some of them."""

    cycle: Annotated[float, Field(gt=0, allow_inf_nan=False)]  # seconds between two rounds of probes
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)]  # seconds after which a probe counts as lost
    t1s: Annotated[int, Field(ge=0)] = 0  # T1s that a cycle probes in each plane, others in the next; 0: all


class DenyRule(_Part):
    """Paths that must not be used: an EV that fits every given field is DENIED. None matches any value."""

    plane: Plane | None = None
    uplink: UsidIndex | None = None
    group: UsidIndex | None = None  # destination T0 group
    downlink: UsidIndex | None = None  # destination downlink inside `group`
    element: str  # what is at fault, e.g. t0-p1-1/t1-p1-2
    reason: str = ""

    @model_validator(mode="after")
    def _not_everything(self) -> "DenyRule":
        if self.plane is None:
            raise ValueError("a deny rule must name a plane: a rule for all planes would cut the host off")
        if self.downlink is not None and self.group is None:
            raise ValueError("a deny rule with a downlink must name the group that the downlink belongs to")
        return self

    def covers(self, plane: int, uplink: int, group: int, downlink: int) -> bool:
        """Return True if an EV (plane, uplink) to the host at (group, downlink) is denied; uplink 0: a T0-local EV."""
        return (
            self.plane in {None, plane}
            and self.uplink in {None, uplink}
            and self.group in {None, group}
            and self.downlink in {None, downlink}
        )


class NodeConfig(_Part):
    """All that one host knows. `version` grows with every change, so that an agent can tell an update from a repeat.

    In a copy of one that was validated, `templates` may be a `LazySequence`, one for each T0 group in their order, and
    `directory` any mapping.
    """

    schema_version: Literal[1] = 1
    version: Positive
    host: HostSection
    path_mtu: Annotated[int, Field(ge=256, le=9000)]  # payload bytes of a full-size packet
    link: LinkSection
    ports: Annotated[tuple[NicPortConfig, ...], Field(min_length=1)]
    templates: Annotated[tuple[Template, ...], Field(min_length=1)]
    ev_profiles: Annotated[tuple[EvProfileConfig, ...], Field(min_length=1)]
    transport: TransportSection
    mapper: MapperSection | None = None  # None: this host does not probe
    denylist: tuple[DenyRule, ...] = ()
    directory: dict[str, str] = {}  # host name -> inner address, in place of a name service

    @model_validator(mode="after")
    def _parts_fit(self) -> "NodeConfig":
        _unique("ports", [port.number for port in self.ports])
        _unique("ports (planes)", [port.plane for port in self.ports])
        _unique("templates", [template.group for template in self.templates])
        _unique("ev_profiles", [profile.name for profile in self.ev_profiles])
        if self.transport.ev_profile not in {profile.name for profile in self.ev_profiles}:
            raise ValueError(
                f"transport.ev_profile names {self.transport.ev_profile!r}, which ev_profiles does not have"
            )
        return self

    def weight(self, port: NicPortConfig) -> float:
        """Rate of a port over that of the link section."""
        return 1.0 if port.rate is None or self.link.rate is None else port.rate / self.link.rate

    @property
    def all_ports(self) -> float:
        """Rate of all ports together over that of the link section."""
        return sum(self.weight(port) for port in self.ports)

    def port(self, number: int) -> NicPortConfig:
        """NIC port `number`; KeyError if the host has none such."""
        for port in self.ports:
            if port.number == number:
                return port
        raise KeyError(f"{self.host.name} has no NIC port {number}")

    def profile(self, name: str) -> EvProfileConfig:
        """EV profile `name`; KeyError if there is no such profile."""
        for profile in self.ev_profiles:
            if profile.name == name:
                return profile
        raise KeyError(f"{self.host.name} has no EV profile {name!r}")

    def template_for(self, destination: str) -> "Template":
        """The template of the T0 group of the inner address `destination`; KeyError if there is none."""
        group = srv6.from_text(destination) - srv6.group_prefix(0) >> 64
        templates: Sequence[Template] = self.templates
        if isinstance(templates, LazySequence):
            templates = templates[group - 1 : group] if group > 0 else ()
        for template in templates:
            if template.group == group:
                return template
        raise KeyError(f"{self.host.name} has no template for {destination}")

    def uplinks(self, plane: int) -> tuple[int, ...]:
        """The T0 uplinks of this host's T0 in a plane that lead anywhere, in rising order."""
        templates = self.templates
        some = templates[:2] if isinstance(templates, LazySequence) else templates
        return tuple(sorted({uplink for template in some for uplink in template.uplinks.get(plane, ())}))

    @property
    def longest_rtt(self) -> float:
        """The base RTT to the hosts that are furthest away."""
        templates = self.templates
        some = templates[:2] if isinstance(templates, LazySequence) else templates  # one of two is another group
        return max(template.base_rtt for template in some)

    def denied(self, plane: int, uplink: int, destination: str) -> bool:
        """Return True if the denylist forbids EV (plane, uplink) towards the inner address `destination`."""
        if not self.denylist:
            return False
        group = self.template_for(destination).group
        downlink = srv6.from_text(destination) & 0xFFFF
        return any(rule.covers(plane, uplink, group, downlink) for rule in self.denylist)


def _unique(field: str, values: Sequence[int | str]) -> None:
    """Raise ValueError if `values` repeat."""
    seen: set[int | str] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{field}: {value!r} occurs more than once")
        seen.add(value)


def loads(text: str | bytes, source: str = "node config") -> "NodeConfig":
    """Parse a node config; raise NodeConfigError naming `source`, the field and its mistake."""
    try:
        return NodeConfig.model_validate_json(text)
    except ValidationError as error:
        raise NodeConfigError(f"{source}: {sentences.first(error)}; let the controller write the file again") from None


def load(path: Path) -> "NodeConfig":
    """Read a node config file; raise NodeConfigError if it is missing, unreadable or wrong."""
    try:
        text = files.read_bytes(path, 1 << 30)
    except OSError as error:
        raise NodeConfigError(f"{path}: {error.strerror}; is the controller running?") from None
    return loads(text, str(path))


def dumps(config: NodeConfig) -> str:
    """The file's text: JSON, indented, ending in a newline."""
    whole = config.model_copy(update={"templates": tuple(config.templates), "directory": dict(config.directory)})
    return json.dumps(whole.model_dump(mode="json"), indent=1) + "\n"


def store(config: NodeConfig, path: Path) -> None:
    """Replace `path` in one step, so that a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace_file(path, dumps(config))
