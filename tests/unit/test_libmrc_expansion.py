"""EV expansion against the published example: its own profiles, and random ones run through its own functions."""

import os
import random
import re
import subprocess
from pathlib import Path

import pytest
from verbs_ground import COMPILER, ROOT

from mrclab.hosts.mrc.evs.evformat import EvField, EvFormat, Expansion

OCP = Path(os.environ.get("OCP", ROOT.parent / "OCP-Multipath-Reliable-Connection"))
SOURCE = OCP / "examples" / "ev_expansion" / "ev_expansion.c"
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="needs a C compiler"),
    pytest.mark.skipif(not SOURCE.exists(), reason=f"needs OCP's ev_expansion.c: set OCP to its repository ({SOURCE})"),
]
RANDOM_PROFILES = 300


def output_of(source: Path, folder: Path, *flags: str) -> str:
    target = folder / source.stem
    subprocess.run([str(COMPILER), "-w", *flags, "-o", str(target), str(source)], check=True)
    return subprocess.run([str(target)], capture_output=True, text=True, check=True).stdout


def checked(text: str) -> int:
    """Expand every EV that the example printed and compare; how many there were."""
    count = 0
    for block in text.split("ev_fmt_prof:")[1:]:
        fmt = EvFormat.SRV6 if "type: SRv6" in block else EvFormat.STEV
        widths = [int(width) for width in re.findall(r"^    \d+: width=(\d+)$", block, re.MULTILINE)]
        rows = re.findall(r"width=(\d+), init_val=0x(\w+), min=0x(\w+) max=0x(\w+) mask=0x(\w+)", block)
        fields = []
        for width, *rest in rows:
            init, low, high, mask = (int(number, 16) for number in rest)
            fields.append(EvField(int(width), init, low, high or None, mask))
        expansion = Expansion(fmt, fields, widths)
        given = re.findall(r"^    \d+: 0x(\w{64})$", block, re.MULTILINE)
        expected = re.findall(r"^      0x(\w{64})$", block, re.MULTILINE)
        assert len(given) == len(expected) > 0
        for value, wanted in zip(given, expected, strict=True):
            found = expansion.expand(int(value, 16) >> 256 - expansion.bits if expansion.bits else 0)
            assert found.ljust(32, b"\0").hex() == wanted
            count += 1
    return count


def test_all_profiles_of_the_published_example_expand_as_it_prints(tmp_path):
    assert checked(output_of(SOURCE, tmp_path)) == 80


def test_random_profiles_expand_as_the_published_functions_do(tmp_path):
    rng = random.Random(16)
    cases = []
    for _ in range(RANDOM_PROFILES):
        srv6 = rng.random() < 0.5
        left, widths = (256 if srv6 else 32), []
        while left > 0 and len(widths) < 12:
            widths.append(rng.randint(1, min(32, left)))
            left -= widths[-1]
        rows, bits = [], 0
        for place in widths[: rng.randint(1, len(widths))]:
            width = rng.randint(1, min(place, 31))
            mask = rng.choice([0, (1 << width) - 1, rng.getrandbits(width)])
            bits += mask.bit_count()
            rows.append((width, rng.getrandbits(width), 0, 0, mask))
        ev = (rng.getrandbits(bits) << 256 - bits if bits else 0).to_bytes(32, "big")
        cases.append((srv6, widths, rows, ev))
    body = "\n".join(_case(*case) for case in cases)
    text = SOURCE.read_text().replace("int main(", "int their_main(")
    source = tmp_path / "random.c"
    source.write_text(f"{text}\nint main(void) {{\n{body}\nreturn 0; }}\n")
    assert checked(output_of(source, tmp_path)) == RANDOM_PROFILES


def _case(srv6: bool, widths: list[int], rows: list[tuple[int, ...]], ev: bytes) -> str:
    lines = [f"EV_PROF_INIT({len(widths)}, {len(rows)}, 1);", f"_ev_fmt_profile.type = {int(srv6)};"]
    lines += [f"_ev_fmt_profile.fmt_fields[{n}].width = {width};" for n, width in enumerate(widths)]
    for n, row in enumerate(rows):
        lines.append(f"_ev_profile.fields[{n}] = (struct ev_field){{{', '.join(map(str, row))}}};")
    lines += [f"_ev_profile.evs[0][{n}] = {byte};" for n, byte in enumerate(ev) if byte]
    return " ".join([*lines, "CHECK_AND_DUMP(); EV_PROF_FREE();"])
