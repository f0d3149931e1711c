"""Samples in the history say only what changed; whoever reads them knows as much as from full ones."""

import random
from typing import Any

import mrc_sim
import pytest
import roce_sim

from mrclab.hosts.agent.__main__ import AgentHistory
from mrclab.hosts.agent.sampling import Changes, Sampler
from mrclab.lab.history import History, Record
from mrclab.lab.measure.samples import Samples
from mrclab.rpc.errors import RpcError

Row = dict[str, Any]


def full_rows(draw: random.Random, row: dict[str, object]) -> dict[str, object]:
    """The next state of a QP: it moves, or does not change for a while."""
    if draw.random() < 0.4:
        return {**row, "max_gap": 0.0}
    return {
        **row,
        "placed_bytes": row["placed_bytes"] + draw.randrange(4096),
        "cwnd": draw.choice([10, 20]),
        "max_gap": round(draw.random(), 6),
    }


def test_a_row_that_did_not_move_is_left_out_and_a_new_one_is_told_without_zeros():
    changes = Changes("qp")
    row = {"qp": 1, "state": "RTS", "sent": 0, "acked": 5}
    assert changes.of([row]) == [{"qp": 1, "state": "RTS", "acked": 5}]
    assert changes.of([dict(row)]) == []
    assert changes.of([{**row, "sent": 3}]) == [{"qp": 1, "sent": 3}]
    assert changes.of([{**row, "sent": 0}]) == [{"qp": 1, "sent": 0}]  # back to zero is a change like any other


def test_numbers_are_rounded_to_nanoseconds():
    assert Changes("qp").of([{"qp": 1, "rtt": 0.05307165266331745}]) == [{"qp": 1, "rtt": 0.053071653}]


def test_lean_samples_read_back_as_the_full_ones():
    draw = random.Random(7)
    changes, lean, full = Changes("qp"), [], []
    rows = [{"qp": qp, "placed_bytes": 0, "cwnd": 10, "max_gap": 0.0} for qp in (1, 2, 3)]
    for tick in range(200):
        rows = [full_rows(draw, row) for row in rows]
        full.append(Record(tick / 10, "h1", "sample", {"qps": rows}))
        lean.append(Record(tick / 10, "h1", "sample", {"qps": changes.of(rows)}))
    told, whole = Samples(History(lean)), Samples(History(full))
    for qp in (1, 2, 3):
        moments = [tick / 10 + draw.random() / 10 for tick in range(199)]
        for t in moments:
            ours = told.qps["h1", qp].count("placed_bytes").at(t)
            assert abs(ours - whole.qps["h1", qp].count("placed_bytes").at(t)) < 1e-6
        assert told.qps["h1", qp].gaps == whole.qps["h1", qp].gaps
    assert sum(len(record["qps"]) for record in lean) < sum(len(record["qps"]) for record in full)


# --- what stood still ----------------------------------------------------------------------------


def stormy(sim: mrc_sim.Simulation, seed: int):
    """Loses, marks and delays some frames of either direction."""
    draw = random.Random(seed)

    def network(transit: mrc_sim.Sent) -> list[float]:
        if draw.random() < 0.02:
            return []
        if draw.random() < 0.05 and transit.is_write:
            transit.mark()
        return [sim.delay(transit) * draw.choice([1, 1, 1, 1.5])]

    return network


class Reader:
    """The state that a reader of one host's history has."""

    def __init__(self) -> None:
        self.qps: dict[int, Row] = {}
        self.paths: dict[tuple[int, int], Row] = {}
        self.told = 0

    def read(self, stats: dict[str, list[Row]]) -> None:
        self.told += len(stats["qps"])
        self.qps |= {row["qp"]: row for row in stats["qps"]}
        self.paths |= {(row["qp"], row["ev"]): row for row in stats["paths"]}


@pytest.mark.parametrize("simulation", [mrc_sim.Simulation, roce_sim.Simulation])
def test_who_is_told_of_qps_that_moved_knows_them_all(simulation):
    sim = simulation(seed=3)
    sim.network = stormy(sim, 3)
    transfers = [mrc_sim.Transfer(sim, "h1", "h3", 200_000, seed=n) for n in range(3)]
    events = {
        20: lambda: sim.hosts["h1"].port_event(1, False, sim.now),
        45: lambda: sim.hosts["h1"].port_event(1, True, sim.now),
    }
    readers, samples = {name: Reader() for name in sim.hosts}, 0
    for tick in range(600):
        if tick % 150 == 0 and tick < 450:  # one after the other, so that the others do not change
            transfers[tick // 150].write(0, 200_000)
        events.get(tick, lambda: None)()
        sim.run(until=(tick + 1) * 4 * mrc_sim.HOP)
        for name, reader in readers.items():
            full = sim.hosts[name].stats()
            reader.read(sim.hosts[name].changed_stats())
            samples += len(full["qps"])
            assert reader.qps == {row["qp"]: row for row in full["qps"]}
            assert reader.paths == {(row["qp"], row["ev"]): row for row in full["paths"]}
    assert [done.status for done in sim.hosts["h1"].verbs.poll_cq()] == ["SUCCESS"] * 3
    assert sum(reader.told for reader in readers.values()) < samples / 2


class Idle:
    """A NIC of no ports, and a transport whose QPs come and go."""

    ports = ()

    def __init__(self):
        self.qps = {1: None, 2: None}
        self.verbs = self

    def load(self):
        return {}

    def lateness(self):
        return {}

    def check_progress(self, now):
        """Nothing waits."""

    def changed_stats(self):
        return {"qps": [{"qp": n, "acked": 5} for n in self.qps], "paths": [path_row(n) for n in self.qps]}


def path_row(qp):
    return {"qp": qp, "ev": 0, "plane": 1, "uplink": 2, "sent": 7}


def test_rows_of_a_qp_that_is_gone_are_forgotten():
    idle, taken = Idle(), []
    sampler = Sampler(idle, idle, lambda record: taken.append(record) or record, kept=0)
    sampler.take(0.1)
    del idle.qps[1]
    sampler.take(0.2)
    assert [len(changes._reported) for changes in (sampler._qps, sampler._paths)] == [1, 1]
    idle.qps[1] = None  # another one with its number: all of it is new
    sampler.take(0.3)
    assert [row["qp"] for row in taken[-1]["qps"]] == [1]
    assert taken[-1]["paths"] == [path_row(1)]


def test_a_history_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RpcError, match=r"the history .*h1\.jsonl cannot be written: File exists; name another"):
        AgentHistory(tmp_path / "file" / "h1.jsonl", "h1")
