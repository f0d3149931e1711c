"""Variants side by side: one row per expectation, means over runs, and what is no result left out."""

import json
import shutil
from types import SimpleNamespace

import pytest
from lab_history import NIC, RTT, records, scenario, store
from PIL import Image

from mrclab.lab.errors import LabError
from mrclab.lab.expectations import Verdict
from mrclab.lab.history import Record
from mrclab.lab.measure.intervals import summary
from mrclab.lab.report import compare, suitereport
from mrclab.lab.report.plots import compare as plots
from mrclab.lab.report.plots import style
from mrclab.lab.run import runner, suite
from mrclab.lab.scenario.scenario import loads

pytestmark = pytest.mark.once


@pytest.fixture
def runs(tmp_path):
    """Result directories of two variants: one run of the first; of the second a slower one and an invalid one."""

    def slower(r):
        if r.kind != "sample":
            return r
        ports = [port | {"placed_bytes": port["placed_bytes"] * 0.8} for port in r.data["ports"]]
        return Record(r.t, r.node, r.kind, {**r.data, "ports": ports})

    late = Record(NIC, "h3", "sample", {"qps": [], "ports": [], "late": 2 * RTT})
    histories = {
        ("fast", "a"): records(),
        ("slow", "b"): [slower(r) for r in records()],
        ("slow", "c"): [*records(), late],
    }
    for (variant, name), history in histories.items():
        directory = tmp_path / name
        directory.mkdir()
        (directory / "scenario.yaml").write_text(scenario().text)
        info = {"scenario": "x", "variant": variant, "seed": 1, "trouble": "", "versions": {}, "machine": {}}
        (directory / "run.json").write_text(json.dumps({**info, "target": "soft", "finished": "now"}))
        store(history, directory / "history.jsonl")
        runner.finish(directory)
    return [compare.read(tmp_path / name) for name in "abc"]


def test_the_page_shows_every_figure_by_variant_and_names_what_it_leaves_out(runs, tmp_path):
    page = compare.compare(runs, tmp_path / "out", "Fast and slow", name="speeds")
    text = page.read_text()
    assert page.name == "speeds.html"
    for words in ("2 variants: fast, slow", "goodput ≥ 90% of line", "100%", "80%", "the machine let h3 wait"):
        assert words in text
    pictures = sorted(path.name for path in (tmp_path / "out").glob("*.png"))
    assert pictures == ["speeds-figures.png", "speeds-goodput.png"]


def test_runs_of_one_variant_on_different_switches_have_columns_of_their_own(runs, tmp_path):
    other = tmp_path / "a2"
    shutil.copytree(tmp_path / "a", other)
    info = json.loads((other / "run.json").read_text())
    (other / "run.json").write_text(json.dumps(info | {"target": "bmv2"}))
    labels = [member.label for member in compare.read_all([tmp_path / "a", tmp_path / "b", other])]
    assert labels == ["fast (soft)", "slow (soft)", "fast (bmv2)"]
    same = compare.read_all([tmp_path / name for name in "abc"])
    assert [member.label for member in same] == ["fast", "slow", "slow"]
    (other / "run.json").write_text(json.dumps(info | {"target": "virtual time"}))
    in_both = compare.read_all([tmp_path / "a", other])
    assert [member.label for member in in_both] == ["fast (soft)", "fast (virtual time)"]
    with_variant = compare.read_all([tmp_path / "b", other])
    assert [member.label for member in with_variant] == ["slow (soft)", "fast (virtual time)"]
    page = compare.compare(in_both, tmp_path / "out", "Both worlds").read_text()
    assert "2 variants: fast (soft), fast (virtual time)" in page


def test_runs_of_a_scenario_that_was_changed_between_them_have_columns_of_their_own(runs, tmp_path):
    changed = tmp_path / "c" / "scenario.yaml"
    changed.write_text(changed.read_text().replace("seed: 1", "seed: 2"))
    assert [member.label for member in compare.read_all([tmp_path / "b", tmp_path / "c"])] == ["slow", "slow"]
    changed.write_text(changed.read_text().replace("at_least: 90%", "at_least: 80%"))
    members = compare.read_all([tmp_path / name for name in "abc"])
    assert [member.label for member in members] == ["fast", "slow (b)", "slow (c)"]


def test_a_run_whose_target_is_unknown_keeps_the_name_of_its_variant(runs, tmp_path):
    info = json.loads((tmp_path / "a" / "run.json").read_text())
    unknown = {name: value for name, value in info.items() if name != "target"}
    for name, other in (("virtual", info | {"target": "virtual time"}), ("aborted", unknown)):
        shutil.copytree(tmp_path / "a", tmp_path / name)
        (tmp_path / name / "run.json").write_text(json.dumps(other))
    found = compare.read_all([tmp_path / name for name in ("a", "virtual", "aborted")])
    assert [member.label for member in found] == ["fast (soft)", "fast (virtual time)", "fast"]
    assert [member.label for member in compare.read_all([tmp_path / "a", tmp_path / "aborted"])] == ["fast", "fast"]


