"""The Python API refuses what files refuse, in the words of its arguments."""

import re

import pytest
from api_runs import FABRIC, FILE, made_with, scenario

import mrclab
from mrclab.experiments.campaign import journal

__all__ = ["scenario"]

EVERY_MESSAGE = {"kind": "completion", "traffic": "file", "at_most": "1s"}


def test_evs_that_cannot_be_are_refused_at_the_check(scenario):
    with pytest.raises(mrclab.ScenarioError, match=r"ev_profile: active_per_plane: 3 EVs and 2 uplinks .* at most 2"):
        scenario.with_values({"transport.ev_profile": {"active_per_plane": 3}})
    large = FABRIC | {"planes": 4, "t1s": 200}
    with pytest.raises(mrclab.ScenarioError, match=r"make 800, but a QP has at most 256; give at most 64"):
        mrclab.scenario(
            fabric=large, traffic=[FILE], transport={"ev_profile": {"active_per_plane": 150, "backup_per_plane": 50}}
        )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "traffic[1].paths: uplink 0 does not lead from h1 to h2; those of plane 1 are 1 and 2"),
        (
            {"traffic": [FILE | {"kind": "pingpong", "size": 8}], "expect": [EVERY_MESSAGE]},
            "expect[1].of: the history has no messages of file; write of: flows, or expect its latency",
        ),
        (
            {"traffic": [{"name": "file", "kind": "all_to_all", "size": 8}], "expect": [EVERY_MESSAGE]},
            "expect[1].of: the history has no messages of file; write of: iterations or of: flows",
        ),
        (
            {"faults": [{"name": "slow", "kind": "delay", "link": "h1-p1", "delay": "0s", "at": 0}]},
            "faults[1].delay: this must be greater than 0",
        ),
        ({"transport": {"kind": "roce"}}, "traffic[1].paths: roce has no EVs; leave paths out"),
    ],
)
def test_what_no_run_could_do_is_refused_at_the_check(changes, said):
    astray = [FILE | {"paths": [{"plane": 1, "uplink": 0}]}]
    with pytest.raises(mrclab.ScenarioError, match=re.escape(said)):
        mrclab.scenario(**{"fabric": FABRIC, "traffic": astray} | changes)


def test_mistakes_raise_the_sentences_of_files(scenario):
    with pytest.raises(mrclab.ScenarioError, match="no host is called 'h9'"):
        mrclab.scenario(fabric=FABRIC, traffic=[FILE | {"to": "h9"}])
    with pytest.raises(mrclab.ScenarioError, match="seed is a whole number of at least 0"):
        mrclab.run(scenario, seed=-1)
    with pytest.raises(mrclab.ScenarioError, match="did you mean"):
        scenario.with_values({"fabric.plane": 2})
    several = mrclab.Scenario.from_yaml(scenario.yaml + "variants:\n- {name: two, set: {fabric.planes: 1}}\n")
    with pytest.raises(mrclab.ScenarioError, match=r"has variants: two; run scenario.variant\(NAME\)"):
        mrclab.run(several)
    assert several.variant("two").name == several.variants[0].name == "scenario-two"
    with pytest.raises(mrclab.LabError, match="no data for this picture"):
        mrclab.run(scenario).plot.training()


