"""The language of scenarios beyond one write: traffic patterns, transports, triggers, variants, and what is refused."""

import json

import pytest

from mrclab.hosts.workloads.schedules import chunk
from mrclab.lab.errors import ScenarioError
from mrclab.lab.scenario import reference, schema
from mrclab.lab.scenario.files.finding import SCENARIOS
from mrclab.lab.scenario.scenario import load, loads, with_seed
from mrclab.lab.scenario.triggers import Trigger
from mrclab.lab.traffic.base import Traffic
from mrclab.topo.spec import FabricSpec

pytestmark = pytest.mark.once

TEXT = """\
name: many
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 2}
transport: {kind: mrc, qps: 2, ev_profile: {hold_down: 1s}, attributes: {remap_delay: 100ms, spray: false}}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 1 MiB}
  - {name: s, kind: stream, from: h1, to: h3, duration: 2s, rate: 80% of line, start: after file + 1s}
  - {name: lat, kind: pingpong, from: h1, to: h3, count: 10}
  - {name: perm, kind: permutation, size: 1 MiB}
  - {name: inc, kind: incast, from: all, to: h3, size: 1 MiB}
  - {name: a2a, kind: all_to_all, hosts: [h1, h2, h3], size: 64KiB, iterations: 2}
  - {name: ring, kind: ring_all_reduce, size: 1000, start: 50% of file}
  - {name: pass, kind: send_recv_ring, hosts: [h1, h3], size: 1MiB, start: cut + 500ms}
faults:
  - {name: cut, kind: link_down, link: t0-p1-1/t1-p1-1, at: after file, until: cut + 500ms}
variants:
  - {name: mrc}
  - {name: roce, title: RoCE over 16 QPs, set: {transport: {kind: roce, qps: 16}, traffic.file.size: 2 MiB}}
"""


def mistakes(text: str) -> list[str]:
    with pytest.raises(ScenarioError) as error:
        loads(text, "x.yaml")
    return error.value.mistakes


def flows(name: str, text: str = TEXT) -> list[str]:
    loaded = loads(text)
    return [f"{f.source}>{f.destination}" for f in loaded.scenario.flows(loaded.fabric) if f.traffic == name]


def test_each_pattern_says_its_flows():
    assert flows("file") == ["h1>h2"]
    assert flows("inc") == ["h1>h3", "h2>h3", "h4>h3"]
    assert flows("a2a") == ["h1>h2", "h1>h3", "h2>h3", "h2>h1", "h3>h1", "h3>h2"]
    assert flows("ring") == ["h1>h2", "h2>h3", "h3>h4", "h4>h1"]
    assert flows("pass") == ["h1>h3", "h3>h1"]


def test_a_drawn_permutation_leaves_its_t0_group_and_follows_the_seed():
    drawn = {seed: flows("perm", TEXT + f"seed: {seed}\n") for seed in range(1, 9)}
    for pairs in drawn.values():
        ends = [pair.split(">") for pair in pairs]
        assert sorted(a for a, _ in ends) == sorted(b for _, b in ends) == ["h1", "h2", "h3", "h4"]
        assert all((a in {"h1", "h2"}) != (b in {"h1", "h2"}) for a, b in ends)
    assert drawn[1] == flows("perm", TEXT + "seed: 1\n")
    assert len({tuple(pairs) for pairs in drawn.values()}) > 1


def test_a_shift_and_named_receivers_leave_nothing_to_chance():
    shifted = TEXT.replace("kind: permutation, ", "kind: permutation, shift: 1, ")
    assert flows("perm", shifted) == ["h1>h2", "h2>h3", "h3>h4", "h4>h1"]
    named = TEXT.replace("kind: permutation, ", "kind: permutation, hosts: [h1, h2], to: [h4, h3], shift: 0, ")
    assert flows("perm", named) == ["h1>h4", "h2>h3"]


def test_a_ring_s_flows_carry_every_chunk_but_one_in_each_phase():
    loaded = loads(TEXT)
    ring = loaded.scenario.traffic[6]
    sizes = [flow.size for flow in ring.flows(loaded.fabric, 1)]
    chunks = [chunk(1000, 4, place)[1] for place in range(4)]
    assert sum(chunks) == 1000
    assert sizes == [sum(chunks[(rank - step) % 4] for step in range(6)) for rank in range(4)]