MERGED = """\
name: two
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 1, link: {rate_pps: 250, delay: 4ms}}
transport: {kind: mrc, qps: 2}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 1 MiB}
variants:
  - {name: plain}
  - {name: other, VARIANT}
"""


def of_variants(tmp_path, other):
    """Result directories of the two variants, as far as their scenarios go."""
    found = []
    for run in loads(MERGED.replace("VARIANT", other)).runs:
        directory = tmp_path / run.variant
        directory.mkdir()
        (directory / "scenario.yaml").write_text(run.text)
        info = {"variant": run.variant, "base": run.base_name, "named": run.named}
        (directory / "run.json").write_text(json.dumps(info))
        found.append(compare.Member(run.variant, directory, []))
    return found


@pytest.mark.parametrize(
    ("other", "also"),
    [
        ("set: {fabric: {trimming: false}}", []),
        ("set: {traffic.1.size: 2 MiB}", []),
        ("replace: {fabric: {trimming: false}}", ["fabric.planes (2 in plain; 4 in other)", "fabric.link.rate_pps"]),
        ("set: {transport: {kind: roce, qps: 2}}", ["fabric.last_hop_ecn (False in plain; True in other)"]),
    ],
)
def test_variants_that_differ_in_what_they_do_not_name_are_told_apart(tmp_path, other, also):
    told = compare.unnamed(of_variants(tmp_path, other))
    assert bool(told) == bool(also)
    for field in also:
        assert any(field in line for line in told), told


def test_the_world_is_no_hidden_difference_of_variants_since_labels_name_it(tmp_path):
    one, other = of_variants(tmp_path, "set: {}")
    scenario_file = other.directory / "scenario.yaml"
    scenario_file.write_text(f"world: sim\n{scenario_file.read_text()}")
    assert compare.unnamed([one, other]) == []


def test_rows_hold_all_runs_of_a_variant():
    def run(label, value, ok=True):
        return compare.Member(label, None, [Verdict("jain", ok, "fair", "", "", value, "")])

    (row,) = compare.rows([run("mrc", 0.9), run("mrc", 0.99), run("mrc", 0.95, ok=False), run("roce", None)])
    assert row.values == {"mrc": [0.9, 0.99, 0.95]}
    assert row.passed == {"mrc": (2, 3), "roce": (1, 1)}
    assert list(row.figures) == ["mrc"]


def test_labels_beside_lines_are_whole_however_long():
    figure, (axes,) = style.panels([2.8])
    long = "true-speed (true-speed-20261129-004747)"
    style.label_lines(axes, [(0.5, long, style.BLUE), (0.5, "mrc\nMMMMMMMMMMMMMMMM", style.BLUE)])
    shown = [text.get_text() for text in axes.texts]
    assert sorted(text.replace("\n", "").replace(" ", "") for text in shown) == [
        "mrcMMMMMMMMMMMMMMMM",
        long.replace(" ", ""),
    ]
    assert all(text.get_window_extent().x1 <= figure.bbox.x1 for text in axes.texts)


def test_an_interval_is_around_the_figure_beside_it():
    figure = summary([1.0, 1.0, 4.0])
    assert (figure.low, figure.high) == pytest.approx((-2.303, 6.303), abs=1e-3)
    assert compare.show(figure, "RTT") == "2 ± 4.3 RTT"
    row = suite.Repeated("a", "completion", "", 3, 3, "RTT", figure)
    assert suitereport._numbers(row) == ("2 RTT", "-2.303 … 6.303 RTT")


def test_a_row_of_variants_that_expect_different_limits_shows_each_limit_with_its_variants():
    def run(label, expected):
        return compare.Member(label, None, [Verdict("spread", True, expected, "", "", 0.5, "")])

    (row,) = compare.rows([run("mrc", "spread ≥ 0.9"), run("roce", "spread ≤ 0.75"), run("roce-8", "spread ≤ 0.75")])
    assert row.title == "spread ≥ 0.9 (mrc); spread ≤ 0.75 (roce, roce-8)"


