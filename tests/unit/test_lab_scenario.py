"""Scenario files: valid values, and the messages for mistakes."""

import pytest
from lab_history import SCENARIO, scenario

from mrclab.lab.errors import ScenarioError
from mrclab.lab.scenario.scenario import load, loads, with_seed
from mrclab.lab.scenario.triggers import Moment, Trigger, Window
from mrclab.topo.spec import FabricSpec

GOOD = """\
name: small
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 1}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 1 MiB}
faults:
  - {name: cut, kind: link_down, link: h1-p1/t0-p1-1, at: 50% of file}
expect:
  - {kind: integrity, traffic: file}
"""


def mistakes(text: str) -> list[str]:
    with pytest.raises(ScenarioError) as error:
        loads(text, "x.yaml")
    return error.value.mistakes


def test_the_committed_scenario_is_the_fabric_of_the_demo():
    loaded = load(SCENARIO)
    assert len(loaded.fabric.switches) == 16
    assert len(loaded.fabric.hosts) == 4
    assert len(loaded.fabric.paths("h1", "h3")) == 8
    assert loaded.scenario.traffic[0].size == 64 * 2**20
    assert [(str(f.at), str(f.until)) for f in loaded.scenario.faults] == [
        ("25% of file", "75% of file"),
        ("50% of file", "75% of file"),
    ]


def test_a_cable_may_be_named_by_its_ends_in_either_order_and_becomes_its_name():
    text = GOOD.replace("h1-p1/t0-p1-1", "t0-p1-1/h1-p1")
    assert loads(text).scenario.faults[0].link == "h1-p1/t0-p1-1"


