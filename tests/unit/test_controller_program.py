"""The compiled program and the controller's entries fit each other."""

from pathlib import Path

import pytest

from mrclab.controller.errors import ProgramError
from mrclab.controller.p4runtime import fleet
from mrclab.controller.provisioning import counters, intent
from mrclab.controller.provisioning.intent import EntryAction, IntendedEntry
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.controller.provisioning.reconcile import MANAGED_TABLES, Change, UpdateKind, changes
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

BUILD = Path(__file__).resolve().parents[2] / "p4src" / "build"
P4INFO, P4JSON = BUILD / "mrc.p4info.txtpb", BUILD / "mrc.json"
FABRIC = Fabric(FabricSpec(t0s=3, t1s=4))
_CLASS = (("traffic_class", 1), ("queue", 0), ("trimmable", 0))


@pytest.fixture(scope="module")
def program() -> PipelineConfig:
    return PipelineConfig(P4INFO, P4JSON)


@pytest.mark.parametrize("name", ["t0-p1-1", "t1-p4-3"])
def test_every_entry_comes_back_from_its_message(program: PipelineConfig, name: str) -> None:
    wanted = intent.entries(FABRIC, FABRIC.switch(name))
    assert program.decode([program.encode(entry) for entry in wanted]) == wanted


def test_members_of_other_weights_are_not_what_is_intended(program: PipelineConfig) -> None:
    route = next(entry for entry in intent.entries(FABRIC, FABRIC.switch("t0-p1-1")) if len(entry.actions) > 1)
    entity = program.encode(route)
    entity.table_entry.action.action_profile_action_set.action_profile_actions[1].weight = 3
    [found] = program.decode([entity])
    [change] = changes([route], [found])
    assert (change.op, change.entry) == (UpdateKind.MODIFY, route)


def test_const_entries_defaults_and_other_tables_are_not_the_controllers(program: PipelineConfig) -> None:
    tables = {table.alias: table for table in program.schema.tables}
    others = [program.encode(intent.entries(FABRIC, FABRIC.switch("t0-p1-1"))[0]) for _ in range(2)]
    others[0].table_entry.table_id = tables["classes"].id
    others[1].table_entry.is_default_action = True
    assert program.decode(others) == ()


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        (IntendedEntry("nowhere", (("x", 1),), (EntryAction("forward"),)), "nowhere"),
        (IntendedEntry("my_usid", (("locator_usid", 1 << 48),), (EntryAction("shift_usid"),)), "locator_usid"),
        (IntendedEntry("my_usid", (("locator_usid", 1),), (EntryAction("fly"),)), "fly"),
    ],
)
def test_an_entry_the_program_cannot_hold_is_named(
    program: PipelineConfig, entry: IntendedEntry, complaint: str
) -> None:
    with pytest.raises(ProgramError, match=f"cannot hold {entry.table}.*{complaint}"):
        program.update(Change(UpdateKind.INSERT, entry))


def test_a_table_that_is_not_read_back_is_refused_with_the_remedy(program: PipelineConfig) -> None:
    entry = IntendedEntry("classes", (("hdr.ipv6.dscp", 1),), (EntryAction("set_class", _CLASS),))
    with pytest.raises(ProgramError, match=r"^classes is not in MANAGED_TABLES of .*reconcile\.py; add it$"):
        program.encode(entry)


def test_another_program_has_another_cookie(program: PipelineConfig, tmp_path: Path) -> None:
    other = tmp_path / "mrc.json"
    other.write_bytes(P4JSON.read_bytes() + b"\n")
    assert PipelineConfig(P4INFO, other).cookie != program.cookie
    assert PipelineConfig(P4INFO, P4JSON).cookie == program.cookie


def test_missing_or_foreign_files_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="No such file or directory; run `make p4`"):
        PipelineConfig(tmp_path / "none.txtpb", P4JSON)
    wrong = tmp_path / "wrong.txtpb"
    wrong.write_text("this is no P4Info\n")
    with pytest.raises(ProgramError, match="is not P4Info text"):
        PipelineConfig(wrong, P4JSON)
    empty = tmp_path / "empty.txtpb"
    empty.write_text('pkg_info { arch: "v1model" }\n')
    with pytest.raises(ProgramError, match=f"has no table {', '.join(MANAGED_TABLES)}"):
        PipelineConfig(empty, P4JSON)


def test_counters_are_read_by_cell_and_told_by_port_and_class(program: PipelineConfig) -> None:
    switch = FABRIC.switch("t0-p1-1")
    cells = fleet.counter_request(program, switch)
    for cell in cells:
        cell.counter_entry.data.packet_count = 1
        cell.counter_entry.data.byte_count = 100
    told = counters.summary(switch, fleet.decoded_counters(program, cells))
    assert list(told["ports"]) == [str(port.number) for port in switch.ports]
    assert told["ports"]["2"]["rx_packets"] == 1
    assert told["ports"]["2"]["tx_bytes"] == 800
    assert told["ports"]["2"]["class"]["trimmed_lasthop"] == {"packets": 1, "bytes": 100}
    assert told["drops"]["usid_miss"] == 1


def test_packets_that_neither_left_nor_were_dropped_were_lost_in_a_queue() -> None:
    switch = FABRIC.switch("t1-p1-1")
    reading = {("rx", 1): (100, 0), ("tx", 2 * 8 + 1): (90, 0), ("tx", 510 * 8 + 7): (2, 0), ("drops", 3): (3, 0)}
    assert counters.lost_in_queues(switch, reading) == 5


def test_a_record_of_the_history_leaves_out_ports_and_reasons_where_nothing_happened() -> None:
    switch = FABRIC.switch("t1-p1-1")
    reading = {("rx", 1): (10, 1000), ("tx", 2 * 8 + 1): (9, 900), ("trims", 2): (4, 0), ("drops", 3): (1, 0)}
    told = counters.totals(switch, reading)
    assert told["ports"] == {
        "1": {"rx_packets": 10, "rx_bytes": 1000},
        "2": {"tx_packets": 9, "tx_bytes": 900, "trimmed": 4},
    }
    assert (told["rx_packets"], told["tx_bytes"], told["ecn_marked"]) == (10, 900, 0)
    assert told["drops"] == {"hop_limit": 1}
