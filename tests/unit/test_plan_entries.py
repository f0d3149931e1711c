"""Table entries in the plan: shown whole, keys included."""

import io

from mrclab.lab import console
from mrclab.lab.command.runs import plan
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec


def test_an_entry_is_shown_with_its_key():
    out = io.StringIO()
    plan.show(Fabric(FabricSpec()), None, console.console(file=out, width=160), tables=True)
    assert "trim_policy[std.egress_spec=0x1] -> set_trim" in out.getvalue()
