"""docs/history.md names every kind of record, and every field, that a run with faults and Clustermapper writes."""

import json
import re
from pathlib import Path

import pytest

from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario

PAGE = Path(__file__).parents[2] / "docs" / "history.md"

SCENARIO = """
name: everything
world: sim
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 1, link: {rate_pps: 1000, delay: 1ms}}
mapper: {cycle: 100ms}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 8 MiB}
  - {name: ping, kind: pingpong, from: h2, to: h1, size: 1 KiB, count: 20}
  - {name: ring, kind: ring_all_reduce, hosts: [h1, h2], size: 64 KiB, iterations: 2, start: after file}
faults:
  - {name: cut, kind: link_down, link: t0-p1-1/t1-p1-2, at: 20% of file, until: 40% of file}
  - {name: gray, kind: silent_drop, link: t0-p2-1/t1-p2-1, at: 50% of file, until: 90% of file}
  - {name: nic, kind: link_down, link: h1-p2, at: 92% of file, until: 95% of file}
"""


def told() -> dict[str, set[str]]:
    """Kinds on the page, with the fields of their rows."""
    found: dict[str, set[str]] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            kinds, fields = line.split(" | ")[:2]
            for kind in re.findall(r"`([a-z.]+)`", kinds):
                found[kind] = set(re.findall(r"`([a-z0-9_]+)`", fields))
    return found


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    outcome = runner.run_scenario(
        scenario.loads(SCENARIO), tmp_path_factory.mktemp("results"), lambda *_: None, lambda _: None
    )
    return [json.loads(line) for line in (outcome.directory / "history.jsonl").read_text().splitlines()]


def test_every_record_of_a_run_stands_on_the_page_with_its_fields(records):
    page = told()
    missing = set()
    for record in records:
        fields = set(record) - {"t", "node", "kind"}
        missing |= {(record["kind"], field) for field in fields - page.get(record["kind"], set())}
        if record["kind"] not in page:
            missing.add((record["kind"], "all of it"))
    assert missing == set()
    assert len({record["kind"] for record in records}) > 25
