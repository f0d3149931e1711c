"""Turns a `Program` into Python source, once, at load.

How the generated code keeps a packet: the received bytes stay as they are in `d`; a header is a validity and an offset
into `d`; a field becomes a Python local when it is first read or written. What is known while generating (this header
is valid, sits at byte 14, this field was not touched, that one is the constant 3) is kept in `state.State` and costs
nothing at run time; where two branches meet, `state.join` keeps what both agree on and makes the rest a variable.

All parts emit at one place, a `flow.Flow` (`at`): where lines go and what is known there. `generate` puts them
together: headers, calculations, primitives over both, and over those the parser, the pipelines and the deparser.
"""
