"""Parts of the pictures in docs/: a style for light and dark screens, lines, boxes, places of a fabric's nodes."""

from collections.abc import Iterable

from mrclab.lab.report.palette import BROKEN, PASSED, PLANES
from mrclab.topo.model import Fabric

WIDE = 900
Places = dict[str, tuple[float, float]]
"""Middle of each node, by name."""

STYLE = f"""
svg{{font-family:system-ui,-apple-system,sans-serif;--ink:#1c2430;--soft:#4d5765;--cable:#c3cad3;--node:#eaf0f6;\
--paper:#fff;--bad:{BROKEN};--good:{PASSED};{"".join(f"--p{n}:{c};" for n, c in enumerate(PLANES[:4], 1))}}}
@media(prefers-color-scheme:dark){{svg{{--ink:#e6edf3;--soft:#a9b4c0;--cable:#3b4554;--node:#212b38;--paper:#0d1117;\
--good:#3ec9a0;--p1:#2f8fd0}}}}
text{{fill:var(--ink);font-size:14px;text-anchor:middle;dominant-baseline:central}}
.s{{fill:var(--soft);font-size:13px}}.l{{text-anchor:start}}.m{{font-family:ui-monospace,monospace}}.b{{font-weight:600}}
.n{{fill:var(--node);stroke:var(--soft)}}.w{{stroke:var(--cable);stroke-width:2}}.x{{stroke:var(--bad);stroke-width:5}}
"""
_NODE = (74, 28)


def svg(high: int, title: str, parts: Iterable[str], wide: int = WIDE, style: str = "") -> str:
    """Return a picture; `style` is added to STYLE."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img"><title>{title}</title>'
    paper = f'<rect width="{wide}" height="{high}" rx="6" fill="var(--paper)"/>'
    return f"{head}<style>{STYLE}{style}</style>{paper}{''.join(parts)}</svg>\n"


def text(x: float, y: float, what: str, kind: str = "", more: str = "") -> str:
    """A line of text."""
    return f'<text x="{x:g}" y="{y:g}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}{more}>{what}</text>'


def line(a: tuple[float, float], b: tuple[float, float], kind: str = "w", more: str = "") -> str:
    """A line between two places."""
    return f'<line class="{kind}" x1="{a[0]:g}" y1="{a[1]:g}" x2="{b[0]:g}" y2="{b[1]:g}"{more}/>'


def box(x: float, y: float, what: str, wide: float = _NODE[0], high: float = _NODE[1], more: str = 'class="n"') -> str:
    """A box around this middle, with its text."""
    frame = f'<rect {more} x="{x - wide / 2:g}" y="{y - high / 2:g}" width="{wide:g}" height="{high:g}" rx="4"/>'
    return frame + text(x, y, what)


def places(fabric: Fabric, wide: float, rows: tuple[float, float, float] = (30, 120, 210), left: float = 0) -> Places:
    """Return the places of all nodes, as on the live page; `rows` are the heights of T1s, T0s and hosts."""
    found = {}
    each = wide / fabric.planes
    for tier, y in zip(("t1", "t0"), rows, strict=False):
        for plane in range(1, fabric.planes + 1):
            row = [switch.name for switch in fabric.switches if (switch.tier, switch.plane) == (tier, plane)]
            for n, name in enumerate(row):
                found[name] = (left + (plane - 1) * each + (n + 0.5) * each / len(row), y)
    for n, host in enumerate(fabric.hosts):
        found[host.name] = (left + (n + 0.5) * wide / len(fabric.hosts), rows[-1])
    return found
