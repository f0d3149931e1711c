"""All measures of one run, each subject in a part of its own; made from the merged history alone.

Times are seconds on the machine's monotonic clock; rates are payload bytes per second.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from mrclab.lab.history import History, Record
from mrclab.lab.measure.fabric.faults import FaultSpan, fault_spans
from mrclab.lab.measure.fabric.paths import EvChange, PacketLoss, Paths
from mrclab.lab.measure.fabric.switches import Switches
from mrclab.lab.measure.samples import Samples
from mrclab.lab.measure.traffic.completions import CompletionTimes
from mrclab.lab.measure.traffic.flows import MeasuredFlows, Selection
from mrclab.lab.measure.traffic.rates import Rates
from mrclab.lab.measure.traffic.stalls import Stalls
from mrclab.lab.measure.traffic.training import TrainingSteps
from mrclab.lab.measure.validity.evidence import NoEvidence
from mrclab.lab.measure.validity.machine import MachineLoad
from mrclab.lab.scenario.triggers import Window
from mrclab.lab.scenario.units import Units
from mrclab.topo.model import Fabric

if TYPE_CHECKING:
    from mrclab.lab.scenario.scenario import Scenario


COARSE = 0.01  # seconds between two samples from which on hundredths of a second say enough


class Measures:
    """Numbers of one run. `times` names its moments: start, end, each workload and fault, and `NAME.end` of each."""

    def __init__(self, history: History, scenario: "Scenario", fabric: Fabric) -> None:
        self.history = history
        self.scenario = scenario
        self.fabric = fabric
        self.flows = MeasuredFlows(history)
        self.switches = Switches(history)
        self.completions = CompletionTimes(history)
        self.training = TrainingSteps(history)
        self.faults: dict[str, FaultSpan] = fault_spans(history, fabric)
        self.times: Mapping[str, float] = self._moments()
        self.rtt = self._rtt()

    def _moments(self) -> dict[str, float]:
        times: dict[str, float] = {}
        running: set[str] = set()
        last = None
        for record in self.history.of("traffic.start", "traffic.end"):
            name = record["traffic"]
            if record.kind == "traffic.start":
                times.setdefault("start", record.t)
                times.setdefault(name, record.t)
                running.add(name)
            else:
                last = times[f"{name}.end"] = record.t
                running.discard(name)
        if last is not None and not running:
            times["end"] = last
        for fault in self.faults.values():
            times[fault.name] = fault.begin
            if fault.end is not None:
                times[f"{fault.name}.end"] = fault.end
        return times

    def _rtt(self) -> float:
        """The longest base round-trip time of a flow; of the longest way through the fabric where none started.

        Where links have no delay, the time that one packet takes.
        """
        hosts = self.fabric.hosts
        pairs = {(flow.source, flow.destination) for flow in self.flows} or {(hosts[0].name, hosts[-1].name)}
        return max(self.fabric.base_rtt(*pair) for pair in pairs) or 1 / self.fabric.spec.link.rate_pps

    @property
    def start(self) -> float:
        """Time at which the first workload began; the beginning of the history where none did."""
        return self.times.get("start", self.history.records[0].t if self.history.records else 0.0)

    @property
    def end(self) -> float:
        """Time at which the last traffic ended; the end of the history where it never did."""
        return self.times.get("end", self.history.records[-1].t if self.history.records else 0.0)

    def lasting(self, fault: FaultSpan) -> tuple[float, float]:
        """Return when a fault began and ended; the end of the traffic where it never ended."""
        return (fault.begin, fault.end) if fault.end is not None else fault.during(self.end)

    def since_start(self, t: float) -> float:
        """Seconds since the traffic began."""
        return t - self.start

    def time_text(self, t: float) -> str:
        """A time as text, relative to the workload's begin, at the precision of the samples."""
        seconds = self.since_start(t)
        if self.fabric.spec.sample_interval >= COARSE:
            return f"{seconds:.2f} s"
        return f"{seconds * 1e6:.1f} µs" if abs(seconds) < 1e-3 else f"{seconds * 1e3:.3f} ms"

    def span_text(self, begin: float, end: float) -> str:
        """A span of time as text: `4.00 to 7.00 s`."""
        last = self.time_text(end)
        return f"{self.time_text(begin).removesuffix(last[last.rindex(' ') :])} to {last}"

    def window(self, window: Window | None) -> tuple[float, float]:
        """Both ends of a window, of the whole traffic without one; KeyError when it never came.

        NoEvidence where it is empty, or the run ended before it did.
        """
        if window is None:
            return self.start, self.end
        begin, end = window.at(self.times, self.rtt)
        if end <= begin:
            raise NoEvidence(f"the window {window} is empty: it ends before it begins", self.span_text(begin, end))
        last = self.history.records[-1].t
        if end > last:
            text = f"the run ended before the window {window} did, at {self.time_text(last)}"
            raise NoEvidence(text, self.span_text(begin, end))
        return begin, end

    # --- the subjects -----------------------------------------------------------------------------------------------

    @cached_property
    def units(self) -> Units:
        """Units for the times and rates of this run."""
        return Units.of(self.end - self.start, self.fabric.spec.link.rate is not None)

    @cached_property
    def samples(self) -> Samples:
        """Samples of the hosts."""
        return Samples(self.history)

    @cached_property
    def rates(self) -> Rates:
        """Goodput."""
        return Rates(self.fabric, self.flows, self.samples)

    @cached_property
    def stalls(self) -> Stalls:
        """Pauses of receivers."""
        return Stalls(self.flows, self.samples, self.fabric.spec.sample_interval)

    @cached_property
    def paths(self) -> Paths:
        """Losses and EVs."""
        return Paths(self.fabric, self.history, self.flows, self.samples)

    @cached_property
    def machine(self) -> MachineLoad:
        """Processes, sockets, lateness."""
        return MachineLoad(self)

    # --- in short ---------------------------------------------------------------------------------------------------

    def goodput(self, begin: float, end: float, chosen: Selection | None = None) -> float:
        """Payload bytes per second that arrived between two times."""
        return self.rates.goodput(begin, end, chosen or Selection())

    @property
    def invalid(self) -> list[str]:
        """Reasons for which the run is invalid: the machine, not the network, was the limit. Empty where it is
        valid."""
        return self.machine.invalid

    @cached_property
    def qp_errors(self) -> list[Record]:
        """QPs that went to ERROR."""
        return [record for record in self.history.of("qp.state") if record.get("state") == "ERROR"]

    def losses_of(self, fault: str) -> list[PacketLoss]:
        """Losses on paths over a fault's cables, from when it began until it was cleared; KeyError if it never did."""
        hit = self.faults[fault]
        begin, end = self.lasting(hit)
        return [
            loss
            for loss in self.paths.losses
            if begin <= loss.t and loss.sent <= end and self.hits(hit, loss.host, loss.qp, loss.path)
        ]

    def changes_over(self, fault: FaultSpan | None, begin: float, end: float) -> list[EvChange]:
        """State changes of sending QPs' EVs, of those over a fault's cables where one is given, between two times.

        Those of QPs that only answer prove nothing.
        """
        return [
            change
            for change in self.paths.changes
            if begin <= change.t <= end
            and change.key in self.paths.sender_evs
            and (fault is None or self.hits(fault, change.host, change.qp, change.path))
        ]

    def injected(self, fault: str) -> tuple[int, int] | None:
        """Packets that a fault saw, and those that it dropped or damaged, by its own count; None if it has none."""
        records = [r for r in self.history.of("fault.counters") if r["fault"] == fault]
        hit = [int(r[name]) for r in records for name in ("dropped", "damaged") if name in r.data]
        return (sum(int(r.get("seen", 0)) for r in records), sum(hit)) if hit else None

    def hits(self, fault: FaultSpan, host: str, qp: int, path: tuple[int, int]) -> bool:
        """Return True if a fault can take packets of a QP on a path."""
        if fault.paths and path not in fault.paths:
            return False
        return self.paths.crosses(host, qp, path, fault.links)
