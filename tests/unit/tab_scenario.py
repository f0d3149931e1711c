"""A scenario that tests run in the lab of a browser tab."""

TEXT = """\
name: in-the-tab
traffic:
  - {name: file, kind: write, from: h1, to: h3, size: 200 KiB}
faults:
  - {name: cut, kind: link_down, link: t0-p1-1/t1-p1-2, at: 30% of file, until: 60% of file}
expect:
  - {kind: integrity}
"""
