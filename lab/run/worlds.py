"""Registry of the worlds that a run can happen in, by name; each is imported when it is first used."""

from __future__ import annotations

import importlib.util
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import Unpack

from mrclab.lab.errors import LabError, Refused, ScenarioError
from mrclab.lab.faults.base import unsupported_text
from mrclab.lab.kinds import WorldName
from mrclab.lab.run import size, virtualsize
from mrclab.lab.run.world import Progress, World, WorldOptions
from mrclab.lab.scenario.units import show_seconds
from mrclab.topo.config.algorithms import CONGESTION_CONTROLS
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.model import Fabric
from mrclab.topo.numbers import FULL_HEADER_BYTES
from mrclab.topo.spec import FabricSpec

if TYPE_CHECKING:
    from mrclab.lab.scenario.scenario import LabSetting, Loaded, Scenario
    from mrclab.lab.traffic.base import TrafficBase

WIRE_MIN_CYCLE = 0.05
"""Shortest probe cycle on the wire, seconds."""

WIRE_MAX_PPS = 100_000
"""Packets per second of one cable on the wire, measured at 4 KiB on an idle machine."""

_WIRE_PACKAGES = ("finsy", "grpc")


def check_machine(*runs: Loaded, force: bool = False) -> list[str]:
    """Raise Refused if this machine or user cannot run one of these in its world.

    A run that is too large for the machine needs `force`. Returns warnings.
    """
    for world in dict.fromkeys(loaded.scenario.world for loaded in runs):
        check_machine_for(world)
    return check_size(*runs, force=force)


def check_size(*runs: Loaded, force: bool = False) -> list[str]:
    """Raise Refused if fabric or traffic of a run is too much for this machine, unless `force`; return warnings."""
    wired = [loaded for loaded in runs if loaded.scenario.world == "wire"]
    warnings = [size.check(loaded.fabric.spec, load(loaded), force=force) for loaded in wired]
    for loaded in runs:
        if loaded.scenario.world == "sim":
            warnings += [virtualsize.check(loaded, force=force), virtualsize.late_traffic(loaded)]
    return [text for text in dict.fromkeys(warnings) if text]


def load(loaded: Loaded) -> size.Load:
    """Return a scenario's load: of all traffic, and of the largest bulk traffic, whose flows surely coincide."""
    scenario, fabric = loaded.scenario, loaded.fabric
    each = [_lines([entry], fabric, scenario.seed) for entry in scenario.traffic if entry.bulk]
    return size.Load(_lines(scenario.traffic, fabric, scenario.seed), max(each, default=0.0))


def _lines(workloads: Sequence[TrafficBase], fabric: Fabric, seed: int) -> float:
    """Return the load in hosts at line rate: the lesser of all senders' and all receivers' load."""
    sent: dict[str, float] = defaultdict(float)
    taken: dict[str, float] = defaultdict(float)
    for entry in workloads:
        share = getattr(entry, "rate", None) or 1.0
        for flow in entry.flows(fabric, seed):
            sent[flow.source] += share
            taken[flow.destination] += share
    return min(sum(min(1.0, share) for share in side.values()) for side in (sent, taken))


def check_machine_for(world: WorldName) -> None:
    """Raise Refused if this machine or user cannot have such a world."""
    if world == "wire":
        if missing := missing_packages():
            what = "`pip install '.[wire]'` in the clone"
            raise Refused(f"{', '.join(missing)} not installed: real frames need {what}, virtual time `--world sim`")
        from mrclab.lab.run.wire import wireworld  # noqa: PLC0415

        wireworld.check_machine()


def check_target(target: str | None, *worlds: str) -> None:
    """Raise LabError for a P4 target where every run is in virtual time, which would ignore it."""
    if target is not None and "wire" not in worlds:
        raise LabError(f"--target {target}: virtual time has no P4 switches; leave it out, or choose --world wire")


def missing_packages() -> list[str]:
    """Return the Python packages that the wire needs and that are not installed: those of the extra `wire`."""
    return [name for name in _WIRE_PACKAGES if importlib.util.find_spec(name) is None]


def check(*runs: Loaded) -> None:
    """Raise ScenarioError with the settings, traffic and faults that the scenario's world does not support."""
    mistakes = [f"{loaded.source}: {text}" for loaded in runs for text in _refusals(loaded)]
    if mistakes:
        raise ScenarioError(list(dict.fromkeys(mistakes)))


def check_setting(setting: LabSetting, fabric: Fabric) -> None:
    """Raise ScenarioError with the settings of a lab that its world does not support."""
    if mistakes := list(_setting_refusals(setting, fabric)):
        raise ScenarioError(mistakes)


