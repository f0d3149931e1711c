"""A fault of the busiest cable finds the one that traffic uses."""

from mrclab.lab.faults.families import CableFault
from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario

SCENARIO = """\
name: busy
world: sim
fabric: {{planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 2, link: {{rate: 100 Gb/s, delay: 600ns}}}}
traffic: [{{name: file, kind: write, from: h1, to: h3, size: 1 MiB, paths: [{{plane: 2, uplink: 2}}]}}]
faults: [{{name: cut, kind: {}, link: busiest, at: 30% of file, until: cut + 20us}}]
expect: [{{kind: integrity}}]
"""


def begun(tmp_path, kind):
    loaded = scenario.loads(SCENARIO.format(kind))
    found = runner.run_scenario(loaded, tmp_path, lambda *_: None, lambda _: None, report=False)
    return next(iter(found.measures.history.of("fault.begin")))


def test_the_busiest_cable_is_looked_for_when_the_fault_begins(tmp_path):
    record = begun(tmp_path, "link_down")
    assert record["link"] in {"t0-p2-1/t1-p2-2", "t0-p2-2/t1-p2-2"}
    assert record["text"] == f"{record['link']} down"


def test_until_then_it_concerns_no_cable():
    (fault,) = scenario.loads(SCENARIO.format("link_down")).scenario.faults
    assert isinstance(fault, CableFault)
    assert fault.links(scenario.loads(SCENARIO.format("link_down")).fabric) == ()
