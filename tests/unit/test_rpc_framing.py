"""Lines of JSON: cut, joined and refused as promised."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrclab.rpc.errors import FramingError
from mrclab.rpc.framing import MAX_LINE_BYTES, LineSplitter, decode, encode

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = scalars | st.lists(scalars, max_size=3)
objects = st.dictionaries(st.text(max_size=5), values, max_size=3)


@pytest.mark.once
@given(st.lists(objects, min_size=1, max_size=4), st.lists(st.integers(1, 40), max_size=20))
def test_messages_survive_any_cutting_of_the_stream(messages, cuts):
    stream = b"".join(encode(message) for message in messages)
    splitter = LineSplitter()
    lines = []
    for cut in cuts:
        piece, stream = stream[:cut], stream[cut:]
        lines += splitter.feed(piece)
    lines += splitter.feed(stream)
    assert [decode(line) for line in lines] == messages


def test_an_unfinished_line_beyond_the_limit_is_refused():
    splitter = LineSplitter(limit=10)
    assert splitter.feed(b"12345") == []
    with pytest.raises(FramingError, match="longer than 10"):
        splitter.feed(b"678901")


def test_a_finished_line_beyond_the_limit_is_refused():
    with pytest.raises(FramingError, match="longer than 10"):
        LineSplitter(limit=10).feed(b"12345678901\n")


def test_the_limit_is_per_line_and_not_for_the_stream():
    splitter = LineSplitter(limit=10)
    assert splitter.feed(b"123456789\n" * 5) == [b"123456789"] * 5


def test_empty_lines_are_passed_over():
    assert LineSplitter().feed(b"\n\n{}\n\r\n") == [b"{}"]


@pytest.mark.parametrize("line", [b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_line_that_is_no_json_is_refused(line):
    with pytest.raises(FramingError, match="not JSON"):
        decode(line)


@pytest.mark.parametrize("line", [b"[]", b"1", b'"x"', b"null"])
def test_a_line_that_is_no_object_is_refused(line):
    with pytest.raises(FramingError, match="expected an object"):
        decode(line)


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, float("nan")])
def test_what_json_cannot_say_is_refused(value):
    with pytest.raises(FramingError, match="cannot be written"):
        encode({"value": value})


def test_a_message_that_is_too_long_is_not_sent():
    with pytest.raises(FramingError, match="longer"):
        encode({"value": "x" * MAX_LINE_BYTES})


def test_a_message_is_one_line_whatever_it_holds():
    assert encode({"text": "a\nb"}).count(b"\n") == 1
    assert json.loads(encode({"text": "a\nb"})) == {"text": "a\nb"}
