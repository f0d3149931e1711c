"""Measurements of one target: rates, CPU time, latency, start-up, inserts, memory."""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from mrclab.bench.switch import frames
from mrclab.bench.switch.generator import TrafficGenerator, Trial
from mrclab.bench.switch.rpcfloor import rpc_floor
from mrclab.bench.switch.targets import SOFT, BenchTarget, SwitchProcess, kernel_forwarding, process, provision
from mrclab.bench.switch.wire import BenchWire, wire
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.lab.command.p4build import P4_INFO, P4_JSON
from mrclab.lab.errors import RunError
from mrclab.lab.measure.series import quantile
from mrclab.lab.p4 import inside
from mrclab.softswitch.switch import SoftSwitch
from mrclab.topo.linux import paths
from mrclab.topo.numbers import CPU_PORT, DROP_PORT, PRIORITIES

LOSS = 0.001
"""Loss that a loss-free rate may have."""
LATE = 0.02
"""Share of the trial's time by which frames may be late; more means a buffer that fills."""
INSERTS = 1000
Notify = Callable[[str], None]
FRAMES = 10_000


@dataclass(frozen=True)
class TrialPlan:
    """Duration and repetitions of a measurement."""

    trial_seconds: float = 1.0
    steps: int = 6
    starts: int = 5
    switches: int = 32
    latencies: int = 2000
    sizes: tuple[int, ...] = frames.SIZES


QUICK = TrialPlan(trial_seconds=0.1, steps=2, starts=1, switches=2, latencies=50, sizes=(128, 4200))


@dataclass(frozen=True)
class SwitchRates:
    """Frames of one size. Rates per second, times in seconds."""

    loss_free: float
    loss: float
    saturated: float
    """Throughput under overload."""
    cpu_per_packet: float
    """At nine tenths of the loss-free rate."""
    latency_median: float | None
    latency_p99: float | None
    program: float | None = None
    """CPU time of the program alone, without sockets and loop (softswitch)."""
    generator_limit: bool = False
    """The generator was at its limit: the target may be faster."""


@dataclass
class SwitchResult:
    """One target. None: not measured, or not available."""

    key: str
    title: str
    speeds: dict[int, SwitchRates] = field(default_factory=dict)
    start_seconds: float | None = None
    load_seconds: float | None = None
    fleet_seconds: float | None = None
    fleet: int = 0
    inserts_seconds: float | None = None
    inserts_single_seconds: float | None = None
    insert_seconds: float | None = None
    """Median of a write request with one insert, from call to answer."""
    rpc_floor_seconds: float | None = None
    """Median of an RPC that does nothing, answered by grpc's own server in Python in the same minute."""
    resident_bytes: int | None = None
    private_bytes: int | None = None
    skipped: str | None = None


def measure_process(target: BenchTarget, plan: TrialPlan, cpu: int | None, notify: Notify) -> SwitchResult:
    """Measure one P4 switch. Raises RunError."""
    result = SwitchResult(target.key, target.title)
    with tempfile.TemporaryDirectory(prefix=paths.folder_prefix()) as text, _bench() as (cables, generator):
        directory = Path(text)
        notify(f"{target.title}: start-up")
        result.start_seconds = statistics.median(_starts(target, directory, cables, plan.starts, cpu))
        with process(target, directory, cables.name, cpu=cpu) as one:
            one.wait()
            begun = time.monotonic()
            provision(one.client)
            result.load_seconds = time.monotonic() - begun
            one.set_queue_depth(cables.inside)
            _check(generator, target.title)
            result.resident_bytes, result.private_bytes = one.memory()
            for size in plan.sizes:
                notify(f"{target.title}: {size}-byte frames")
                result.speeds[size] = _speed(generator, size, plan, one)
                if target is SOFT:
                    result.speeds[size] = replace(result.speeds[size], program=program_seconds(size))
            notify(f"{target.title}: inserts")
            result.inserts_seconds, result.inserts_single_seconds, result.insert_seconds = _inserts(one)
        result.rpc_floor_seconds = rpc_floor(directory, cpu, INSERTS)
        if plan.switches:
            notify(f"{target.title}: {plan.switches} switches")
            result.fleet = plan.switches
            result.fleet_seconds = _fleet(target, directory, cables.name, plan.switches)
    return result


def measure_kernel(plan: TrialPlan, notify: Notify) -> SwitchResult:
    """Measure the kernel's forwarding; `skipped` has the reason if it is not available."""
    result = SwitchResult("kernel", "Linux seg6local")
    with _bench() as (cables, generator):
        try:
            with kernel_forwarding(cables):
                _check(generator, result.title)
                for size in plan.sizes:
                    notify(f"{result.title}: {size}-byte frames")
                    result.speeds[size] = _kernel_speed(generator, size, plan)
        except RunError as error:
            result.skipped = str(error)
    return result


@contextmanager
def _bench() -> Iterator[tuple[BenchWire, TrafficGenerator]]:
    with wire() as cables:
        generator = TrafficGenerator(cables)
        try:
            yield cables, generator
        finally:
            generator.close()


def _check(generator: TrafficGenerator, title: str) -> None:
    """Check the forwarded frames. Raises RunError."""
    for size in frames.SIZES:
        got = generator.send_one(size)
        expected = frames.forwarded(frames.frame(size, bytes(6)))
        if got is None:
            raise RunError(f"{title} does not forward frames of {size} bytes")
        if got != expected:
            raise RunError(
                f"{title} forwards frames of {size} bytes wrongly: {got[:64].hex()} for {expected[:64].hex()}"
            )


