"""The study of completion times in a reduced form: its campaign file, its tables, its figure."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mrclab.experiments.campaign import cli, figure, journal, work
from mrclab.experiments.runs import processes
from mrclab.lab.command.cli import app
from mrclab.lab.errors import LabError, ScenarioError

STUDY = Path(__file__).parents[2] / "experiments" / "study" / "completion-campaign.yaml"
NAMES = ("there", "back", "there2", "back2")
SMALL = {  # four hosts, 32 KiB, four uplinks
    "fabric.t1s": "4", "fabric.hosts_per_t0": "2", "faults.lossy.rate": "2%",
    "transport.ev_profile.active_per_plane": "4", **{f"traffic.{name}.size": "32 KiB" for name in NAMES},
    **{f"traffic.{name}.hosts": "[h1..h2]" if name[0] == "t" else "[h3, h4]" for name in NAMES},
    **{f"traffic.{name}.to": "[h3..h4]" if name[0] == "t" else "[h1, h2]" for name in NAMES},
}  # fmt: skip


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Path:
    """The directory of a campaign of ten runs."""
    directory = tmp_path_factory.mktemp("study")
    sets = [word for path, value in SMALL.items() for word in ("--set", f"{path}={value}")]
    words = ["campaign", str(STUDY), "--seeds", "1,2", *sets, "--workers", "1", "--output", str(directory)]
    with pytest.MonkeyPatch.context() as patch:  # no process of its own: what a worker is, test_campaign.py tests
        patch.setattr(processes, "rows", lambda jobs, *_: ((job, work.run(job)) for job in jobs))
        done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return directory


def test_each_variant_sweeps_its_own_fields(study):
    rows = list(journal.Journal(study).read())
    assert len(rows) == 2 * (3 + 2)
    field = "transport.ev_profile.active_per_plane"
    assert all((field in row["values"]) == (row["variant"][:4] != "roce") for row in rows)
    assert {len(row["flows"]) for row in rows} == {8}
    assert all(slow >= 1 for row in rows for *_, slow in row["flows"])
    assert all(began < ended for row in rows for _, _, began, ended, _ in row["flows"])


def test_the_table_of_flows_has_a_row_for_each_and_units(study):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(study / journal.FLOWS)
    assert table.num_rows == 10 * 8
    assert table.schema.field("ended").metadata == {b"unit": b"s"}
    assert set(table.column("bytes").to_pylist()) == {32 * 1024}


def test_percentiles_are_pooled_over_seeds(study):
    rows = list(journal.Journal(study).read())
    field = "transport.ev_profile.active_per_plane"
    points = figure.points_of(rows, figure.measure(rows, "p50"), field, "variant", "faults.lossy.rate", 4)
    assert len(points) == 3 + 2
    one = next(point for point in points if (point.by, point.column, point.x) == ("reps", "2%", 16))
    assert one.count == 16
    mine = sorted(
        (ended - began) * 1e6
        for row in rows
        if row["variant"] == "reps" and row["values"][field] == 4
        for _, _, began, ended, _ in row["flows"]
    )
    assert mine[7] <= one.value <= mine[8]
    assert one.low <= one.high
    assert {point.x for point in points if point.by == "roce-1"} == {None}


def flows_of(seed, *ended):
    """A row of a run with a flow for each time at which one ended, in µs; None: it failed."""
    flows = [["all", 1, 0.0, end and end * 1e-6, end] for end in ended]
    return {"variant": "", "values": {"f": 1}, "seed": seed, "state": "passed", "verdicts": {}, "flows": flows}


@pytest.mark.parametrize(
    ("seeds", "shown"),
    [
        ([(1, 2, 3), (1, 2, 4), (1, 4, 4)], "2 (-0.202 … 5.535)"),
        ([(1, 2, 3), (1, 2, 4), (1, None, None)], "2"),  # the seeds that are left would be a false interval
        ([(1, 2, None), (None, None, None)], "–"),
    ],
)
def test_a_seed_whose_flows_failed_is_left_out_of_neither_figure_nor_interval(seeds, shown, tmp_path):
    rows = [flows_of(seed, *ended) for seed, ended in enumerate(seeds)]
    points = figure.points_of(rows, figure.measure(rows, "p50"), "f", "variant", "")
    plotted = figure.Plotted([(figure.measure(rows, "p50"), points)], "", "f", "variant", "", "")
    assert figure.markdown(plotted).splitlines()[-1] == f"| | 1 | {3 * len(seeds)} | {shown} |".replace("| |", "|  |")
    figure.draw(plotted).savefig(tmp_path / "figure.png")


def test_the_figure_and_its_table(study, tmp_path):
    pytest.importorskip("matplotlib")
    words = ["figure", str(study), "--x", "transport.ev_profile.active_per_plane", "--columns", "faults.lossy.rate"]
    words += ["--y", "p50", "--y", "p99", "--output", str(tmp_path / "f.svg"), "--table", str(tmp_path / "f.md")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "<svg" in (tmp_path / "f.svg").read_text(encoding="utf-8")
    lines = (tmp_path / "f.md").read_text(encoding="utf-8").splitlines()
    assert "completion p99, µs" in lines[0]
    assert len(lines) == 2 + 5
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert told["picture"].endswith("f.svg")
    assert all(point["value"] > 0 for point in told["measures"]["completion p50, µs"])


def test_a_field_that_nobody_swept_is_named(study):
    rows = list(journal.Journal(study).read())
    with pytest.raises(LabError, match="write p99, or the name of an expectation"):
        figure.measure(rows, "p101")
    with pytest.raises(LabError, match="--y p²: write p99"):
        figure.measure(rows, "p²")
    done = CliRunner().invoke(app, ["figure", str(study), "--x", "fabric.t0s", "--y", "p50"])
    assert done.exit_code != 0


def test_a_wrong_field_of_a_campaign_file_is_named(tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text("scenario: a.yaml\nseed: 1\n", encoding="utf-8")
    with pytest.raises(LabError, match=r":\d+: seed: no such field; did you mean 'seeds'"):
        cli.read(path)


def test_mistakes_of_a_campaign_file_have_their_lines_and_no_words_of_the_library(tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text("scenario: a.yaml\nseeds: [1, 2]\nflows: maybe\nsweep:\n  fabric.t1s: 4\n", encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        cli.read(path)
    assert caught.value.mistakes == [
        f"{path}:2: seeds: text is expected here, not a list",
        f"{path}:5: sweep.fabric.t1s: a list is expected here; begin every entry with a dash (got 4)",
        f"{path}:3: flows: true or false is expected here (got 'maybe')",
    ]


def test_a_figure_without_a_known_format_or_a_scale_is_refused(tmp_path):
    words = ["figure", str(swept(tmp_path / "c", [1, 2])), "--x", "link.delay", "--y", "limit"]
    done = CliRunner().invoke(app, [*words, "--output", str(tmp_path / "f.foo")])
    assert str(done.exception) == f"--output {tmp_path / 'f.foo'}: name a picture that ends in .png, .svg, .pdf"
    for scale in ("0", "nan"):
        assert CliRunner().invoke(app, [*words, "--scale", scale]).exit_code == 2


def test_a_figure_of_what_is_no_campaign_asks_for_another(tmp_path):
    (tmp_path / "campaign.json").write_text("{}")
    with pytest.raises(LabError, match=r"does not belong to a campaign; name another directory$"):
        figure.plotted(tmp_path, "x", ["y"])


def test_a_figure_of_one_line_without_a_name_has_no_legend(tmp_path):
    pytest.importorskip("matplotlib")
    found = figure.plotted(swept(tmp_path / "c", [1, 2]), "link.delay", ["limit"])
    assert not figure.draw(found).legends
    assert figure.draw(figure.plotted(swept(tmp_path / "d", [1], ("a", "b")), "link.delay", ["limit"])).legends


def test_columns_of_plots_have_a_title_and_logarithmic_axes_plain_numbers(tmp_path):
    pytest.importorskip("matplotlib")
    found = figure.plotted(swept(tmp_path / "c", [1, 500]), "variant", ["limit"], columns="link.delay")
    drawn = figure.draw(found)
    drawn.canvas.draw()
    assert [title(axis) for axis in drawn.axes] == ["delay 1", "delay 500"]
    labels = {tick.get_text() for tick in drawn.axes[0].get_yticklabels(which="both")}
    assert {"0.1", "0.2", "0.5", "1"} < labels
    assert all(not label or float(label) for label in labels)
    named = figure.plotted(tmp_path / "c", "variant", ["limit"], columns="link.delay", columns_label="one way, approx.")
    assert title(figure.draw(named).axes[0]) == "one way, approx. 1"
    assert "| one way, approx. |" in figure.markdown(named)
    assert "| link.delay |" in figure.markdown(found)


def title(axis):
    return axis.get_title() or axis.get_title("left")  # where the report's style has it


def swept(directory, values, names=("",)):
    """Write a made-up campaign: one field, two seeds, rows in the order in which workers might end."""
    table = journal.Journal(directory)
    for place, value in enumerate(values):
        for seed in (1, 2):
            for name in names:
                verdict = {"ok": True, "value": place + seed / 10, "unit": "s", "expected": "", "observed": ""}
                table.append({"variant": name, "seed": seed, "values": {"link.delay": value}, "state": "passed",
                              "error": "", "seconds": 1.0, "verdicts": {"limit": verdict}})  # fmt: skip
    return directory


def test_a_figure_is_called_as_its_expectation_is_named(tmp_path):
    def row(*kinds):
        verdict = {"ok": True, "value": 2.0, "unit": "s", "expected": "", "observed": ""}
        return {"variant": "", "values": {}, "verdicts": dict.fromkeys(kinds, verdict)}

    assert figure.measure([row("completion (p99)", "jain")], "p99").label == "completion (p99), s"
    assert figure.measure([row("recover (back)")], "back").pooled([row("recover (back)")]) == (1, 2.0)
    with pytest.raises(LabError, match=r"known here: goodput \(x\), jain \(x\)"):
        figure.measure([row("goodput (x)", "jain (x)")], "x")


def drawn(directory, tmp_path, *more):
    words = ["figure", str(directory), "--x", "link.delay", "--y", "limit", "--json", *more]
    words += ["--output", str(tmp_path / "f.svg"), "--table", str(tmp_path / "f.md")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("given", "unit", "places"),
    [
        (["2us", "600ns", "1us"], "µs", [0.6, 1, 2]),
        (["1%", 0, "0.5%"], "%", [0, 0.5, 1]),
        (["2 MiB", "64 KiB"], "KiB", [64, 2048]),
        (["2 MB", "1500"], "kB", [1.5, 2000]),
        (["400 Gb/s", "1.6 Tb/s", "100 Gb/s"], "Gb/s", [100, 400, 1600]),
        (["90% of line", "5% of line"], "% of line", [5, 90]),
        ([10, 9], "", [9, 10]),
    ],
)
def test_swept_quantities_stand_in_order_on_an_axis_with_their_unit(tmp_path, given, unit, places):
    pytest.importorskip("matplotlib")
    told = drawn(swept(tmp_path / "c", given), tmp_path)
    assert told["x_unit"] == unit
    (points,) = told["measures"].values()
    assert [point["x"] for point in points] == pytest.approx(places)
    title = (tmp_path / "f.md").read_text(encoding="utf-8").splitlines()[0].split(" | ")[1]
    assert title == (f"link.delay, {unit}" if unit else "link.delay")


@pytest.mark.parametrize(
    ("given", "places"),
    [(["off", "10ms", "9ms"], ["9ms", "10ms", "off"]), ([True, False], ["false", "true"])],
)
def test_words_among_swept_values_stay_words_in_the_order_of_their_numbers(tmp_path, given, places):
    pytest.importorskip("matplotlib")
    told = drawn(swept(tmp_path / "c", given), tmp_path)
    (points,) = told["measures"].values()
    assert ([point["x"] for point in points], told["x_unit"]) == (places, "")


def test_lines_and_columns_of_quantities_stand_in_order(tmp_path):
    rows = list(journal.Journal(swept(tmp_path, ["10ms", "2ms"], ("b", "a"))).read())
    points = figure.points_of(rows, figure.measure(rows, "limit"), "variant", "link.delay", "")
    assert list(dict.fromkeys(point.by for point in points)) == ["2ms", "10ms"]
    assert list(dict.fromkeys(point.x for point in points)) == ["a", "b"]