@pytest.mark.parametrize("kind", ["ring_all_reduce", "all_to_all", "send_recv_ring"])
def test_a_collective_goes_on_for_so_often_or_for_so_long(kind: str) -> None:
    def entry(bound: str) -> Traffic:
        return loads(f"name: c\ntraffic:\n  - {{name: c, kind: {kind}, size: 1000{bound}}}\n").scenario.traffic[0]

    fabric = loads(TEXT).fabric
    once, thrice, timed = entry(""), entry(", iterations: 3"), entry(", duration: 2s")
    assert [flow.size for flow in thrice.flows(fabric, 1)] == [3 * (f.size or 0) for f in once.flows(fabric, 1)]
    assert {flow.size for flow in timed.flows(fabric, 1)} == {None}
    asked = [traffic.workload(fabric, "h1", 1) for traffic in (once, thrice, timed)]
    assert [(told["iterations"], told["duration"]) for told in asked] == [(1, None), (3, None), (None, 2.0)]
    assert (once.seconds, timed.seconds) == (None, 2.0)
    both = f"name: c\ntraffic:\n  - {{name: c, kind: {kind}, size: 1000, iterations: 2, duration: 2s}}\n"
    (said,) = mistakes(both)
    assert "c has both iterations and a duration; leave one of them out" in said


def test_what_agents_are_asked_follows_from_the_fabric():
    loaded = loads(TEXT)
    stream = loaded.scenario.traffic[1].workload(loaded.fabric, "h1", 2)
    spec = loaded.fabric.spec
    line = spec.planes * spec.link.rate_pps * spec.path_mtu
    assert stream["rate"] == pytest.approx(0.8 * line)
    assert stream["depth"] * stream["message"] >= 2 * line * loaded.fabric.base_rtt("h1", "h3")
    ranks = [loaded.scenario.traffic[6].workload(loaded.fabric, f"h{n}", 1)["rank"] for n in (1, 2, 3, 4)]
    assert ranks == [0, 1, 2, 3]


def test_triggers_name_moments_of_traffics_and_faults():
    scenario = loads(TEXT).scenario
    assert scenario.traffic[1].start == Trigger(seconds=1.0, moment="file.end")
    assert scenario.traffic[6].start == Trigger(fraction=0.5, traffic="file")
    assert scenario.faults[0].until == Trigger(seconds=0.5, moment="cut")
    texts = ["after file + 1s", "50% of file", "cut + 0.5s"]
    assert [str(entry.start) for entry in scenario.traffic if entry.start.name] == texts


def test_a_variant_is_a_scenario_of_its_own_that_can_be_read_again():
    loaded = loads(TEXT)
    mrc, roce = loaded.runs
    assert (mrc.scenario.name, roce.scenario.name, roce.base_name) == ("many-mrc", "many-roce", "many")
    assert (roce.scenario.transport.kind, roce.scenario.transport.qps) == ("roce", 16)
    assert (mrc.scenario.traffic[0].size, roce.scenario.traffic[0].size) == (2**20, 2**21)
    assert roce.fabric.spec.last_hop_ecn
    assert not mrc.fabric.spec.last_hop_ecn
    again = loads(roce.text)
    assert again.scenario == roce.scenario
    assert again.fabric.spec == roce.fabric.spec


def test_a_section_that_a_variant_sets_keeps_what_it_does_not_name_and_one_that_it_replaces_does_not():
    base = TEXT[: TEXT.index("variants:")]
    rows = "  - {name: a, set: {fabric: {trimming: false}}}\n  - {name: b, replace: {fabric: {trimming: false}}}\n"
    merged, replaced = (run.fabric.spec for run in loads(f"{base}variants:\n{rows}").runs)
    assert merged == loads(base).fabric.spec.model_copy(update={"trimming": False})
    assert replaced == FabricSpec(trimming=False)
    assert merged != replaced


def test_a_seed_from_outside_reaches_the_text_and_every_variant():
    loaded = with_seed(loads(TEXT), 7)
    assert {one.scenario.seed for one in (loaded, *loaded.runs)} == {7}
    assert {loads(one.text).scenario.seed for one in (loaded, *loaded.runs)} == {7}