def test_an_unknown_key_is_named_with_line_and_nearest_valid_one():
    assert mistakes(GOOD + "lingr: 3s\n") == ["x.yaml:9: lingr: no such field; did you mean 'linger'?"]
    text = GOOD.replace("size: 1 MiB", "siz: 1 MiB")
    assert "x.yaml:4: traffic[1].siz: no such field; did you mean 'size'?" in mistakes(text)
    text = GOOD.replace("planes: 2", "plane: 2")
    assert mistakes(text)[0] == "x.yaml:2: fabric.plane: no such field; did you mean 'planes'?"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("planes: 2", "planes: 0", "x.yaml:2: fabric.planes: this must be at least 1 (got 0)"),
        ("planes: 2", "sample_every: 1ns, planes: 2", "fabric.sample_every: this must be at least 100ns (got '1ns')"),
        ("planes: 2", "link: {rate: 1 b/s}, planes: 2", "fabric.link.rate: this must be at least 1kb/s (got '1 b/s')"),
        ("from: h1", "from: h9", "x.yaml:4: traffic[1].from: no host is called 'h9'; there are 'h"),
        ("from: h1", "from: h2", "x.yaml:4: traffic[1]: file goes from h2 to itself; name two hosts"),
        ("1 MiB", "1 Mibble", "'1 Mibble' is not a size; write, for example, 64MiB, 4 KiB or 1000"),
        ("t0-p1-1", "t0-p9-1", "faults[1].link: no cable is called 'h1-p1/t0-p9-1'; there are 'h1-p1/t0-p1-1' to '"),
        ("of file", "of fil", "faults[1].at: no traffic is named 'fil'; did you mean 'file'?"),
        ("50% of", "150% of", "never comes"),
        ("50% of file", "soon", "no traffic or fault is named 'soon'"),
        ("link_down", "link_dwon", "x.yaml:6: faults[1]: kind 'link_dwon' is unknown; did you mean 'link_down'?"),
        ("traffic: file", "traffic: fiel", "no traffic is named 'fiel'; did you mean 'file'?"),
        ("integrity", "intergity", "x.yaml:8: expect[1]: kind 'intergity' is unknown; did you mean 'integrity'?"),
        ("name: small", "name: Not Small", "x.yaml:1: name: this is not a name; write lower-case letters"),
        ("name: file, ", "", "x.yaml:4: traffic[1].name: this field is missing"),
        ("name: cut, kind: link_down, ", "name: cut, ", "x.yaml:6: faults[1]: the field kind is missing; it says"),
    ],
)  # fmt: skip
def test_every_mistake_is_one_sentence_with_its_line(old, new, said):
    assert any(said in line for line in mistakes(GOOD.replace(old, new, 1))), mistakes(GOOD.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: small", "name: small\n---\nname: second", "x.yaml:2: this is not valid YAML: a second document begins"),
        ("name: small", "name: small\nseed: 99999999999999999999",
         "seed: this must be at most 9223372036854775807 (got 99999999999999999999)"),
        ("name: small", "name: small\ntimeout: 1e30s", "timeout: this must be at most 604800 (got 1e+30)"),
        ("name: small", "name: small\nmapper: {deny: some}",
         "x.yaml:2: mapper.deny: true or false is expected here, or 'all' (got 'some')"),
        ("name: small", "name: small\nreport: yes", "x.yaml:2: report: true or false is expected here (got 'yes')"),
        ("name: small", "name: small\nreport: 1", "x.yaml:2: report: true or false is expected here (got 1)"),
        ("name: small", "name: small\ntransport: {kind: }", "transport.kind: this field has no value; write one"),
        ("name: small", 'name: small\ntitle: "\\ud800"', "title: text is expected here"),
        ("integrity, traffic: file", "completion, traffic: file, of: flows, percentile: 101, at_most: 1s",
         "x.yaml:8: expect[1].percentile: this must be at most 100, or 'mean' (got 101)"),
        ("integrity, traffic: file", "completion, traffic: file, of: flows, percentile: men, at_most: 1s",
         "expect[1].percentile: a number is expected here, or 'mean' (got 'men')"),
        ("kind: link_down, ", "kind: jitter, delay: 1ms, ", "faults[1].jitter: this field is missing"),
        ("from: h1", "from: [h1]", "x.yaml:4: traffic[1].from: text is expected here, not a list"),
        ("from: h1", "from: ", "x.yaml:4: traffic[1].from: this field has no value; write one, or leave the field out"),
        ("kind: write", "kind: ", "x.yaml:4: traffic[1]: the field kind has no value; it says what this entry is"),
        ("50% of file", "2020-01-01", "faults[1].at: '2020-01-01' is not a time"),
        ("50% of file", "", "faults[1].at: this field has no value"),
        ("write, from: h1, to: h2", "all_to_all, hosts: [h1..h400]", "traffic[1].hosts: h1..h400: no host is called"),
        ("write, from: h1, to: h2", "all_to_all, hosts: [all, h1]", "traffic[1].hosts: all is every host; leave out"),
        ("write, from: h1, to: h2", "permutation, hosts: [h1, h2], to: [h2, h1], shift: 1",
         "traffic[1]: h1 would send to itself; name another shift, or other hosts"),
        ("write, from: h1, to: h2", "permutation, hosts: [h1], to: [h1]", "traffic[1]: h1 would send to itself"),
    ],
)  # fmt: skip
def test_odd_yaml_is_one_sentence_without_the_library_s_words(old, new, said):
    lines = mistakes(GOOD.replace(old, new, 1))
    assert len(lines) == 1, lines
    assert said in lines[0]


def test_the_largest_size_can_be_written_with_its_unit():
    assert loads(GOOD.replace("1 MiB", "1 TiB")).scenario.traffic[0].size == 2**40


@pytest.mark.parametrize("expect", ["", "expect: []\n"])
def test_a_scenario_that_expects_nothing_expects_the_least(expect):
    made = loads(GOOD[: GOOD.index("expect:")] + expect).scenario
    assert [entry.kind for entry in made.expect] == ["integrity", "qp_errors", "health"]


