"""Live stepping: bring up a lab, break it, let time pass, look at it, all in the order of these lines."""

from collections import Counter

from fabrics import TINY

import mrclab

with mrclab.up(TINY, world="sim", seed=7) as lab:
    flow = lab.start("write", **{"from": "h1", "to": "h3"}, size="2 MiB")
    flow.reach(0.25)
    print(f"{lab.now * 1e6:.1f} µs: {Counter(path['state'] for path in lab.paths('h1'))}")
    with lab.link("h1-p1/t0-p1-1").down():
        lab.advance("10us")
        print(f"{lab.now * 1e6:.1f} µs, port 1 of h1 down: {Counter(path['state'] for path in lab.paths('h1'))}")
    ended = flow.wait()
    print(f"{lab.now * 1e6:.1f} µs: {'intact' if ended.intact else 'damaged'}, {ended.rate * 8e-9:.1f} Gb/s")
