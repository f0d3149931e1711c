"""Figures of the page on a dying cable: every place of every handle is a scenario, and what a run tells of it."""

import json
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from mrclab.lab.errors import LabError
from mrclab.lab.scenario import scenario
from mrclab.lab.ui.browser import shortrun
from mrclab.lab.ui.framestream import merge

PAGE = Path(__file__).parents[2] / "setup/site/cable"
FIGURES = YAML(typ="safe", pure=True).load((PAGE / "figures.yaml").read_text(encoding="utf-8"))


def texts(figure: dict, place: int) -> list[str]:
    fill = figure["values"][place][1]
    return [re.sub(r"\$([A-Z]+)", lambda found: str(fill[found[1]]), each["text"]) for each in figure["scenarios"]]


def told(name: str, number: int = 0) -> tuple[dict, dict, set[str]]:
    """Return a figure's words at the first place of its handle, its last frame, and the cables that lost something."""
    figure = FIGURES[name]
    run = shortrun.frames_of(texts(figure, figure["start"])[number], figure["begin"], figure["end"], 0.01)
    last: dict = {}
    for change in run["frames"]:
        last = merge(last, change)
    names = [link["name"] for link in run["layout"]["links"]]
    return run, last, {names[way // 2] for _, _, way, _, arrived in run["packets"] if not arrived}


def test_every_figure_has_its_place_and_every_place_of_its_handle_is_a_scenario():
    html = (PAGE / "cable.html").read_text(encoding="utf-8")
    assert re.findall(r'<section class="step[^"]*" id="([\w-]+)"', html) == list(FIGURES)
    for figure in FIGURES.values():
        assert 0 <= figure["start"] < len(figure["values"])
        for place in range(len(figure["values"])):
            for text in texts(figure, place):
                assert "$" not in text
                scenario.loads(text)


def test_a_figure_tells_of_every_packet_and_of_what_the_sender_knows():
    run, last, lost = told("spraying")
    assert lost == {"t0-p1-1/t1-p1-1"}
    states = [ev[3] for ev in last["evs"]["h1/256"]]
    assert sorted(states) == ["ASSUMED_BAD", "GOOD", "GOOD", "GOOD"]
    assert all(run["begin"] <= left and entered <= run["end"] for entered, left, *_ in run["packets"])


def test_of_a_transport_whose_path_the_switches_choose_the_cables_of_the_hosts_are_known():
    _, last, lost = told("beside", 1)
    assert lost == {"t0-p1-1/t1-p1-2"}
    assert last["evs"]["h1/256"][0][2] == 0


def test_what_is_no_figure_is_said():
    with pytest.raises(LabError, match="is not a span of time"):
        shortrun.frames_of("name: x", 1.0, 1.0, 0.1)
    asked = shortrun.Figures()
    assert "no api/run" in json.loads(asked.request("api/run", "{}"))["error"]
    assert "error" in json.loads(asked.request("api/figure", '{"text": "name: x", "begin": 0, "end": 1, "step": 0.1}'))
