"""Figures of a run, from its merged history alone, so that a report can be made again from a result directory.

`measures.Measures` is the whole; its parts are `flows`, `rates`, `stalls`, `paths`, `switches`, `completions` and
`machine`.
"""
