"""Lessons 5 and 7: the learner's faults and the lab's reaction, read from its history."""

import math
import re
from collections.abc import Iterator
from pathlib import Path

from mrclab.lab import history
from mrclab.lab.errors import LabError
from mrclab.lab.history import History, Record
from mrclab.lab.lessons.base import Check
from mrclab.lab.lessons.parts import CablePart

_T1_END = re.compile(r"^t0-p\d+-\d+/t1-p(\d+)-(\d+)$")
_GRAY = {"silent_drop", "loss"}


def lost_link(path: Path, seed: int | None = None) -> list[Check]:
    """Lesson 5: a T0–T1 cable is cut under traffic, its EV is retired and returns, and all bytes arrive."""
    records, part = _load(path), CablePart.drawn(5, seed)
    cable = part.name if part.required else "a T0–T1 cable"
    cut = next((each for each in _faults(records, {"link_down"}, part) if _during_traffic(records, each.t)), None)
    bad = _ev(records, cut, "ASSUMED_BAD", cut.t) if cut else None
    end = _end(records, cut) if cut else math.inf
    back = _ev(records, cut, "GOOD", end) if cut else None
    return [
        Check(cut is not None, f"{cable} is cut while traffic runs",
              f"start a workload from {part.source} to {part.target}, then `down {part.name}` before it ends"),
        Check(bad is not None, "the EV over it is ASSUMED_BAD", "let time pass while the cable is down: `wait 1s`"),
        Check(end < math.inf, "the cable is back", "`up` and the cable's name"),
        Check(back is not None, "the EV is GOOD again",
              "an EV returns when three of its probes were answered: `wait 20s`"),
        Check(cut is not None and _intact(records, before=cut.t), "the workload's bytes arrived intact",
              "`wait` and the workload's name"),
    ]  # fmt: skip


def gray_failure(path: Path, seed: int | None = None) -> list[Check]:
    """Lesson 7: a cable that loses packets silently is named, denied, avoided, repaired and allowed again."""
    records, part = _load(path), CablePart.drawn(7, seed)
    cable = part.name if part.required else "a T0–T1 cable"
    gray = next(iter(_faults(records, _GRAY, part)), None)
    element = gray["links"][0] if gray else ""
    verdict = _first(records, "verdict", element, gray.t if gray else math.inf)
    denied = _first(records, "denied", element, verdict.t if verdict else math.inf)
    end = _end(records, gray) if gray else math.inf
    job = denied is not None and _intact(records, after=denied.t, before=end)
    allowed = _first(records, "undenied", element, end)
    return [
        Check(gray is not None, f"{cable} loses packets with its carrier up",
              f"`fault silent_drop link={part.name} name=gray`"),
        Check(verdict is not None, "Clustermapper names it",
              "bring the lab up with --mapper, and let some cycles pass: `wait 5s`, then `map`"),
        Check(denied is not None, "it is denied after that", "`deny` and the cable's name, after `map` named it"),
        Check(job, "a workload crosses meanwhile without losing a packet",
              f"`send {part.source} {part.target} 8MiB` while it is denied"),
        Check(end < math.inf, "the cable is repaired", "`clear gray`"),
        Check(allowed is not None, "and allowed again", "`undeny` and the cable's name, after it was repaired"),
    ]  # fmt: skip


def _load(path: Path) -> History:
    file = path / "history.jsonl" if (path / "history.jsonl").is_file() else path
    try:
        found = history.load(file)
    except (OSError, ValueError) as error:
        raise LabError(f"cannot read the history {file}: {error}; name a result directory") from None
    if not found.records:
        raise LabError(f"{path} holds no history; name a result directory, or leave it out to ask the running lab")
    return found


def _faults(records: History, kinds: set[str], part: CablePart) -> Iterator[Record]:
    """Faults of single T0–T1 cables, or of the required one."""
    for record in records.of("fault.begin"):
        links = record.get("links") or []
        if record["fault_kind"] in kinds and len(links) == 1 and _T1_END.match(links[0]):
            if part.required and links[0] != part.name:
                continue
            yield record


def _end(records: History, fault: Record) -> float:
    ends = (record.t for record in records.of("fault.end") if record["fault"] == fault["fault"] and record.t > fault.t)
    return next(ends, math.inf)


def _during_traffic(records: History, t: float) -> bool:
    ends = {record["traffic"]: record.t for record in records.of("traffic.end")}
    return any(record.t < t < ends.get(record["traffic"], math.inf) for record in records.of("traffic.start"))


def _ev(records: History, cut: Record, state: str, after: float) -> Record | None:
    """Return the first record after a time in which an EV over the cable took a state."""
    found = _T1_END.match(cut["links"][0])
    assert found is not None
    plane, uplink = int(found[1]), int(found[2])
    changes = (record for record in records.of("ev.state") if record.t > after and record["new"] == state)
    return next((each for each in changes if (each["plane"], each["uplink"]) == (plane, uplink)), None)


def _first(records: History, kind: str, element: str, after: float) -> Record | None:
    return next((each for each in records.of(kind) if each["element"] == element and each.t >= after), None)


def _intact(records: History, after: float = -math.inf, before: float = math.inf) -> bool:
    """Return True if a workload that began in between arrived intact; with `after`, also without a lost packet."""
    begins = {record["traffic"]: record.t for record in records.of("traffic.start") if after <= record.t < before}
    for end in records.of("traffic.end"):
        begin = begins.get(end["traffic"])
        lost = after > -math.inf and begin is not None and any(begin <= r.t <= end.t for r in records.of("packet.lost"))
        if begin is not None and end["sent_sha256"] and end["sent_sha256"] == end["received_sha256"] and not lost:
            return True
    return False