@pytest.mark.parametrize(
    ("delay", "said"), [("5", "5 would be 5 seconds; write 5ms, or 5s if that is"), ("0.5", "0.5")]
)
def test_a_long_delay_without_its_unit_is_refused(delay, said):
    link = f"hosts_per_t0: 1, link: {{delay: {delay}}}"
    assert said in mistakes(GOOD.replace("hosts_per_t0: 1", link))[0]
    slow = f"faults:\n  - {{name: slow, kind: delay, link: h1-p1, at: 0s, delay: {delay}}}\n"
    assert said in mistakes(GOOD.replace("faults:\n", slow))[0]
    written = loads(GOOD.replace("hosts_per_t0: 1", link.replace(delay, f"{delay}s"))).fabric.spec
    assert FabricSpec.model_validate(written.model_dump(mode="json")) == written


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("traffic:\n", "trafic:\n", "x.yaml:3: trafic: no such field; did you mean 'traffic'?"),
        ("size: 1 MiB", "siz: 1 MiB", "x.yaml:4: traffic[1].siz: no such field; did you mean 'size'?"),
        ("faults:\n", "fault:\n", "x.yaml:5: fault: no such field; did you mean 'faults'?"),
        ("link: h1", "lnk: h1", "x.yaml:6: faults[1].lnk: no such field; did you mean 'link'?"),
    ],
)
def test_one_typo_is_one_mistake(old, new, said):
    assert mistakes(GOOD.replace(old, new, 1)) == [said]


def test_a_title_of_many_pages_is_refused():
    assert "write at most 200 characters" in mistakes(GOOD + f"title: {'x' * 200_000}\n")[0]
    assert len(mistakes(GOOD + f"title: {'x' * 200_000}\n")[0]) < 500


def test_three_mistakes_get_three_messages_in_the_order_of_the_file():
    text = GOOD.replace("to: h2", "to: h7").replace("t0-p1-1", "t0-p1-8").replace("integrity", "integrty")
    lines = mistakes(text)
    assert [line.split(": ")[0] for line in lines] == ["x.yaml:4", "x.yaml:6", "x.yaml:8"]


def test_windows_and_levels_may_only_name_what_the_scenario_has():
    good = "  - {kind: goodput, name: all, window: start .. end, at_least: 1% of line}\n"
    assert loads(GOOD + good).scenario.expect[1].window == Window(Moment("start"), Moment("end"))
    assert "no moment is called 'cutt'; did you mean 'cut'?" in mistakes(GOOD + good.replace("end,", "cutt,"))[0]
    assert "no goodput is named 'lin'; did you mean 'line'?" in mistakes(GOOD + good.replace("of line", "of lin"))[0]
    none = good.replace(", at_least: 1% of line", "")
    assert "at_least" in mistakes(GOOD + none)[0]
    assert "is not a window" in mistakes(GOOD + good.replace("start .. end", "start"))[0]


def test_two_entries_of_one_name_are_refused():
    text = GOOD.replace("faults:", "  - {name: file, kind: write, from: h2, to: h1, size: 1}\nfaults:")
    assert "two entries are named 'file'" in mistakes(text)[0]


def test_yaml_that_cannot_be_read_is_said_with_its_line(tmp_path):
    assert mistakes("name: [") == [
        "x.yaml:1: this is not valid YAML: expected the node content, but found '<stream end>'"
    ]
    assert mistakes("- 1\n")[0].startswith("x.yaml:1: a scenario is a mapping")
    assert 'found duplicate key "name"' in mistakes("name: a\nname: b\n")[0]
    with pytest.raises(ScenarioError, match="there is no file"):
        load(tmp_path / "none.yaml")


def test_the_resolved_scenario_can_be_written_and_read_again():
    first = scenario().scenario
    again = type(first).model_validate(first.model_dump(mode="json", by_alias=True))
    assert again == first


def test_a_seed_from_outside_replaces_the_scenario_s():
    assert with_seed(scenario(), 7).scenario.seed == 7


