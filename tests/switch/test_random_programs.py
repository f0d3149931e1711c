"""Generated code against the slow reference: random programs, and random frames through the programs in programs/."""

import json
import random
from pathlib import Path

import pytest
from dataplane_cases import CASES
from dataplane_setup import on_soft
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_actions import CLONES, MULTICAST
from random_programs import Maker
from reference import Reference
from reference_setup import on_reference
from softbench import SHORTEST, SoftBench

from mrclab.softswitch.objects.runtime_api import ActionCall, CloneSession, Replica, TableEntry

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
UNPREDICTABLE = {"externs", "metering", "hashes"}  # meters and random numbers; selector groups are not in the reference
FRAMES_PER_PROGRAM = 12


def outputs(found):
    return [(port, data.hex()) for port, data in found if len(data) >= SHORTEST]


@settings(max_examples=25, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.integers(0, 1 << 32))
def test_random_program_does_what_the_reference_does(seed):
    compare(seed)


def compare(seed: int, frames: int = FRAMES_PER_PROGRAM) -> None:
    maker = Maker(seed)
    root = maker.program()
    bench, reference = SoftBench.of(json.dumps(root)), Reference(root)
    for table, match, priority, number, args in maker.entries:
        call = ActionCall(reference.actions[number]["name"], args)
        bench.switch.table(table).insert(TableEntry(match, call, priority))
    for table, match, priority, number, args in maker.entries + maker.const_entries:
        reference.entries[table].append((match, priority, number, args))
    for session, replicas in CLONES.items():
        bench.switch.replication.sessions[session] = CloneSession(tuple(Replica(*replica) for replica in replicas))
    for group, replicas in MULTICAST.items():
        bench.switch.replication.groups[group] = tuple(Replica(*replica) for replica in replicas)
    reference.clones, reference.multicast = dict(CLONES), dict(MULTICAST)
    for _ in range(frames):
        frame, port = maker.frame(), maker.random.randrange(1, 4)
        expected = outputs(reference.process(port, frame))
        assert outputs(bench.send(port, frame)) == expected, f"seed {seed}, frame {frame.hex()}"
    assert bench.switch.program().packets["counted"] == reference.packets["counted"], f"seed {seed}"
    assert bench.switch.program().bytes["counted"] == reference.bytes["counted"], f"seed {seed}"
    assert bench.switch.program().registers == reference.registers, f"seed {seed}"


def mutated(frame: bytes, rng: random.Random) -> bytes:
    data = bytearray(frame)
    for _ in range(rng.randrange(4)):
        data[rng.randrange(len(data))] = rng.choice([0, 1, 0xFF, rng.getrandbits(8)])
    choice = rng.random()
    if choice < 0.15:
        del data[rng.randrange(len(data)) :]
    elif choice < 0.2:
        data += rng.randbytes(rng.randrange(100))
    return bytes(data)


@pytest.mark.parametrize("name", sorted(set(CASES) - UNPREDICTABLE))
def test_mutated_frames_fare_as_in_the_reference(name):
    rng, case = random.Random(name), CASES[name]()
    json_file = PROGRAMS / f"{case.program}.json"
    bench, reference = SoftBench(json_file), Reference(json.loads(json_file.read_text()))
    on_soft(bench.switch, case.setup)
    on_reference(reference, bench.switch, case.setup)
    for _ in range(150):
        port, frame = rng.choice(case.frames)
        data = mutated(frame, rng)
        assert outputs(bench.send(port, data)) == outputs(reference.process(port, data)), data.hex()
    assert bench.switch.errors == 0


@pytest.mark.parametrize("name", CASES)
def test_no_frame_is_an_error_in_generated_code(name):
    rng, case = random.Random(name), CASES[name]()
    bench = SoftBench(PROGRAMS / f"{case.program}.json")
    on_soft(bench.switch, case.setup)
    for _ in range(200):
        bench.send(rng.randrange(1, 4), rng.randbytes(rng.choice([0, 1, 13, 14, 15, 40, 100, 1500])))
    assert bench.switch.errors == 0
