"""Colours that stand for states on the live page are told apart with deuteranopia and protanopia too.

Simulation: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency",
IEEE TVCG 15(6), 2009, matrices of severity 1.0 on linear RGB. Distance: CIE 1976 L*a*b* (CIE 15), white D65;
sRGB as in IEC 61966-2-1. Some 2.3 is just noticeable.
"""

import itertools
import math
import re
from pathlib import Path

import pytest

from mrclab.lab.report import palette

STATIC = Path(__file__).parents[2] / "lab" / "ui" / "static"
TEMPLATES = STATIC.parents[1] / "report" / "templates"
APART = 15.0  # six times what is just noticeable
SIGHT = {
    "any": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
}
XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))
WHITE = (0.95047, 1.0, 1.08883)


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def lab(colour: str, sight: str) -> list[float]:
    """L*, a*, b* of #rrggbb as somebody sees it."""
    coded = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in coded]
    seen = [min(1.0, max(0.0, c)) for c in times(SIGHT[sight], linear)]
    x, y, z = (
        t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29
        for t in (value / white for value, white in zip(times(XYZ, seen), WHITE, strict=True))
    )
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)]


def apart(one: str, other: str, sight: str) -> float:
    return math.dist(lab(one, sight), lab(other, sight))


def palettes() -> dict[str, dict[str, str]]:
    light, _, dark = (STATIC / "style.css").read_text().partition(':root[data-scheme="dark"]')
    style, night = (dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", each.partition("}")[0])) for each in (light, dark))
    charts = (STATIC / "charts.js").read_text()
    states = dict(re.findall(r"(\w+): \"(#[0-9a-f]{6})\"", charts.partition("const STATES")[2].partition("}")[0]))
    planes = re.findall(r"#[0-9a-f]{6}", charts.partition("const PLANES")[2].partition("]")[0])
    return {
        "verdicts in the dark": {name: night[name] for name in ("good", "badink")},
        "cables": {"down": style["bad"], "idle": style["idle"], **dict(zip("1234", planes, strict=False))},
        "cables in the dark": {"down": night["bad"], "idle": night["idle"], **dict(zip("1234", planes, strict=False))},
        "EV states": states,
        "four planes": {str(number): colour for number, colour in enumerate(planes[:4], 1)},
        "verdicts": {name: style[name] for name in ("good", "badink")},
    }


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("name", palettes())
def test_states_are_told_apart_by_colour_alone(name, sight):
    palette = palettes()[name]
    assert len(palette) >= 2
    close = {
        (one, other): round(apart(palette[one], palette[other], sight), 1)
        for one, other in itertools.combinations(palette, 2)
    }
    assert min(close.values()) >= APART, close


def test_page_report_and_pictures_have_one_palette_and_each_hue_one_meaning():
    found = palettes()
    charts = (STATIC / "charts.js").read_text()
    planes = re.findall(r"#[0-9a-f]{6}", charts.partition("const PLANES")[2].partition("]")[0])
    assert tuple(planes) == palette.PLANES
    assert found["EV states"] == palette.EV_STATES
    assert (found["cables"]["down"], found["verdicts"]["good"]) == (palette.BROKEN, palette.PASSED)
    style = "".join(path.read_text() for path in STATIC.glob("*.css"))
    others = {colour for colour in re.findall(r"#[0-9a-f]{6}", style) if colour != palette.BROKEN}
    taken = {name: colour for name, colour in zip("12345678", palette.PLANES, strict=True) if colour in others}
    assert not taken
    for plane, state in itertools.product(palette.PLANES[:4], palette.EV_STATES.values()):
        assert apart(plane, state, "any") >= APART, (plane, state)


def contrast(one: str, other: str) -> float:
    """Contrast of two colours, 1 to 21 (WCAG 2.2, relative luminance)."""
    low, high = sorted(((lab(colour, "any")[0] + 16) / 116) ** 3 for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def test_reports_have_colours_for_light_and_for_dark_and_text_of_either_is_read():
    page = (TEMPLATES / "page.html.j2").read_text()
    schemes = [dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in re.findall(r":root {(.*?)}", page)]
    assert len(schemes) == 2
    assert schemes[0].keys() == schemes[1].keys()
    for scheme in schemes:
        grounds = {"good": ("paper", "kept"), "bad": ("paper", "missed"), "doubt": ("paper", "open")}
        for text in ("ink", "soft", *grounds):
            for ground in grounds.get(text, ("paper",)):
                assert contrast(scheme[text], scheme[ground]) >= 4.5, (scheme["paper"], text, ground)
    for template in TEMPLATES.glob("*.html.j2"):
        style = re.sub(r":root {.*?}", "", template.read_text())
        assert re.findall(r"#[0-9a-f]{3,8}\b", style) == [], template.name


def test_the_arithmetic_knows_what_cannot_be_told_apart():
    assert apart("#ffffff", "#000000", "any") == pytest.approx(100, abs=0.1)
    red, green = "#c05000", "#808000"
    assert apart(red, green, "any") > 2 * apart(red, green, "deuteranopia")
