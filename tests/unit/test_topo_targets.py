import itertools
from pathlib import Path

import pytest

from mrclab.topo.linux.switches import targets
from mrclab.topo.linux.switches.targets import Launch, UnknownTarget
from mrclab.topo.model import Fabric
from mrclab.topo.spec import load


@pytest.fixture
def launch():
    fabric = Fabric(load({"queue": {"depth": 40, "control_depth": 99}, "link": {"rate_pps": 700}}))
    return Launch(fabric.switch("t0-p2-1"), fabric.spec, Path("/run/x/lab"))


@pytest.fixture
def without_bmv2(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def with_bmv2(monkeypatch, tmp_path):
    program = tmp_path / targets.BMV2_PROGRAM
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def pairs(argv):
    return list(itertools.pairwise(argv))


@pytest.mark.parametrize("target", [targets.Softswitch(), targets.Bmv2()])
def test_both_targets_get_the_same_device_ports_and_addresses(launch, target):
    given = pairs(target.argv(launch))
    assert [value for flag, value in given if flag == "-i"] == [f"{n}@t0-p2-1-{n}" for n in (1, 2, 3, 4)]
    assert ("--device-id", "5") in given
    assert ("--grpc-server-addr", "unix:/run/x/lab/t0-p2-1.p4rt.sock") in given
    assert {("--cpu-port", "510"), ("--drop-port", "511"), ("--priority-queues", "8")} <= set(given)
    assert "--no-p4" in target.argv(launch)


def test_softswitch_gets_its_queues_by_flags(launch):
    given = pairs(targets.Softswitch().argv(launch))
    assert ("--queue-rate-pps", "700:0") in given
    assert [value for flag, value in given if flag == "--queue-depth"] == ["40:0", "99:7"]


def test_bmv2_gets_its_target_flags_after_the_double_dash(launch):
    argv = targets.Bmv2().argv(launch)
    assert argv.index("--thrift-port") < argv.index("--") < argv.index("--grpc-server-addr")


def test_softswitchs_depths_and_lateness_are_read_when_both_lines_are_whole_and_a_refusal_is_one(launch):
    query, late = targets.Softswitch().depth_query(launch, -1), b"ok 0.001250 0.7\n"
    assert query.request == b"register_read queue_depths 1 2 3 4\nlateness\n"
    assert query.read(b"ok 0 0 17") is None
    assert query.read(b"ok 0 0 17 2\nok 0.00125") is None
    assert query.read(b"ok 0 0 17 2\n" + late) == ({1: 0, 2: 0, 3: 17, 4: 2}, 0.00125)
    for answer, says in ((b"error: no program\n", "no program"), (b"ok 1 2 3\n", "shorter"), (b"\n", "not enough")):
        with pytest.raises(ValueError, match=says):
            query.read(answer + late)
    with pytest.raises(FileNotFoundError):
        query.connect()


@pytest.mark.usefixtures("with_bmv2")
def test_bmv2_is_the_default_where_it_is_installed():
    assert targets.choose().name == "bmv2"
    assert targets.choose("soft").name == "soft"


@pytest.mark.usefixtures("without_bmv2")
def test_soft_is_the_default_elsewhere_and_asking_for_bmv2_says_what_is_missing():
    assert targets.choose().name == "soft"
    with pytest.raises(UnknownTarget, match="target bmv2 needs simple_switch_grpc on PATH; install BMv2 or choose"):
        targets.choose("bmv2")


def test_an_unknown_target_is_refused():
    with pytest.raises(UnknownTarget, match="unknown target 'tofino'; choose soft or bmv2"):
        targets.choose("tofino")
