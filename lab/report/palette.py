"""Colours with one meaning each, in reports, on the live page (`charts.js`, `style.css`) and in pictures of the docs.

A hue is a plane, vermilion is broken, green is passed or cleared; all else is ink in shades. Planes are of Okabe and
Ito (2008) and P. Tol's schemes without their reds and greens. A test checks that they stay distinguishable.
"""

BROKEN, PASSED = "#d55e00", "#00805e"
PLANES = ("#0072b2", "#e69f00", "#56b4e9", "#cc79a7", "#999933", "#882255", "#332288", "#777777")
EV_STATES = {
    "STANDBY": "#e3e7ec",
    "GOOD": "#a9bccd",
    "SKIP": "#6c8299",
    "DENIED": "#2b333d",
    "ASSUMED_BAD": BROKEN,
    "PORT_DOWN": "#5b2a86",
}
"""From harmless to bad."""
