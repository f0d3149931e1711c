"""Compiler from `Program` to Python source, run once, at load.

Representation of a packet in generated code: the received bytes stay in `d`; a header is a validity and an offset
into `d`; a field becomes a Python local when first read or written. Facts known at compile time (this header is
valid, is at byte 14, this field is untouched, that one is the constant 3) are kept in `analysis.state` and cost nothing
at run time; where two branches join, `state.join` keeps the facts that both agree on and makes the others variables.

All parts emit at one place, a `flow.BranchScope` (`at`): where lines go, and facts known there. `generate` puts them
together: headers, calculations, primitives over both, and over those the parser, the pipelines and the deparser.
"""
