"""The survey of Clustermapper: faults from a seed, and a page that hides nothing."""

import pytest
from typer.testing import CliRunner

from mrclab.experiments.survey import cases, denial, page, record
from mrclab.experiments.survey.cases import CaseFault, SurveyCase
from mrclab.lab.command.cli import app
from mrclab.lab.errors import LabError
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

FABRIC = Fabric(FabricSpec())


def test_the_same_seed_gives_the_same_faults_and_another_seed_others():
    one, again, other = (cases.draw(FABRIC, seed, 60, 20) for seed in (1, 1, 2))
    assert one == again != other
    assert [case.number for case in one] == list(range(1, 81))


def test_single_faults_take_the_kinds_in_turn_and_a_lossy_cable_loses_one_direction():
    drawn = cases.draw(FABRIC, 1, 60, 0)
    kinds = [case.faults[0].kind for case in drawn]
    assert {kind: kinds.count(kind) for kind in kinds} == {"nic-loss": 20, "cable": 20, "t1": 20}
    for case in drawn:
        (fault,) = case.faults
        assert (fault.direction in {"up", "down"}) == (fault.kind == "nic-loss")


def test_pairs_that_no_probe_can_tell_apart_are_not_drawn():
    one, other = CaseFault("cable", "t0-p1-1/t1-p1-2"), CaseFault("cable", "t0-p1-2/t1-p1-2")
    assert not cases.is_distinguishable(FABRIC, (one, other))
    assert not cases.is_distinguishable(FABRIC, (one, CaseFault("t1", "t1-p1-2")))
    assert not cases.is_distinguishable(FABRIC, (one, one))
    assert cases.is_distinguishable(FABRIC, (one, CaseFault("cable", "t0-p1-1/t1-p1-1")))
    neighbours = CaseFault("nic-loss", "h1-p1/t0-p1-1", "up"), CaseFault("nic-loss", "h2-p1/t0-p1-1", "down")
    assert not cases.is_distinguishable(FABRIC, neighbours)
    assert all(cases.is_distinguishable(FABRIC, case.faults) for case in cases.draw(FABRIC, 3, 0, 200))


def test_a_path_is_bad_when_either_of_its_two_cables_is_broken():
    broken = ["t0-p1-1/t1-p1-2", "t0-p3-2/t1-p3-1"]
    assert denial.bad_paths(FABRIC, broken, "h1", "h3") == {(1, 2), (3, 1)}
    assert denial.bad_paths(FABRIC, broken, "h3", "h1") == {(1, 2), (3, 1)}


def said(element, cycles, state="down"):
    return {"element": element, "state": state, "rate": 1.0, "alternatives": [], "cycles": cycles}


def case(number, elements, verdicts, alarms=()):
    truth = set(elements)
    named = {v["element"]: v["cycles"] for v in verdicts if v["element"] in truth}
    known = {"kind": "case", "seed": 1, "cycle": 0.2, "controller_cpu": 3.0, **record.environment("soft")}
    faults = SurveyCase(number, tuple(CaseFault("cable", name) for name in elements)).as_json()
    found = {"verdicts": verdicts, "alarms": list(alarms), "named": named, "complete": set(named) == truth}
    return {**known, **faults, **found}


def test_the_page_counts_verdicts_false_alarms_and_what_was_never_named():
    a, b, c = "t0-p1-1/t1-p1-1", "t0-p1-1/t1-p1-2", "t0-p2-1/t1-p2-1"
    found = [
        case(1, [a], [said(a, 3.0)]),
        case(2, [b], [said(c, 2.0), said(b, 5.0)]),
        case(3, [c], []),
        case(4, [a, b], [said(a, 3.0), said(b, 9.0)], alarms=[said(c, -1.0, "lossy")]),
    ]
    assert page.verdict_shares(found) == (6, 4, 1)
    text = page.render([found, []], "clustermapper.md")
    assert "| soft | T0–T1 cable, silent | 3 | 2 (67%) | 2 of 3 (67%) | 1 | 4 | 5 | 5 |" in text
    assert "| soft | two at once | 1 | 1 (100%) | 2 of 3 (67%) | 0 | 9 | 9 | 9 |" in text
    assert f"* soft, case 2: {b} at fault; verdicts: {c} down, {b} down." in text
    assert f"* soft, case 3: {c} at fault; verdicts: nothing." in text
    assert f"* soft, case 4: {a} and {b} at fault; verdicts: {c} lossy, {a} down, {b} down." in text
    assert "case 1" not in text
    assert text.endswith("survey --target soft --seed 1\n    mrclab survey --page clustermapper.md\n")


