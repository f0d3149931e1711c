"""Files that are damaged, or of something else: one sentence each that names the file, and never a traceback."""

import json
import shutil

import pytest

from mrclab.experiments.paper import comparison
from mrclab.experiments.survey import record
from mrclab.experiments.worlds.runs import Store
from mrclab.lab import history
from mrclab.lab.errors import LabError
from mrclab.lab.report import results
from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario
from mrclab.lab.ui.sources import Replay
from mrclab.topo import fabricfile
from mrclab.topo.spec import FabricSpec

SCENARIO = """
name: short
world: sim
fabric: {planes: 1, t0s: 2, t1s: 1, hosts_per_t0: 1, link: {rate_pps: 1000, delay: 1ms}}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 16 KiB}
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    parent = tmp_path_factory.mktemp("run")
    return runner.run_scenario(
        scenario.loads(SCENARIO), parent, lambda *_: None, lambda _: None, report=False
    ).directory


def cut(text):
    return text[: len(text) // 2]


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("history.jsonl", cut, "history.jsonl is not the one that the run wrote"),
        ("history.jsonl", lambda _: "", "history.jsonl is not the one that the run wrote"),
        ("fabric.yaml", cut, "fabric.yaml was not written by a lab"),
        ("run.json", lambda _: "[]", "run.json is not what a run writes"),
        ("run.json", lambda _: "{}", "run.json is not what a run writes"),
        ("run.json", lambda text: json.dumps({**json.loads(text), "history_sha256": ""}), ""),
    ],
)
def test_a_result_directory_that_was_damaged_is_named(whole, tmp_path, name, damage, said):
    place = shutil.copytree(whole, tmp_path / "run") / name
    place.write_text(damage(place.read_text(encoding="utf-8")), encoding="utf-8")
    if said:
        with pytest.raises(LabError, match=f"{tmp_path / 'run'} is not the result directory .*{said}"):
            results.load(tmp_path / "run")
    else:
        assert results.load(tmp_path / "run").verdicts


def test_a_description_of_a_newer_version_is_named_with_what_is_unknown_in_it(whole, tmp_path):
    place = shutil.copytree(whole, tmp_path / "run")
    with (place / "fabric.yaml").open("a", encoding="utf-8") as file:
        file.write("colour: blue\n")
    for read in (results.load, Replay):
        with pytest.raises(LabError, match=r"fabric.yaml was not written by a lab of this version \(.*colour"):
            read(place)


@pytest.mark.parametrize("text", ["[]", "x", "{planes: x}", "a: [", "\0"])
def test_a_fabric_that_no_lab_wrote_is_named(whole, tmp_path, text):
    place = shutil.copytree(whole, tmp_path / "run")
    (place / "fabric.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(LabError, match=r"the result directory .*fabric.yaml was not written by a lab"):
        Replay(place)


@pytest.mark.parametrize(
    "line",
    ["[1, 2]", "{}", '{"kind": 3}', '"x"', "{", '{"t": NaN, "node": "lab", "kind": "start"}',
     '{"t": 1e999, "node": "h1", "kind": "sample", "qps": []}',
     f'{{"t": {"9" * 400}, "node": "h1", "kind": "sample"}}'],
)  # fmt: skip
def test_a_line_of_a_history_that_is_no_record_is_named_but_a_last_one_that_was_cut(tmp_path, line):
    good = '{"t": 1.0, "node": "lab", "kind": "start"}\n'
    file = tmp_path / "history.jsonl"
    file.write_text(f"{good}{line}\n{good}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"history.jsonl, line 2 is not a record"):
        history.load(file)
    file.write_text(f"{good}{line}", encoding="utf-8")
    assert len(history.load(file).records) == 1


@pytest.mark.parametrize("text", ["[]", "null", "3", '{"runs": 3}', '{"runs": {}}', '{"runs": [1]}', '{"runs": [{}]}'])
def test_a_file_that_is_no_suites_is_named(tmp_path, text):
    (tmp_path / "suite.json").write_text(text, encoding="utf-8")
    with pytest.raises(LabError, match=r"suite.json is not what a suite writes; make one"):
        comparison.read_runs(tmp_path)


@pytest.mark.parametrize("line", ["{}", "[]", "3", '{"kind": "case", "seed": 1}'])
def test_a_line_that_is_no_record_of_a_survey_is_named(tmp_path, line):
    (tmp_path / record.FILE).write_text(line + "\n", encoding="utf-8")
    with pytest.raises(LabError, match=r"line 1 is not a row of a survey; .*--output"):
        record.store(tmp_path).open()


@pytest.mark.parametrize("name", ["result.json", "run.json"])
def test_what_is_no_run_is_none_in_the_comparison_of_worlds(whole, tmp_path, name):
    runner.finish(shutil.copytree(whole, tmp_path / "run"))
    found = scenario.load(tmp_path / "run" / "scenario.yaml")
    assert len(Store(tmp_path).of(found, "sim", [1])) == 1
    (tmp_path / "run" / name).write_text("[]", encoding="utf-8")
    assert Store(tmp_path).of(found, "sim", [1]) == []


def test_a_fabric_that_others_wait_for_is_there_whole_or_not_at_all(tmp_path):
    path, seen = tmp_path / "fabric.yaml", []

    class Watching(FabricSpec):
        def model_dump(self, **options):
            seen.append(path.exists())
            return super().model_dump(**options)

    spec = Watching(planes=2)
    fabricfile.store(spec, path)
    assert seen == [False]
    assert fabricfile.load(path).spec.planes == 2
    assert list(tmp_path.iterdir()) == [path]