def test_moments_have_offsets_in_seconds_and_round_trips():
    loaded = loads(GOOD + "  - {kind: stall, window: cut - 10ms .. cut.end + 5 rtt, max_rtts: 3}\n")
    window = loaded.scenario.expect[1].window
    assert window.at({"cut": 2.0, "cut.end": 3.0}, rtt=0.1) == (pytest.approx(1.99), pytest.approx(3.5))
    with pytest.raises(KeyError):
        window.at({"cut": 2.0}, rtt=0.1)
    assert loaded.scenario.faults[0].at == Trigger(fraction=0.5, traffic="file")


def test_a_variants_part_of_something_goes_over_its_whole_wherever_it_stands():
    text = """
name: merged
traffic: [{name: all, kind: permutation, duration: 1s}]
variants:
  - {name: one, set: &common {expect: [{kind: goodput, name: rate, window: start .. end, at_most: 50% of line}]}}
  - {name: two, set: {<<: *common, expect.rate.at_most: 60% of line}}
"""
    one, two = loads(text).runs
    assert [str(run.scenario.expect[0].at_most) for run in (one, two)] == ["50% of line", "60% of line"]


TWO_FAULTS = GOOD.replace("expect:", "  - {name: more, kind: link_down, link: h1-p2, at: 60% of file}\nexpect:")


@pytest.mark.parametrize(("fields", "left", "named"), [
    ("set: {transport: null, transport.qps: 4}", 4, {"transport", "transport.qps"}),
    ("replace: {transport.qps: 4}, set: {transport: {kind: roce}}", 4, {"transport.qps", "transport.kind"}),
    ("replace: {transport: {qps: 8}}, set: {transport: null}", 1, {"transport"}),
])  # fmt: skip
def test_a_part_that_a_variant_gives_stays_where_the_whole_is_removed_or_replaced(fields, left, named):
    (run,) = loads(f"{GOOD}transport: {{qps: 2}}\nvariants: [{{name: v, {fields}}}]\n").runs
    assert run.scenario.transport.qps == left
    assert set(run.named) == named


def test_entries_after_one_that_a_variant_removes_keep_what_it_sets():
    (run,) = loads(TWO_FAULTS + "variants: [{name: v, set: {faults.1: null, faults.2.at: 70% of file}}]\n").runs
    assert [(fault.name, str(fault.at)) for fault in run.scenario.faults] == [("more", "70% of file")]
    assert set(run.named) == {"faults.1", "faults.more.at"}
    text = TWO_FAULTS + "variants: [{name: v, set: {faults.1: null, faults.2.at: 7 weeks}}]\n"
    assert "variants[1].set.faults.2.at: '7 weeks' is not a time" in mistakes(text)[0]


AT_TRUE_SPEED = "{planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 1, link: {rate: 100 Gb/s, delay: 600ns}}"


def test_samples_may_be_as_short_as_half_of_what_hosts_are_looked_at():
    floor = "  - {kind: goodput_floor, window: start .. end, at_least: 5% of line, sample: SAMPLE}\n"
    assert (
        "hosts are sampled every 100 ms; make it 50 ms at least" in mistakes(GOOD + floor.replace("SAMPLE", "1ms"))[0]
    )
    fast = GOOD.replace("{planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 1}", AT_TRUE_SPEED) + floor
    assert loads(fast.replace("SAMPLE", "50us"), "x.yaml").scenario.expect[1].sample == pytest.approx(50e-6)
    assert "hosts are sampled every 46" in mistakes(fast.replace("SAMPLE", "5us"))[0]


def test_cables_flap_at_the_pace_of_the_fabric():
    flap = "  - {name: f, kind: flap, link: t0-p1-1/t1-p1-1, period: 400us, down: 100us, at: 0s}\nexpect:"
    text = GOOD.replace("expect:", flap)
    assert "a flap is down for at least 20 ms" in mistakes(text)[0]
    fast = text.replace("{planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 1}", AT_TRUE_SPEED)
    assert loads(fast, "x.yaml").scenario.faults[1].name == "f"
    assert "a flap is down for at least 9.2" in mistakes(fast.replace("down: 100us", "down: 1us"))[0]