def test_the_page_says_how_to_repeat_a_survey_in_virtual_time():
    found = [case(1, ["t0-p1-1/t1-p1-1"], []) | {"target": "virtual time"}]
    assert "\n    mrclab survey --world sim --seed 1\n" in page.render([found], "x.md")


def test_the_page_names_every_version_and_machine_of_the_records():
    found = [case(number, ["t0-p1-1/t1-p1-1"], []) for number in (1, 2, 3)]
    found[1] |= {"versions": {"mrclab": "0.0.1"}, "machine": "another one"}
    rows = [line for line in page.render([found], "x.md").splitlines() if line.startswith("| soft | 1 |")]
    assert len(rows) == 2
    assert rows[1] == "| soft | 1 | mrclab 0.0.1 | another one |"


def test_the_page_may_be_among_the_records(tmp_path):
    record.store(tmp_path / "sim").append(case(1, ["t0-p1-1/t1-p1-1"], []))
    words = ["survey", "--output", str(tmp_path), "--page", str(tmp_path / "page.md")]
    for _ in range(2):
        assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0


def test_a_page_of_no_records_is_refused(tmp_path):
    words = ["survey", "--output", str(tmp_path), "--page", str(tmp_path / "page.md")]
    assert "holds no records of a survey; run one first" in str(CliRunner().invoke(app, words).exception)


def test_records_survive_the_process_and_a_damaged_file_is_one_sentence(tmp_path):
    assert not record.store(tmp_path).open().rows
    known = {"seed": 1, "target": "soft", "versions": {}, "machine": "", "faults": [], "verdicts": [], "alarms": []}
    known |= {"named": {}, "complete": True, "cycle": 0.2, "controller_cpu": 0.0}
    for number in (1, 2):
        record.store(tmp_path).append({"kind": "case", "case": number, **known})
    with (tmp_path / record.FILE).open("a") as file:
        file.write('{"kind": "ca')  # torn: it is not there
    assert list(record.store(tmp_path).open().rows) == ["case 1", "case 2"]
    (tmp_path / record.FILE).write_text("{\n")
    with pytest.raises(LabError, match=r"survey\.jsonl, line 1 is not a row of a survey; remove the line .*--output"):
        record.store(tmp_path).open()


@pytest.mark.parametrize(
    "faults", [["--seed", "2"], ["--singles", "0"], ["--doubles", "19"], ["--singles", "60", "--doubles", "0"]]
)
def test_records_of_other_faults_are_not_gone_on_with(tmp_path, faults):
    for drawn in cases.draw(FABRIC, 1, 60, 20):
        record.store(tmp_path / "sim").append(case(drawn.number, [], [], []) | drawn.as_json())
    words = ["survey", "--world", "sim", "--output", str(tmp_path), *faults]
    refused = str(CliRunner().invoke(app, words).exception)
    assert "holds records of another seed or other numbers of cases; name another directory with --output" in refused


def test_a_page_and_a_second_survey_leave_the_records_of_a_running_one_alone(tmp_path):
    folder = tmp_path / "sim"
    record.store(folder).append(case(1, ["t0-p1-1/t1-p1-1"], []))
    with (folder / record.FILE).open("a") as file:
        file.write('{"kind": "ca')  # which it is about to complete
    before = (folder / record.FILE).read_bytes()
    words = ["survey", "--world", "sim", "--output", str(tmp_path)]
    CliRunner().invoke(app, [*words, "--page", str(tmp_path / "page.md")], catch_exceptions=False)
    with record.store(folder).owned():
        assert "another process adds runs" in str(CliRunner().invoke(app, words).exception)
    assert (folder / record.FILE).read_bytes() == before