@pytest.mark.parametrize(
    ("scenario", "arguments", "said"),
    [
        ("link-failure", {}, "run takes a Scenario, not 'link-failure'; make one with mrclab.Scenario.from_yaml"),
        (None, {"world": "smi"}, "world: 'smi' is unknown; did you mean 'sim'?"),
        (None, {"seed": "1"}, "seed is a whole number of at least 0, not '1'"),
        (None, {"seed": True}, "seed is a whole number of at least 0, not True"),
        (None, {"target": []}, "target: [] is unknown; known here: soft, bmv2"),
        (None, {"target": "foo"}, "target: 'foo' is unknown; known here: soft, bmv2"),
        (
            None,
            {"target": "soft"},
            'target="soft": virtual time has no P4 switches; leave it out, or choose world="wire"',
        ),
    ],
)
def test_a_run_with_a_wrong_argument_is_refused_in_a_sentence(scenario, arguments, said):
    made = scenario or mrclab.Scenario.from_yaml("true-speed")
    with pytest.raises(mrclab.LabError, match=re.escape(said)):
        mrclab.run(made, **arguments)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: made_with(fabric=3), "fabric: a mapping of fields is expected here (got 3)"),
        (lambda: made_with(traffic=None), "traffic: a list is expected here"),
        (lambda: made_with(traffic=[FILE | {"size": object}]), "traffic[1].size: <class 'object'> cannot be in a"),
        (lambda: made_with(traffic=[FILE | {"size": True}]), "traffic[1].size: 'true' is not a size"),
        (lambda: made_with(fabric=FABRIC | {"planes": True}), "whole number is expected here (got 'true'"),
        (
            lambda: made_with(faults=[{"name": "x", "kind": "loss", "link": "h1-p1", "rate": "200%", "at": 0}]),
            "faults[1].rate: this must be at most 100% (got '200%')",
        ),
        (lambda: made_with(fabric=FABRIC | {"planes": "2"}), "planes: a whole number is expected here, without quotes"),
        (lambda: made_with(transport={"ev_profile": {"active_per_plane": True}}), "whole number is expected here"),
        (lambda: mrclab.Scenario.from_yaml(3), "source is the path of a file or folder as text, not 3"),
        (lambda: mrclab.read(None), "directory is the path of a file or folder as text, not None"),
        (lambda: mrclab.up(3), "fabric: a mapping of fields is expected here (got 3)"),
        (lambda: mrclab.up(FABRIC, seed=2**63), "seed is at most 9223372036854775807"),
        (lambda: mrclab.up(FABRIC, target="foo"), "target: 'foo' is unknown; known here: soft, bmv2"),
        (lambda: mrclab.up(FABRIC, target="bmv2"), 'target="bmv2": virtual time has no P4 switches; leave it out'),
    ],
)
def test_values_of_a_wrong_type_are_refused_with_their_place(make, said):
    with pytest.raises(mrclab.LabError, match=re.escape(said)):
        make()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"seeds": "1..3"}, "seeds are whole numbers, such as range(1, 6) or [1, 2, 7], not '1..3'"),
        ({"seeds": [1, True]}, "each of seeds is a whole number of at least 0, not True"),
        ({"seeds": [-1]}, "each of seeds is a whole number of at least 0, not -1"),
        ({"seeds": []}, "seeds is empty; give one at least"),
        ({"workers": 0}, "workers is a whole number of at least 1, not 0"),
        ({"workers": "2"}, "workers is a whole number of at least 1, not '2'"),
        ({"flows": "no"}, "flows is True or False, not 'no'"),
        ({"sweep": {"fabric.t1s": 4}}, "sweep['fabric.t1s'] is a list of values, such as [2, 4], not 4"),
        ({"sweep": {"fabric.t1s": "24"}}, "sweep['fabric.t1s'] is a list of values, such as [2, 4], not '24'"),
        ({"sweep": ["fabric.t1s"]}, "sweep is a dict of fields and their values"),
        ({"sweep": {"seed": [1, 2]}}, "seed cannot be swept; use seeds= for this"),
        ({"variants": {}}, "variants is empty; name one at least, or leave it out for all"),
        ({"variants": ["mrc"]}, "variants is a dict of variants, each with what is swept of it alone, not ['mrc']"),
        ({"scenario": "link-failure"}, "campaign takes a Scenario, not 'link-failure'"),
    ],
)
def test_a_campaign_with_a_wrong_argument_is_refused_in_a_sentence(tmp_path, arguments, said):
    given = {"scenario": made_with(), "seeds": [1], "directory": tmp_path / "c"} | arguments
    with pytest.raises(mrclab.LabError, match=re.escape(said)):
        mrclab.campaign(**given)
    assert not (tmp_path / "c").exists()


def test_a_campaign_in_a_directory_that_cannot_be_made_or_sweeps_other_fields_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for name, said in (("file", "it is not a directory"), ("file/x", "Not a directory")):
        with pytest.raises(mrclab.LabError, match=f"cannot be made: {said}; choose another directory$"):
            mrclab.campaign(made_with(), tmp_path / name, seeds=[1])
    mrclab.campaign(made_with(), tmp_path / "c", seeds=[1], workers=1)
    with pytest.raises(mrclab.LabError, match=r"c holds a campaign that sweeps no field; choose another directory$"):
        mrclab.campaign(made_with(), tmp_path / "c", seeds=[1], sweep={"fabric.t1s": [2]})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"directory": None}, "directory is the path of a file or folder as text, not None"),
        ({"x": 3}, "x is a text, not 3"),
        ({"y": 50}, "each of y is a text, not 50"),
        ({"scale": "4"}, "scale is a number above 0, not '4'"),
        ({"scale": 0}, "scale is a number above 0, not 0"),
        ({"by": ""}, "'' is not a swept field of this campaign"),
    ],
)
def test_a_table_of_a_campaign_with_a_wrong_argument_is_refused_in_a_sentence(tmp_path, arguments, said):
    row = {"variant": "", "seed": 1, "values": {}, "state": "passed", "error": "", "seconds": 1.0, "verdicts": {}}
    journal.Journal(tmp_path).append({**row, "flows": [["job", 1000, 0.0, 1.0, 1.0]]})
    with pytest.raises(mrclab.LabError, match=re.escape(said)):
        mrclab.campaign_table(**{"directory": tmp_path, "x": "variant", "y": "p50"} | arguments)


def test_errors_name_arguments_not_options(scenario):
    with pytest.raises(mrclab.LabError, match=r"not a directory that can be written to; choose another for results=$"):
        mrclab.run(scenario, results="/dev/null")
    faults = [{"name": "gone", "kind": "controller_partition", "switch": "t0-p1-1", "at": "0s"}]
    with pytest.raises(mrclab.ScenarioError, match='run it with world="wire"'):
        mrclab.run(mrclab.scenario(fabric=FABRIC, traffic=[FILE], faults=faults))