def _refusals(loaded: Loaded) -> Iterator[str]:
    scenario, world = loaded.scenario, loaded.scenario.world
    if world == "wire":
        for field, why in _virtual_run(scenario):
            yield f"{field}: {why}"
    yield from _setting_refusals(scenario, loaded.fabric)
    for entry in scenario.traffic:
        for why in entry.refusals(world):
            yield f"traffic {entry.name}: {why}"
    for fault in scenario.faults:
        if world not in fault.worlds:
            other = "sim" if world == "wire" else "wire"
            yield f"fault {fault.name}: {unsupported_text(fault, world)}; run it with --world {other}"


_LEAVE_OUT = "leave it out, or run it with --world sim"


def _setting_refusals(setting: LabSetting, fabric: Fabric) -> Iterator[str]:
    if setting.world == "wire":
        for field, why in itertools.chain(_virtual_hosts(setting), _virtual_fabric(fabric.spec)):
            yield f"{field}: {why}"


def _virtual_run(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Fields of a run that the wire does not support, each with the reason and the remedy."""
    if scenario.history == "none":
        yield "history: none", f"on the wire all figures are made of the history; {_LEAVE_OUT}"
    if scenario.trace is not None:
        yield "trace", f"on the wire `mrclab capture` records frames, and `mrclab packets` filters them; {_LEAVE_OUT}"


def _virtual_hosts(setting: LabSetting) -> Iterator[tuple[str, str]]:
    """Fields of mapper and transport that the wire does not support, each with the reason and the remedy."""
    mapper, control = setting.mapper, setting.transport.control
    if mapper is not None and mapper.cycle < WIRE_MIN_CYCLE:
        least = f"less than the {show_seconds(WIRE_MIN_CYCLE)} in which hosts of the wire can probe"
        yield "mapper.cycle", f"{show_seconds(mapper.cycle)} is {least}; raise it, or run it with --world sim"
    if mapper is not None and (mapper.t1s or mapper.agents):
        yield f"mapper.{'t1s' if mapper.t1s else 'agents'}", f"hosts of the wire all probe every path; {_LEAVE_OUT}"
    if _needs_telemetry(setting.transport):
        why = f"{control} needs telemetry of the switches, which those of the wire do not write"
        yield "transport.congestion_control", f"{why}; choose another, or run it with --world sim"


def _virtual_fabric(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """Fields of a fabric that the wire does not support, each with the reason and the remedy."""
    if spec.beyond_p4:
        yield "fabric", spec.beyond_p4
    if spec.queue.buffer:
        yield "fabric.queue.buffer", f"ports of the wire have queues of their own; {_LEAVE_OUT}"
    if spec.links:
        yield "fabric.links", f"cables of the wire are all alike; {_LEAVE_OUT}"
    if spec.load_balancing != "ecmp":
        yield "fabric.load_balancing", f"{spec.load_balancing}: switches of the wire hash (ecmp); {_LEAVE_OUT}"
    if spec.nic_latency:
        yield "fabric.nic_latency", f"NICs of the wire are processes with delays of their own; {_LEAVE_OUT}"
    if spec.nic_jitter:
        yield "fabric.nic_jitter", f"delays of hosts of the wire come from their machine; {_LEAVE_OUT}"
    if spec.link.rate_pps > WIRE_MAX_PPS:
        most = WIRE_MAX_PPS * (spec.path_mtu + FULL_HEADER_BYTES) * 8
        what = f"are more than the {WIRE_MAX_PPS} ({most / 1e6:.0f} Mb/s at this path_mtu) that one cable of the wire"
        yield "fabric.link", f"{spec.link.rate_pps} packets/s {what} carries; lower it, or run it with --world sim"


def _needs_telemetry(transport: TransportSpec) -> bool:
    if transport.congestion_control is None:
        return False
    control = CONGESTION_CONTROLS[transport.kind].find(transport.congestion_control)
    return bool(getattr(control, "telemetry", False))


@contextmanager
def owned_run_dir(runs: Sequence[Loaded], run_dir: Path) -> Iterator[None]:
    """Context manager: this process owns the wire's run directory, also between its runs."""
    if any(loaded.scenario.world == "wire" for loaded in runs):
        from mrclab.topo.linux import state  # noqa: PLC0415

        with state.hold(run_dir.parent):
            yield
    else:
        yield


@contextmanager
def world_up(
    world: WorldName,
    fabric: Fabric,
    progress: Progress,
    on_failure: Callable[[World, Exception], None] = lambda *_: None,
    **options: Unpack[WorldOptions],
) -> Iterator[World]:
    """Context manager: a lab that is up; Refused where this machine or user cannot have it.

    `on_failure` gets one of the wire that did not come up, with its files.
    """
    check_machine_for(world)
    if world == "wire":
        from mrclab.lab.run.wire.wireworld import wire_world  # noqa: PLC0415

        with wire_world(fabric, progress, on_failure, **options) as session:
            yield session
    else:
        from mrclab.lab.run.virtual import virtual_world  # noqa: PLC0415

        with virtual_world(fabric, **options) as virtual:
            yield virtual