def _speed(generator: TrafficGenerator, size: int, plan: TrialPlan, one: SwitchProcess) -> SwitchRates:
    best, saturated, limited = search(lambda rate: generator.offer(size, rate, plan.trial_seconds), plan.steps)
    cpu = one.cpu_seconds()
    steady = generator.offer(size, best.rate * 0.9, plan.trial_seconds)
    cpu = (one.cpu_seconds() - cpu) / max(steady.received, 1)
    median, p99 = _latencies(generator, size, best.rate / 10, plan.latencies)
    return SwitchRates(best.rate, best.loss, saturated, cpu, median, p99, generator_limit=limited)


def search(trial: Callable[[float], Trial], steps: int) -> tuple[Trial, float, bool]:
    """Find the highest rate that loses at most LOSS, by bisection.

    Returns the trial at that rate, the rate at saturation, and whether the generator limited it.
    """
    flood = trial(math.inf)
    if keeps_up(flood):
        return flood, flood.throughput, True
    low, high, best = 0.0, flood.throughput * 1.3, None
    guess = flood.throughput * 0.9
    for _ in range(steps):
        offer = _attempt(trial, guess)
        if offer is None:
            high = guess
        else:
            low, best = guess, offer if best is None or offer.rate > best.rate else best
        guess = (low + high) / 2
    while best is None:
        best = _attempt(trial, guess)
        guess /= 2
        if guess < 1:
            raise RunError("frames are lost at any rate")
    return best, flood.throughput, False


def _attempt(trial: Callable[[float], Trial], rate: float) -> Trial | None:
    """Try a rate, and once more after losses: the machine may have been busy."""
    for _ in range(2):
        offer = trial(rate)
        if keeps_up(offer):
            return offer
    return None


def keeps_up(offer: Trial) -> bool:
    """Return True if the target keeps up with the offered rate."""
    return offer.loss <= LOSS and offer.until_last - offer.seconds <= LATE * offer.seconds


def _kernel_speed(generator: TrafficGenerator, size: int, plan: TrialPlan) -> SwitchRates:
    """The kernel works in the sender's own time: its CPU time is the excess over sends that no switch forwards."""
    unanswered = generator.offer(size, math.inf, plan.trial_seconds, mac=b"\x02\xff\xff\xff\xff\xff")
    flood = generator.offer(size, math.inf, plan.trial_seconds)
    cpu = flood.cpu_seconds / flood.sent - unanswered.cpu_seconds / unanswered.sent
    median, p99 = _latencies(generator, size, flood.rate / 10, plan.latencies)
    return SwitchRates(flood.rate, flood.loss, flood.throughput, cpu, median, p99, generator_limit=True)


def _latencies(generator: TrafficGenerator, size: int, rate: float, count: int) -> tuple[float | None, float | None]:
    """Return median and 99 % of the seconds through the switch; None without any."""
    times = generator.latencies(size, rate, count)
    return (quantile(times, 0.5), quantile(times, 0.99)) if times else (None, None)


def _starts(target: BenchTarget, directory: Path, cables: BenchWire, times: int, cpu: int | None) -> list[float]:
    seconds = []
    for _ in range(times):
        with process(target, directory, cables.name, cpu=cpu) as one:
            seconds.append(one.wait())
    return seconds


def _inserts(one: SwitchProcess) -> tuple[float, float, float]:
    """Return the seconds that the inserts took with one RPC for all, and one by one, and the median of the latter."""
    program = PipelineConfig(P4_INFO, P4_JSON)
    entries = [program.encode(frames.route(0x3001 + number)) for number in range(INSERTS)]
    begun = time.monotonic()
    one.client.write(entries)
    together = time.monotonic() - begun
    one.client.write(entries, kind=3)  # DELETE
    begun = time.monotonic()
    one.client.write(entries, batch=1)
    return together, time.monotonic() - begun, statistics.median(one.client.write_seconds[-INSERTS:])


def _fleet(target: BenchTarget, directory: Path, name: str, count: int) -> float:
    """Return the seconds until `count` switches without ports, started at once on all CPUs, have answered an RPC."""
    with ExitStack() as stack:
        begun = time.monotonic()
        started = [
            stack.enter_context(process(target, directory, name, number + 1, ports=())) for number in range(count)
        ]
        for one in started:
            one.wait()
        return time.monotonic() - begun


def program_seconds(size: int, count: int = FRAMES) -> float:
    """Return the CPU seconds of one frame of `size` bytes from the parser to the deparser, queue included."""
    switch, sent = SoftSwitch(CPU_PORT, DROP_PORT, PRIORITIES), [0]

    def transmit(number: int, data: bytearray) -> None:
        sent[0] += number == frames.OUT_PORT and len(data) > 0

    switch.transmit = transmit  # type: ignore[method-assign]
    switch.commit(switch.compile(P4_JSON.read_bytes()))
    for entry in frames.ENTRIES:
        inside.insert(switch, entry)
    ingress = switch.program().ingress
    arrived = [bytearray(frames.frame(size, bytes(6))) for _ in range(count)]
    begun = time.thread_time()
    for frame in arrived:
        ingress(frame, frames.IN_PORT, size)
    seconds = time.thread_time() - begun
    switch.close()
    if sent[0] != count:
        raise RunError(f"the program forwarded {sent[0]} of {count} frames")
    return seconds / count
