"""The registry of kinds: classes of this tree and of installed packages, and what is refused."""

import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from mrclab.hosts.mrc.cc import CongestionController
from mrclab.lab.expectations import EXPECTATIONS
from mrclab.lab.expectations.base import BaseExpectation
from mrclab.lab.faults import selftest
from mrclab.lab.faults.base import FAULTS, FaultBase, LastingFault
from mrclab.lab.faults.losses import LOSS_MODELS, LossModelBase
from mrclab.lab.kinds import KindError, Kinds, kind_of
from mrclab.lab.scenario.scenario import loads
from mrclab.lab.topology import TOPOLOGIES, TopologyBase
from mrclab.lab.traffic.base import TRAFFIC, TrafficBase
from mrclab.topo.config.algorithms import CONGESTION_CONTROLS
from mrclab.topo.config.registry import Setting

OUTSIDE = """\
from typing import Literal

from outside_registry import SHAPES, Shape


@SHAPES.register
class Square(Shape):
    kind: Literal["square"]
    side: float
"""


class Shape(BaseModel):
    pass


class Circle(Shape):
    kind: Literal["circle"]
    radius: float


@pytest.fixture
def shapes():
    made = Kinds("shape", "outside.shapes", "mrclab.rpc")
    made.register(Circle)
    return made


@pytest.fixture
def outside(tmp_path, monkeypatch, shapes):
    """A package outside the tree, installed in a folder on the path; returns its module for the entry point."""
    registry = type(pytest)("outside_registry")
    registry.SHAPES, registry.Shape = shapes, Shape
    monkeypatch.setitem(sys.modules, "outside_registry", registry)
    monkeypatch.delitem(sys.modules, "outside_square", raising=False)
    info = tmp_path / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[outside.shapes]\nsquare = outside_square\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "outside_square.py"


def test_a_package_outside_adds_a_kind_by_an_entry_point(shapes, outside):
    outside.write_text(OUTSIDE)
    assert shapes.names == ("circle", "square")
    union = TypeAdapter(shapes.union())
    assert type(union.validate_python({"kind": "square", "side": 2})).__name__ == "Square"
    with pytest.raises(ValidationError, match="'circle', 'square'"):
        union.validate_python({"kind": "triangle"})


def test_a_package_outside_that_cannot_be_loaded_is_named(shapes, outside):
    outside.write_text("1 / 0\n")
    with pytest.raises(KindError, match=r"shape 'square' of outside cannot be loaded: division by zero; fix or"):
        shapes.load()


def test_two_classes_of_one_kind_and_a_class_without_are_refused(shapes):
    class Ring(Shape):
        kind: Literal["circle"]

    with pytest.raises(KindError, match="choose another name"):
        shapes.register(Ring)
    with pytest.raises(KindError, match='Shape: a kind of shape needs a field `kind: Literal\\["name"\\]`'):
        shapes.register(Shape)
    assert kind_of(Shape) is None


@pytest.mark.parametrize(
    ("kinds", "base", "missing"),
    [
        (FAULTS, LastingFault, "fault needs action_class and phrase"),
        (EXPECTATIONS, BaseExpectation, "expectation needs judge"),
        (TRAFFIC, TrafficBase, "traffic needs flows and workload"),
        (LOSS_MODELS, LossModelBase, "loss model needs lost and text"),
        (TOPOLOGIES, TopologyBase, "topology needs fabric"),
    ],
)
def test_a_class_that_lacks_a_part_of_its_kind_is_refused_as_it_is_registered(kinds, base, missing):
    class Half(base):
        kind: Literal["half"]

    with pytest.raises(KindError, match=f"^Half: a kind of {missing}$"):
        kinds.register(Half)
    assert "half" not in kinds.names


def test_a_congestion_control_that_lacks_a_method_or_takes_no_setting_of_its_own_is_refused():
    class Half(CongestionController):
        name = "half"

        def allows(self, size):
            return True

    class Deaf(Half):
        name = "deaf"
        settings = {"alpha": Setting("packets")}  # noqa: RUF012

        def __init__(self, facts, now, beta=1):
            pass

        wants_ack = snapshot = Half.allows

    class Plain(Deaf):
        name = "plain"
        settings = {"beta": ("packets", 0, 9)}  # noqa: RUF012

    controls = CONGESTION_CONTROLS["mrc"]
    with pytest.raises(KindError, match=r"^Plain: the setting beta is not a Setting, such as "):
        controls.register(Plain)
    with pytest.raises(KindError, match=r"^Half: a congestion control needs wants_ack and snapshot$"):
        controls.register(Half)
    with pytest.raises(KindError, match=r"^Deaf: the setting alpha is no parameter of its __init__; add it there$"):
        controls.register(Deaf)


@pytest.mark.parametrize("kinds", [FAULTS, EXPECTATIONS], ids=lambda kinds: kinds.family)
def test_every_kind_has_a_docstring_for_the_reference_and_says_what_it_is_in_a_scenario(kinds):
    assert len(kinds.names) > 20
    for model in kinds:
        assert (model.__doc__ or "").strip().endswith((".", "`"))


def test_an_unknown_kind_is_answered_with_the_nearest_one():
    text = "name: x\nfabric: {planes: 2}\ntraffic: [{name: a, kind: write, from: h1, to: h2, size: 1 MiB}]\n"
    with pytest.raises(Exception, match="link_down"):
        loads(text + "faults: [{name: f, kind: link_dwn, link: h1-p1, at: 1s}]\n", "x.yaml")


@pytest.mark.parametrize("kind", [["loss"], {"loss": 1}, None, 5])
def test_what_is_no_name_is_no_kind(kind):
    assert kind not in FAULTS
    assert FAULTS.get(kind, FaultBase) is FaultBase


def test_a_scenario_imports_only_the_modules_of_the_kinds_that_it_names():
    program = """
import subprocess
import sys
from pathlib import Path
from mrclab.lab.scenario.scenario import load
from pathlib import Path
load(Path("scenarios/true-speed.yaml"))
print(*(each for each in sys.modules if ".kinds." in each))
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True
    )
    assert sorted(run.stdout.split()) == ["mrclab.lab.faults.kinds.carrier", "mrclab.lab.traffic.kinds.pairs"]


def test_a_fault_without_a_self_test_is_named_and_a_bug_of_one_is_no_verdict(monkeypatch):
    class Mute(LastingFault):
        kind: Literal["mute"]

    class Buggy(Mute):
        def self_test(self, _probe):
            """Never called here: `_test` is another one."""

    def lacks_a_method(_lab, _kind):
        raise NotImplementedError

    monkeypatch.setattr(selftest, "FAULTS", {"mute": Mute, "buggy": Buggy})
    monkeypatch.setattr(selftest, "_test", lacks_a_method)
    assert selftest._verdict(None, "mute") == selftest.SelfTestVerdict(
        "mute", passed=False, detail="it has no self_test"
    )
    with pytest.raises(NotImplementedError):
        selftest._verdict(None, "buggy")
