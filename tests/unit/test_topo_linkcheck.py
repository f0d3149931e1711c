import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrclab.topo import linkcheck
from mrclab.topo.linkcheck import Kind, LinkCheck, LinkCheckError

MAC_A, MAC_B = bytes.fromhex("020a01010001"), bytes.fromhex("020c01000101")
names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=linkcheck.MAX_NAME)
ports = st.integers(1, 0xFFFF)


@given(names, ports, st.integers(0, 2**32 - 1), names, ports)
def test_probe_and_answer_say_who_sits_at_which_port(switch, switch_port, nonce, host, host_port):
    probe = linkcheck.probe(switch, switch_port, nonce, MAC_A, MAC_B)
    assert linkcheck.parse(probe) == LinkCheck(
        Kind.PROBE, nonce, switch, switch_port, source_mac=MAC_A, destination_mac=MAC_B
    )
    answer = linkcheck.parse(linkcheck.answer(probe, host, host_port, MAC_B))
    assert answer == LinkCheck(Kind.ANSWER, nonce, switch, switch_port, host, host_port, MAC_B, MAC_A)


def test_frames_are_long_enough_for_ethernet_and_readable_from_a_longer_buffer():
    probe = linkcheck.probe("t0-p1-1", 3, 7, MAC_A)
    assert len(probe) == linkcheck.FRAME_LENGTH == 60
    assert linkcheck.parse(memoryview(probe + b"padding")) == linkcheck.parse(probe)
    assert probe[12:14] == b"\x88\xb5"


def test_an_answer_is_not_answered():
    answer = linkcheck.answer(linkcheck.probe("t0-p1-1", 3, 7, MAC_A), "h1", 1, MAC_B)
    with pytest.raises(LinkCheckError, match="not answered"):
        linkcheck.answer(answer, "h2", 1, MAC_A)


@given(st.binary(max_size=80))
def test_foreign_bytes_raise_one_error(raw):
    with pytest.raises(LinkCheckError):
        linkcheck.parse(raw)


@given(st.integers(14, linkcheck.FRAME_LENGTH - 1), st.integers(0, 255))
def test_damaged_frames_are_read_or_refused_but_never_crash(place, value):
    frame = bytearray(linkcheck.probe("t0-p1-1", 3, 7, MAC_A))
    frame[place] = value
    try:
        parsed = linkcheck.parse(bytes(frame))
    except LinkCheckError:
        return
    assert parsed.encode()[:18] == frame[:18]


def test_names_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="t0-p1-1-with-a-tail"):
        linkcheck.probe("t0-p1-1-with-a-tail", 1, 1, MAC_A)
