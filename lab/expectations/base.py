"""Base of expectations: the verdict, the level that a figure is compared with, and the figure's bounds.

An expectation whose moments never came (a fault that was not injected, a transfer that broke off) has failed, and so
has one for which there is no evidence (a window in which nothing ran or no host was sampled).
"""

import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, ValidationInfo
from pydantic_core.core_schema import IsInstanceSchema, is_instance_schema

from mrclab.lab.kinds import Kinds
from mrclab.lab.measure.traffic.flows import Selection
from mrclab.lab.measure.validity.evidence import NoEvidence
from mrclab.lab.scenario.base import OfKind
from mrclab.lab.scenario.names import NewName, TrafficName, hinted
from mrclab.lab.scenario.units import share_of, show_number, show_rate
from mrclab.topo.input.sentences import brief

if TYPE_CHECKING:
    from mrclab.lab.measure.measures import Measures
    from mrclab.lab.traffic.base import TrafficBase

_RATE = re.compile(r"\s*(\d+(?:\.\d*)?)\s*([kMG]?)(B|b|bit)/s\s*")
_FACTOR = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
LINE = "line"
MEASURED = " (measured)"  # ends what is expected of a figure without a limit
MEAN = "mean"


@dataclass(frozen=True)
class Verdict:
    """Outcome of one expectation. `when` is in seconds after the traffic began; `value` is the figure judged."""

    kind: str
    ok: bool
    expected: str
    observed: str
    when: str = ""
    value: float | None = None
    unit: str = ""

    @property
    def is_measured(self) -> bool:
        """True for a figure that nothing judged."""
        return self.ok and self.expected.endswith(MEASURED)


_OLD_FIELDS = {"wanted": "expected", "saw": "observed"}


def verdict_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a verdict as results keep it, with the names of today: earlier versions wrote `wanted` and `saw`."""
    return {_OLD_FIELDS.get(name, name): value for name, value in row.items()}


class Level(NamedTuple):
    """A goodput: a share of the line rate (`line`), of the window's `mean` or of a named expectation's; or bytes/s."""

    share: float
    of: str

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> IsInstanceSchema:
        return is_instance_schema(cls)

    def __str__(self) -> str:
        return f"{self.share * 100:g}% of {self.of}" if self.of else show_rate(self.share)


def parse_level(value: object) -> object:
    """`90% of line`, `75% of before`, `5 MB/s`, `40 Gb/s` → Level."""
    if isinstance(value, Level):
        return value
    if share := share_of(value):
        return Level(*share)
    rate = _RATE.fullmatch(brief(value))
    if rate:
        return Level(float(rate[1]) * _FACTOR[rate[2]] / (1 if rate[3] == "B" else 8), "")
    raise ValueError(
        f"{value!r} is not a level; write, for example, 90% of line, 75% of EXPECTATION, 5 MB/s or 40 Gb/s"
    )


def known_reference(noun: str, *words: str) -> Any:
    """Return a validator of limits: their `of` names an expectation of the scenario, or is one of these words."""

    def check(limit: Any, info: ValidationInfo) -> Any:
        known = [*words, *(info.context or {}).get("goodput", [limit.of])]
        if limit.of and limit.of not in known:
            raise ValueError(f"no {noun} is named {limit.of!r}; {hinted(info, limit.of, known)}")
        return limit

    return AfterValidator(check)


def _known_flow(text: str, info: ValidationInfo) -> str:
    traffic, slash, _ = text.partition("/")
    known = (info.context or {}).get("traffic")
    if not slash or ">" not in text:
        raise ValueError(f"{text!r} is not a flow; write TRAFFIC/h1>h3")
    if known is not None and traffic not in known:
        raise ValueError(f"no traffic is named {traffic!r}; {hinted(info, traffic, list(known))}")
    return text


AS_TEXT: Any = PlainSerializer(str, return_type=str)
LevelField = Annotated[Level, BeforeValidator(parse_level), known_reference("goodput", LINE, MEAN), AS_TEXT]
FlowName = Annotated[str, AfterValidator(_known_flow)]


class BaseExpectation(OfKind):
    """One expectation of a scenario."""

    to_the_end: ClassVar[bool] = False
    """True where all that happens until the end of the run counts, so that nothing is decided before."""

    without_history: ClassVar[bool] = False
    """True where traffic, faults and QPs in ERROR say enough to judge it: all that is left without a history."""

    by_cables: ClassVar[bool] = False
    """True where a fault's own cables select the packets or EVs that it judges."""

    by_qps: ClassVar[bool] = False
    """True where it judges QPs of the history, in which some traffic leaves none."""

    by_mapper: ClassVar[bool] = False
    """True where it judges the Clustermapper's verdicts."""

    name: NewName | None = None

    def check(self, measures: "Measures") -> Verdict:
        """Judge a run; an error in judging it fails this expectation alone."""
        try:
            found: object = self.judge(measures)
            if isinstance(found, Verdict):
                return found
            raise TypeError(f"it returned {found!r}, not a verdict")
        except NoEvidence as error:
            return self.verdict(False, self.expected_outcome, str(error), error.when)
        except Exception as error:
            if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
                return self.verdict(False, self.expected_outcome, f"{error.args[0]} never came")
            import logging  # noqa: PLC0415 - it takes a moment, and this is rare

            logging.getLogger(__name__).exception("%s", self.expected_outcome)
            return self.verdict(
                False, self.expected_outcome, f"this could not be judged: {type(error).__name__}: {error}"
            )

    def mistakes(self, workloads: "Mapping[str, TrafficBase]") -> Iterator[tuple[str, str]]:
        """Yield (field, sentence) for each mistake that only the scenario's workloads, by name, show."""
        yield from ()

    @abstractmethod
    def judge(self, measures: "Measures") -> Verdict:
        """Judge a run; raise KeyError for a moment that never came, NoEvidence for other missing data."""
        raise NotImplementedError

    def measure(self, measures: "Measures") -> Verdict:
        """Measure a run without judging it: it fails only where there is no figure."""
        found = self.check(measures)
        if found.value is None:
            return found
        words = " ".join(found.expected.split()) or self.kind_name.replace("_", " ")  # those of a limit are left out
        return replace(found, ok=True, expected=words + MEASURED)

    @property
    def limits(self) -> "Bounds":
        """Limits of the figure, as the scenario has them; of a kind whose fields have these names."""
        low, high, near = (getattr(self, name, None) for name in ("at_least", "at_most", "about"))
        return Bounds(low, high, near, getattr(self, "within", 0.05))

    @property
    def expected_outcome(self) -> str:
        """Expected outcome, as far as it is known without a run."""
        fields = [f"{field} {self._value_text(getattr(self, field))}" for field in type(self).model_fields
                  if field in self.model_fields_set and field not in {"kind", "name"}]  # fmt: skip
        return f"{self.kind_name}: {', '.join(fields)}".removesuffix(": ")

    @staticmethod
    def _value_text(value: object) -> str:
        return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)

    def verdict(
        self, ok: bool, expected: str, observed: str, when: str = "", value: float | None = None, unit: str = ""
    ) -> Verdict:
        """A verdict under this expectation's name, else its kind. A figure that is not a number fails."""
        if value is not None and not math.isfinite(value):
            ok, value = False, None
        kind = f"{self.kind_name} ({self.name})" if self.name else self.kind_name
        return Verdict(kind, bool(ok), expected, observed, when, None if value is None else float(value), unit)


