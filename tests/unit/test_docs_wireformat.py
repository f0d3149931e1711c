"""docs/wire.md has every header of the packet classes, and every field; both agree with what is sent."""

import pytest

pytest.importorskip("scapy", reason="the packet classes are scapy layers")

from mrclab.hosts import scapy_mrc, wiredoc
from mrclab.hosts.mrc.packets import headers as h

STRUCTS = {
    scapy_mrc.METH: h.METH,
    scapy_mrc.TSETH: h.TSETH,
    scapy_mrc.SETH: h.SETH,
    scapy_mrc.NETH: h.NETH,
    scapy_mrc.PETH: h.PETH,
    scapy_mrc.ERTH: h.ERTH,
    scapy_mrc.EETH: h.EETH,
}


def test_the_page_is_that_of_the_packet_classes():
    text = wiredoc.build()
    assert wiredoc.FILE.read_text(encoding="utf-8") == text, (
        "docs/wire.md is not current; run python -m mrclab.hosts.wiredoc"
    )
    assert wiredoc.DISSECTOR.read_text(encoding="utf-8") == wiredoc.dissector(), "run python -m mrclab.hosts.wiredoc"
    for header in wiredoc.headers():
        assert f"\n## {header.__name__}\n" in text
        for _at, field in wiredoc.fields(header.__name__):
            assert f"| `{field.name}` |" in text.partition(f"## {header.__name__}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("header", STRUCTS, ids=lambda header: header.__name__)
def test_fields_fill_the_header_that_is_sent(header):
    at, last = list(wiredoc.fields(header.__name__))[-1]
    assert at + last.bits == 8 * STRUCTS[header].size
