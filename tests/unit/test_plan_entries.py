"""Table entries in the plan: shown whole, keys included."""

import io

from mrclab.lab import console
from mrclab.lab.command.runs import plan
from mrclab.lab.scenario import scenario
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec


def test_an_entry_is_shown_with_its_key():
    out = io.StringIO()
    plan.show(Fabric(FabricSpec()), None, console.console(file=out, width=160), tables=True)
    assert "trim_policy[std.egress_spec=0x1] -> set_trim" in out.getvalue()


def test_nearness_is_shown_where_it_means_something():
    text = """
name: small
fabric: {planes: 1}
traffic: [{name: file, kind: write, from: h1, to: h3, size: 1 MiB}]
expect:
  - {kind: goodput, window: start .. end, at_least: 50% of line}
  - {kind: goodput, window: start .. end, about: 50% of line}
  - {kind: goodput, window: start .. end, at_least: 50% of line, within: 10%}
"""
    loaded, out = scenario.loads(text), io.StringIO()
    plan.show(loaded.fabric, loaded.scenario, console.console(file=out, width=160))
    lines = [line for line in out.getvalue().splitlines() if "expect goodput" in line]
    assert ["within" in line for line in lines] == [False, True, True]