def test_variants_with_expectations_of_their_own_share_the_rows_of_equal_ones():
    def run(label, *kinds):
        return compare.Member(label, None, [Verdict(kind, True, f"all {kind}", "", "", 1.0, "") for kind in kinds])

    found = compare.rows([run("mrc", "jain", "health"), *[run("roce", "drops", "jain", "health")] * 2])
    assert [(row.title, list(row.figures)) for row in found] == [
        ("all jain", ["mrc", "roce"]), ("all drops", ["roce"]), ("all health", ["mrc", "roce"])
    ]  # fmt: skip
    assert found[2].passed == {"mrc": (1, 1), "roce": (2, 2)}


def test_bars_of_a_variant_show_the_runs_of_their_own_expectation(tmp_path, monkeypatch):
    def member(label, **values):
        return compare.Member(label, None, [Verdict(kind, True, kind, "", "", v, "") for kind, v in values.items()])

    members = [member("mrc", jain=0.9), *[member("roce", drops=5.0, jain=v) for v in (0.7, 0.8)]]
    drawn = []
    monkeypatch.setattr(plots, "bars", lambda groups, _path: drawn.extend(groups))
    monkeypatch.setattr(plots, "over_time", lambda *_: False)
    compare._draw({"mrc": SimpleNamespace(flows=[]), "roce": SimpleNamespace(flows=[])}, members, tmp_path / "stem")
    assert [(row.title, row.values) for row in drawn] == [("jain", {"mrc": [0.9], "roce": [0.7, 0.8]})]


def test_a_directory_without_a_result_is_refused(tmp_path):
    with pytest.raises(LabError, match=r"it has no result\.json; name one"):
        compare.read(tmp_path)


def test_bars_and_curves_are_drawn_and_nothing_is_without_any(tmp_path):
    row = compare.ComparisonRow("retained", "of no loss", {"mrc": [0.88, 0.92], "roce": [0.14]}, {})
    assert plots.bars([row], tmp_path / "bars.png")
    curves = [
        plots.Curve("mrc", [1, 10], [5, 9], [4, 8], [6, 10]),
        plots.Curve("none", [], []),
    ]
    assert plots.lines(curves, tmp_path / "lines.png", "size, MiB", "MB/s")
    assert not plots.lines([], tmp_path / "none.png", "", "")
    for name in ("bars.png", "lines.png"):
        with Image.open(tmp_path / name) as image:
            assert image.width == 1210


def test_a_run_that_broke_off_is_left_out_with_its_reason(runs, tmp_path):
    info = json.loads((tmp_path / "a" / "run.json").read_text())
    (tmp_path / "a" / "run.json").write_text(json.dumps({**info, "trouble": "the controller ended"}))
    runner.finish(tmp_path / "a")
    member = compare.read(tmp_path / "a")
    assert (member.verdicts[0].kind, member.invalid) == ("run", "the controller ended")
    text = compare.compare([member, *runs[1:]], tmp_path / "out", "Fast and slow").read_text()
    assert "Left out, because they are invalid or were aborted:" in text
    assert "the controller ended" in text
    assert "the run completes" not in text


def test_results_of_earlier_versions_are_read(runs, tmp_path):
    for path in tmp_path.glob("*/result.json"):
        result = json.loads(path.read_text())
        for row in result["verdicts"]:
            row["wanted"], row["saw"] = row.pop("expected"), row.pop("observed")
        path.write_text(json.dumps(result))
    assert [compare.read(tmp_path / name).verdicts for name in "abc"] == [run.verdicts for run in runs]


@pytest.mark.parametrize(("seconds", "shown"), [(12.5e-6, "12.5 µs"), (0.0452, "45.2 ms"), (31.0, "31 s")])
def test_times_are_shown_in_the_unit_that_fits_them(seconds, shown):
    assert compare.show(summary([seconds]), "s") == shown


def test_pictures_of_times_name_the_unit_that_fits_them(tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(plots.style, "save", lambda figure, path: drawn.update({path.stem: figure}) or True)
    plots.distributions({"a": [10e-6, 30e-6], "b": [20e-6, 90e-6]}, tmp_path / "times.png", "flows of jobs")
    (axes,) = drawn["times"].axes
    assert axes.get_xlabel() == "flows of jobs, µs"
    assert max(axes.lines[-2].get_xdata()) == pytest.approx(90)
    plots.bars([compare.ComparisonRow("p99", "s", {"a": [30e-6], "b": [80e-6, 100e-6]}, {})], tmp_path / "bars.png")
    axes = drawn["bars"].axes[0]
    assert axes.get_xlabel() == "µs"
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([30, 90])


@pytest.mark.parametrize(
    ("values", "unit", "shown"),
    [([0.9], "of line", "90% of line"), ([0.9, 0.8], "of line", "85 ± 64% of line"), ([4.0], "RTT", "4 RTT")],
)
def test_figures_are_shown_with_their_unit(values, unit, shown):
    assert compare.show(summary(values), unit) == shown
