"""Vocabulary of generated code: the last check of a source before it is compiled.

The compiler writes names by position (`f_7`, `find_2`, `text_0`) and numbers; no text of a program gets into its code.
If a bug in the compiler lets one through, it is refused here, before anything runs.
"""

from __future__ import annotations

import re

from mrclab.softswitch.objects.runtime_api import PipelineError

MAX_SOURCE = 1 << 24
"""Longest source in characters; the largest program known here has 300 kB."""

BUILTINS = {
    one.__name__: one for one in (AssertionError, bytearray, bytes, int, len, max, min)
}  # fmt: skip
"""Python's built-in functions that generated code may call."""

_WRITTEN = """
and break def del elif else False if in is None not or pass raise return True while
append get join to_bytes
again clone_ingress clone_sessions clone_to enqueue ingress ingress_again int_from learn log_msg LoopError monotonic
multicast now_us out_of_range randint random shift_left transmit
_ d depth enq_depth enq_us instance length port pos queue rid state steps
"""
"""Keywords; methods; globals from the pipeline; parameters and locals."""
_WORDS = frozenset((*BUILTINS, *_WRITTEN.split()))

_NUMBERED = re.compile(
    r"(?:at|bytes|default|egress|f|find|hash|len|meter|next|packets|reg|select|take|text|valid|vset)_\d+|[kmt]\d+|0x[0-9a-f]+|\d+"
)
_WORD = re.compile(r"\w+")
_SIGNS = re.compile(r"[ \n()\[\],.:=+*/%&|^~<>!-]*")
_LITERALS = re.compile(r"'big'|\bb''")


def check(source: str) -> None:
    """Refuse a source with a word, number or sign that the compiler does not use. Raises PipelineError."""
    if len(source) > MAX_SOURCE:
        raise PipelineError(f"the program becomes {len(source)} characters of code; the most is {MAX_SOURCE}")
    plain = _LITERALS.sub("0", source)
    for word in set(_WORD.findall(plain)) - _WORDS:
        if not _NUMBERED.fullmatch(word):
            raise PipelineError(f"the compiler wrote {word!a}, which is not in its vocabulary; the code was not run")
    signs = set(_WORD.sub("", plain))
    if not _SIGNS.fullmatch("".join(signs)):
        raise PipelineError(f"the compiler wrote one of {''.join(sorted(signs))!a}; the code was not run")
