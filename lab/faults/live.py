"""Faults that a person strikes and heals at a prompt. Those that go on by themselves do so meanwhile."""

import math
import threading
import time
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from mrclab.lab.errors import RunError
from mrclab.lab.faults.base import FaultBase
from mrclab.lab.faults.models import MODELS
from mrclab.lab.faults.timeline import TimeLine
from mrclab.lab.run.attach import Lab
from mrclab.lab.run.session import Session
from mrclab.lab.run.wirebreakage import WireBreakage
from mrclab.lab.scenario.yamlfile import nearest
from mrclab.topo.spec import explain

_LONGEST_REST = 0.5  # seconds between two looks at what is due


class LiveFaults:
    """The faults in force at a prompt. A thread of its own drives flaps, reboots and chaos."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._calls = Lab(session.run_dir, session.fabric)  # connections of the thread's own
        self._line = TimeLine(_Ground(session, self._calls), [])
        self._began = time.monotonic()
        self._lock = threading.RLock()
        self._news = threading.Event()
        self._ended = False
        self._trouble = ""
        self._thread: threading.Thread | None = None
        self._count = 0

    def strike(self, kind: str, fields: str) -> str:
        """Strike a fault given by its kind and `field=value …`; returns a phrase. ValueError says what is wrong."""
        self._count += 1
        fault = parse(kind, {"name": f"fault-{self._count}", **values(fields)}, self._session)
        with self._lock:
            if fault.name in self.active:
                raise ValueError(f"{fault.name} is in force already; heal it, or give another name=")
            phrase = self._line.strike(fault)
            self._line.advance(time.monotonic() - self._began, {})
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="faults", daemon=True)
            self._thread.start()
        self._news.set()
        return phrase

    def heal(self, name: str = "") -> list[str]:
        """Heal one fault, or all, the last first; returns a phrase for each."""
        with self._lock:
            return self._line.heal_all() if not name else [self._line.heal(name)]

    @property
    def active(self) -> dict[str, str]:
        """Name and phrase of each fault in force."""
        with self._lock:
            return {fault.name: fault.text(self._session.fabric) for fault in self._line.active}

    @property
    def trouble(self) -> str:
        """What went wrong while nobody looked; said once."""
        said, self._trouble = self._trouble, ""
        return said

    def close(self) -> None:
        """Heal everything and end the thread."""
        self._ended = True
        self._news.set()
        if self._thread is not None:
            self._thread.join()
        try:
            self.heal()
        finally:
            self._calls.disconnect()

    def _run(self) -> None:
        while not self._ended:
            with self._lock:
                try:
                    self._line.advance(time.monotonic() - self._began, {})
                except RunError as error:
                    self._trouble = str(error)
                rest = min(_LONGEST_REST, self._line.next_due() - time.monotonic())
            if math.isfinite(rest) and rest > 0:
                self._news.wait(rest)
                self._news.clear()


class _Ground:
    """A session, but for its connections: those are of one thread only."""

    def __init__(self, session: Session, calls: Lab) -> None:
        self.seed, self.fabric = session.seed, session.fabric
        self.record, self.pause = session.record, session.pause
        self.launch, self.excuse, self.expect_alive = session.launch, session.excuse, session.expect_alive
        self.call, self.forget = calls.call, calls.forget
        self.breakage = WireBreakage(session.emulation, self)
        self._session = session

    @property
    def now(self) -> float:
        """The session's clock."""
        return self._session.now


def parse(kind: str, fields: dict[str, Any], session: Lab) -> FaultBase:
    """A fault of this kind; ValueError with one sentence per mistake."""
    models = {str(model.model_fields["kind"].annotation.__args__[0]): model for model in MODELS}  # type: ignore[union-attr]
    if kind not in models:
        raise ValueError(f"no kind of fault is called {kind!r}; {nearest(kind, list(models))}")
    try:
        entry = {"at": 0, **fields, "kind": kind}
        return models[kind].model_validate(entry, context={"fabric": session.fabric})
    except ValidationError as error:
        raise ValueError("; ".join(explain(error, models[kind], kind))) from None


def values(text: str) -> dict[str, Any]:
    """`link=h1-p1 rate=1%` as a dict; values are YAML, without blanks. ValueError where something is neither."""
    found = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{word!r} is no field; write for example link=h1-p1 rate=1%")
        try:
            found[name] = YAML(typ="safe", pure=True).load(value)
        except YAMLError:
            raise ValueError(f"{name} cannot be read from {value!r}; write for example links=[h1-p1,h1-p2]") from None
    return found