def test_a_variant_that_does_not_exist_is_refused_with_the_nearest():
    with pytest.raises(ScenarioError, match="no variant is named 'roc'; did you mean 'roce'"):
        loads(TEXT).pick("roc")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("hold_down", "hold_dwn", "x.yaml:3: transport.ev_profile.hold_dwn: no such field; did you mean 'hold_down'?"),
        ("remap_delay", "remap", "x.yaml:3: transport.attributes.remap: no such field; did you mean"),
        ("spray: false", "dcqcn: {cnp_interval: 1}", "attributes.dcqcn.cnp_interval: no such field; did you mean"),
        ("spray: false", "spray: 7", "x.yaml:3: transport.attributes.spray: true or false is expected here"),
        ("kind: mrc, ", "kind: mrc, congestion_control: dcqcn, ", "x.yaml:3: transport: mrc has no congestion control"),
        ("after file + 1s", "after fle", "x.yaml:6: traffic[2].start: no traffic or fault is named 'fle'; did you"),
        ("80% of line", "80%", "x.yaml:6: traffic[2].rate: '80%' is not a rate; write, for example, 80% of line"),
        ("duration: 2s", "size: 1, duration: 1s", "x.yaml:6: traffic[2]: s needs either a size or a duration"),
        ("permutation", "permuttion", "x.yaml:8: traffic[4]: kind 'permuttion' is unknown; did you mean 'permutation'"),
        ("[h1, h2, h3]", "[h1, h9]", "x.yaml:10: traffic[6].hosts[2]: no host is called 'h9'; there are"),
        ("[h1, h2, h3]", "[h1, h1]", "x.yaml:10: traffic[6].hosts: h1 is named twice"),
        ("until: cut", "until: cutt", "x.yaml:14: faults[1].until: no traffic or fault is named 'cutt'; did you"),
        ("name: inc", "name: perm", "two entries are named 'perm'"),
        ("qps: 16", "qps: 600", "x.yaml:17: variants[2].set.transport: qps: this must be at most 64"),
        ("file.size", "fiel.size", "x.yaml:17: variants[2].set.traffic.fiel.size: no entry is named 'fiel'; did you"),
        ("2 MiB}", "2 Mib ble}", "x.yaml:17: variants[2].set.traffic.file.size: '2 Mib ble' is not a size"),
        ("file.size", "file.siz", "x.yaml:17: variants[2].set.traffic.file.siz: no such field; did you mean 'size'?"),
        ("kind: roce, ", "kind: rose, ", "variants[2].set.transport: kind: 'rose' is unknown; did you mean 'roce'?"),
        ("name: roce", "name: mrc", "x.yaml:15: variants: two entries are named 'mrc'"),
    ],
)  # fmt: skip
def test_every_mistake_is_one_sentence_with_its_line(old, new, said):
    assert old in TEXT
    found = mistakes(TEXT.replace(old, new, 1))
    assert any(said in line for line in found), found


def test_a_kind_with_a_field_of_its_own_name_still_knows_its_fields():
    text = TEXT.replace("kind: link_down,", "kind: delay, dely: 5ms,")
    assert any("faults[1].dely: no such field; did you mean 'delay'?" in line for line in mistakes(text))


def test_three_mistakes_in_three_sections_get_three_messages():
    text = (
        TEXT.replace("spray", "spry").replace("from: all", "from: al").replace("traffic.file.size", "traffic.fil.size")
    )
    assert [line.split(": ")[0] for line in mistakes(text)] == ["x.yaml:3", "x.yaml:9", "x.yaml:17"]


TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}


def fits(node, value, whole):
    """Return True if a value fits a schema, of which it knows the words that `schema.build` uses."""
    if "$ref" in node:
        return fits(whole["$defs"][node["$ref"].removeprefix("#/$defs/")], value, whole)
    options = node.get("anyOf") or node.get("oneOf") or [{}]
    types = [node["type"]] if isinstance(node.get("type"), str) else node.get("type", [])
    known, more = node.get("properties", {}), node.get("additionalProperties", True)
    inner = [(node.get("items", {}), one) for one in value] if isinstance(value, list) else []
    if isinstance(value, dict) and "object" in types:
        inner = [(known.get(name, more), one) for name, one in value.items()]
    return (
        (len(options) == 1 or any(fits(one, value, whole) for one in options))
        and value in node.get("enum", [node.get("const", value)])
        and (not types or any(value is None if one == "null" else isinstance(value, TYPES[one]) for one in types))
        and (not isinstance(value, dict) or set(node.get("required", ())) <= set(value))
        and all(fits(one, part, whole) if isinstance(one, dict) else one for one, part in inner)
    )


def test_all_committed_scenarios_are_valid_and_described():
    paths, whole = sorted(SCENARIOS.rglob("*.yaml")), json.loads(schema.FILE.read_text())
    assert paths
    for path in paths:
        loaded = load(path)
        assert fits(whole, loaded.content.data, whole), f"{path} does not fit the schema"
        assert not fits(whole, {**loaded.content.data, "traffic": "all"}, whole)
        assert loaded.scenario.title, f"{path} needs a title"
        assert loaded.scenario.expect or all(one.scenario.expect for one in loaded.runs), f"{path} expects nothing"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("percentile", ["", ", percentile: mean", ", percentile: 50"])
def test_what_was_read_can_be_said_again_without_a_warning(percentile):
    expect = f"expect: [{{kind: completion, traffic: perm, at_most: 1s{percentile}}}]\n"
    said = loads(TEXT + expect, "x.yaml").scenario.expect[0].model_dump(mode="json")
    assert said["percentile"] in {99, "mean", 50}


def test_the_schema_in_docs_is_that_of_the_models():
    assert json.loads(schema.FILE.read_text()) == json.loads(json.dumps(schema.build())), (
        "docs/scenario.schema.json is not current; run python -m mrclab.lab.scenario.schema"
    )


def test_the_reference_in_docs_is_that_of_the_models():
    assert reference.FILE.read_text() == reference.build(), (
        "docs/scenario-reference.md is not current; run python -m mrclab.lab.scenario.reference"
    )