EXPECTATIONS: Kinds[BaseExpectation] = Kinds("expectation", "mrclab.expectations", "mrclab.lab.expectations")
"""All kinds of expectations; complete once `mrclab.lab.expectations` is imported."""


class Selected(BaseExpectation):
    """An expectation about all flows, one workload or one flow."""

    by_qps = True

    traffic: TrafficName | None = None
    flow: FlowName | None = None

    def selection(self, plane: int | None = None) -> Selection:
        """Return the flows concerned."""
        return Selection(self.traffic or "", self.flow or "", plane)

    @property
    def subject(self) -> str:
        """Return the selection as words behind a noun; empty for all flows."""
        limits = self.flow or self.traffic
        return f" of {limits}" if limits else ""


_show_limit = partial(show_number, digits=6)


def show_share(share: float) -> str:
    """Format a share of one: `99.5%`."""
    return f"{share * 100:.6g}%"


class Bounds(NamedTuple):
    """Limits of a figure: `at_least`, `at_most`, or `about` with the fraction `within` which it must lie.

    Numbers, or levels, durations and depths that `resolved` makes numbers of.
    """

    at_least: Any = None
    at_most: Any = None
    about: Any = None
    within: float = 0.05

    def resolved(self, number: Callable[[Any], float]) -> "Bounds":
        """Return the same limits as numbers."""
        low, high, near = (None if limit is None else number(limit) for limit in self[:3])
        return Bounds(low, high, near, self.within)

    def contain(self, value: float) -> bool:
        """Return True if a value keeps all limits."""
        slack = 1e-9 * abs(value)
        low = self.at_least is None or value >= self.at_least - slack
        high = self.at_most is None or value <= self.at_most + slack
        near = self.about is None or abs(value - self.about) <= self.within * abs(self.about) + slack
        return low and high and near

    def text(self, show: Callable[[Any], str] = _show_limit) -> str:
        """Return the limits in words, `≥ 5, ≤ 7` or `10 ± 5%`; empty without any."""
        limits = [f"{sign} {show(limit)}" for sign, limit in zip("≥≤", self[:2], strict=True) if limit is not None]
        limits += [] if self.about is None else [f"{show(self.about)} ± {self.within * 100:g}%"]
        return ", ".join(limits)


_measuring: ContextVar[bool] = ContextVar("measuring", default=False)


def without_limits(value: Any, validate: Callable[[Any], Any]) -> Any:
    """Validate expectations that are measured and not judged: none of their limits is needed."""
    token = _measuring.set(True)
    try:
        return validate(value)
    finally:
        _measuring.reset(token)


def needs_one(*names: str, example: str) -> Any:
    """A validator for models: at least one of some fields is given."""

    def check(model: Any) -> Any:
        if not _measuring.get() and all(getattr(model, name) is None for name in names):
            raise ValueError(f"a {model.kind} expectation needs {' or '.join(names)}, such as {example}")
        return model

    return check
