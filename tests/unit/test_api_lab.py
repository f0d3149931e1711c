"""The Python API: a lab that a program steps, its traffic and its end."""

import threading

import pytest
from api_runs import FABRIC

import mrclab
from mrclab.lab.errors import RunError, plain
from mrclab.lab.traffic.running.writes import RunningWrite
from mrclab.topo.errors import TopoError


def test_stopped_traffic_sends_nothing_more():
    with mrclab.up(FABRIC) as lab:
        flow = lab.start("write", **{"from": "h1", "to": "h2"}, size="8 MiB")
        lab.advance("20us")
        assert 0 < lab.qps("h1")[0]["acked_bytes"] < 1 << 20
        with pytest.raises(ValueError, match="25 is not a share; write a number from 0 to 1"):
            flow.reach(25)
        with pytest.raises(mrclab.RunError, match=r"write-1 is at [0-9]+% after 1us"):
            flow.wait("1us")
        assert not flow.stop().intact
        assert lab.qps("h1") == lab.qps("h2") == []
        lab.cut_short(lab.workloads["write-1"])  # again: nothing is left to end
        with lab.fault("agent_crash", host="h2"), pytest.raises(mrclab.RunError, match=r"^the agent of h2 is down$"):
            lab.transfer("h1", "h2", "64 KiB")
        assert lab.transfer("h1", "h2", "64 KiB").intact


@pytest.mark.parametrize("changes", [{}, {"queue": {"pfc": True}}])
def test_packets_on_their_way_are_not_drops(changes):
    with mrclab.up(FABRIC | changes) as lab:
        flow = lab.start("write", **{"from": "h1", "to": "h2"}, size="1 MiB")
        lab.advance("20us")
        assert flow.share < 1
        assert sum(lab.drops().values()) == 0


def test_a_lab_is_stepped_and_refuses_what_is_no_duration():
    with mrclab.up(FABRIC, seed=2) as lab:
        before = lab.now
        assert lab.advance("10us") == pytest.approx(before + 1e-5)
        assert lab.advance(1e-5) == lab.now == pytest.approx(before + 2e-5)
        for wrong in (-1, float("nan"), "soon"):
            with pytest.raises(ValueError, match="is not a duration; write"):
                lab.advance(wrong)
        with pytest.raises(ValueError, match="True is not a duration"):
            lab.advance(True)
        for wrong in ("h9", 3):
            with pytest.raises(LookupError, match="no host is called"):
                lab.paths(wrong)
    with pytest.raises(mrclab.ScenarioError, match="plane"), mrclab.up({"plane": 1}):
        pass


def test_a_fault_without_a_block_warns_as_it_was_never_in_force_and_one_may_have_several():
    with mrclab.up(FABRIC) as lab:
        with pytest.warns(RuntimeWarning, match="fault link_down was never in force; it lasts as long as its block"):
            lab.link("h1-p1/t0-p1-1").down()
        with pytest.raises(ValueError, match="rate"):
            lab.fault("loss", link="h1-p1/t0-p1-1")
        down = lab.link("h1-p1/t0-p1-1").down()
        for _ in range(2):
            with down:
                assert [fault.kind for fault in lab.time_line.active] == ["link_down"]
                with pytest.raises(ValueError, match="in force already"):
                    down.__enter__()
                assert len(lab.time_line.active) == 1
            assert not lab.time_line.active


def test_a_qp_that_stalls_at_a_host_without_part_in_another_traffic_ends_neither():
    with mrclab.up({**FABRIC, "hosts_per_t0": 2}) as lab:
        stalled = lab.start("write", **{"from": "h1", "to": "h3"}, size="1 MiB")
        other = lab.start("stream", **{"from": "h2", "to": "h4"}, duration="2ms", rate="1% of line", message="4 KiB")
        with lab.nic_down("h1"):
            lab.advance("1ms")  # more than 64 round trips: h1 reports it
            assert stalled.share < 1
        assert stalled.wait().intact
        assert other.wait().intact


def test_a_traffic_may_have_the_name_of_one_that_was_stopped():
    with mrclab.up({**FABRIC, "hosts_per_t0": 2}) as lab:
        lab.start("stream", name="x", **{"from": "h1", "to": "h3"}, size="1 MiB").stop()
        assert lab.run("stream", name="x", **{"from": "h2", "to": "h4"}, size="1 MiB").intact


def test_waiting_for_a_condition_ends_soon_after_it_is_met_on_fast_links():
    with mrclab.up(FABRIC) as lab:
        lab.wait_until(lambda: lab.now > 10e-6)
        assert lab.now < 100e-6  # no tenth of a second, which is thousands of round trips


def test_a_flap_goes_on_while_the_lab_is_stepped_and_what_runs_at_the_end_is_ended():
    with mrclab.up(FABRIC, seed=2) as lab:
        lab.start("stream", **{"from": "h1", "to": "h2"}, size="1 GiB")
        states = set()
        with lab.link("h1-p1").fault("flap", period="100us", duty="50%", count=3):
            for _ in range(40):
                lab.advance("10us")
                states.add(next(path["state"] == "PORT_DOWN" for path in lab.paths("h1") if path["plane"] == 1))
            assert states == {True, False}
        assert not lab.time_line.active
        with lab.link("h1-p1").down(), pytest.raises(ValueError, match="in force already; clear it"):
            lab.inject(lab.fault_of("link_down", {"link": "h1-p2", "name": lab.time_line.active[0].name}))
    assert [running.outcome["error"] for running in lab.workloads.values()] == ["the lab was taken down"]


def test_traffic_whose_bytes_are_counted_is_intact_where_all_of_them_arrived():
    with mrclab.up(FABRIC) as lab:
        assert lab.run("stream", **{"from": "h1", "to": "h2"}, size="64 KiB", content="counted").intact
        assert lab.run("open_loop", sizes="hadoop", load="20%", flows=3).intact
        assert lab.run("training", parameters=1e4, layers=1, forward="1us", hosts=["h1", "h2"]).intact
        flow = lab.start("stream", **{"from": "h1", "to": "h2"}, size="1 GiB", content="counted")
        assert not flow.stop().intact


def test_a_lab_that_is_down_does_nothing_more():
    with mrclab.up(FABRIC) as lab:
        flow = lab.start("stream", **{"from": "h1", "to": "h2"}, size="1 GiB")
        down = lab.link("h1-p1").down()
    calls = (
        lambda: lab.start("write", **{"from": "h1", "to": "h2"}, size="1 KiB"),
        lambda: lab.transfer("h1", "h2", "1 KiB"),
        lambda: lab.advance("1us"),
        lambda: lab.paths("h1"),
        lambda: flow.share,
        down.__enter__,
    )
    for call in calls:
        with pytest.raises(mrclab.RunError, match="this lab is down: its block has ended; bring up another one"):
            call()
    assert lab.now == 0.0
    assert flow.wait().error == "the lab was taken down"


def test_a_block_is_for_one_lab_and_for_the_main_thread():
    block = mrclab.up(FABRIC)
    with pytest.raises(AttributeError, match=r"write `with mrclab.up\(…\) as lab:`"):
        block.transfer("h1", "h2", 1)
    with block:
        pass
    with pytest.raises(mrclab.LabError, match=r"up already; call mrclab\.up again"), block:
        pass

    def said_elsewhere(call):
        said = []

        def refused():
            with pytest.raises(mrclab.LabError) as found:
                call()
            said.append(str(found.value))

        thread = threading.Thread(target=refused)
        thread.start()
        thread.join()
        return said[0]

    assert said_elsewhere(lambda: mrclab.up(FABRIC)).startswith("mrclab.up works in the main thread only")
    with mrclab.up(FABRIC) as lab:
        said = said_elsewhere(lambda: lab.advance("1us"))
        assert said.startswith("a lab's time passes in the thread that brought it up")
        assert lab.now == 0.0


def test_qps_of_a_finished_transfer_are_destroyed_once_however_many_follow(monkeypatch):
    released = []
    with mrclab.up(FABRIC) as lab:
        call = type(lab.world).call

        def counted(world, node, op, /, **arguments):
            released.extend([(node, arguments["name"])] if op == "release_workload" else [])
            return call(world, node, op, **arguments)

        monkeypatch.setattr(type(lab.world), "call", counted)
        for _ in range(4):
            assert lab.transfer("h1", "h2", 1000).intact
    # before each is prepared, so that none of its name is left, and once by the next
    assert [released.count(("h1", f"write-{number}")) for number in (1, 2, 3, 4)] == [2, 2, 2, 1]


def test_a_workload_is_cut_short_as_often_as_somebody_asks():
    with mrclab.up(FABRIC) as lab:
        lab.start("write", **{"from": "h1", "to": "h2"}, size="1 MiB")
        running = lab.workloads["write-1"]
        for _ in range(2):
            lab.cut_short(running)
        assert lab.qps("h1") == []
        lab.start("write", **{"from": "h1", "to": "h2"}, size=1000).wait()
        lab.cut_short(running)
        assert len(lab.qps("h1")) == 1


@pytest.mark.parametrize("error", [RunError("no more records can be written"), FileNotFoundError(2, "No such file")])
def test_a_workload_whose_end_could_not_be_recorded_has_failed_whenever_one_asks(monkeypatch, error):
    def fail(*_arguments):
        raise error

    with mrclab.up(FABRIC) as lab:
        started = lab.start("write", **{"from": "h1", "to": "h2"}, size=1000)
        monkeypatch.setattr(RunningWrite, "_digests", fail)
        with pytest.raises(type(error)):
            started.wait()
        for outcome in (started.wait(), started.stop()):
            assert (outcome.intact, outcome.bytes, outcome.error) == (False, 0, plain(error))


def test_all_traffic_is_ended_also_where_the_end_of_one_cannot_be_recorded(monkeypatch):
    def fail(*_arguments):
        raise RunError("no more records can be written")

    with mrclab.up(FABRIC) as lab:
        for _ in range(2):
            lab.start("stream", **{"from": "h1", "to": "h2"}, size="1 GiB")
        first, second = lab.workloads.values()
        monkeypatch.setattr(first, "finish", fail)
        with pytest.raises(RunError, match="no more records"):
            lab.close()
    assert second.outcome["error"] == "the lab was taken down"


def test_a_file_that_is_sent_is_never_written_also_where_its_size_is_another_one(tmp_path):
    theirs = tmp_path / "log"
    theirs.write_bytes(b"lines that somebody else appends to")
    with mrclab.up(FABRIC) as lab:
        place = lab.world.files / "h1" / "sent"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(theirs)
        with pytest.raises(RunError):
            lab.start("write", **{"from": "h1", "to": "h2"}, name="sent", size=1000)
    assert theirs.read_bytes() == b"lines that somebody else appends to"


def test_a_write_of_an_earlier_name_has_its_own_size():
    with mrclab.up(FABRIC) as lab:
        for size in (2000, 1000, 3000):
            assert lab.start("write", **{"from": "h1", "to": "h2"}, name="again", size=size).wait().intact


def test_a_workload_that_one_of_its_hosts_refuses_leaves_no_qps(monkeypatch):
    with mrclab.up(FABRIC) as lab:
        call = lab.world.call

        def refuse(host, op, **arguments):
            if (host, op) == ("h2", "prepare_workload"):
                raise RunError("h2 has no memory left")
            return call(host, op, **arguments)

        with monkeypatch.context() as patched:
            patched.setattr(lab.world, "call", refuse)
            with pytest.raises(RunError, match="no memory"):
                lab.start("write", **{"from": "h1", "to": "h2"}, size="1 MiB")
        assert lab.qps("h1") == []
        assert lab.transfer("h1", "h2", 1000).intact


def test_a_fault_that_can_neither_be_injected_nor_cleared_says_why_it_could_not_be_injected(monkeypatch):
    def fail(what):
        def raises(*_arguments):
            raise TopoError(what)

        return raises

    with mrclab.up(FABRIC) as lab:
        with monkeypatch.context() as patch:
            patch.setattr(lab.world.injector, "hold_down", fail("no such cable"))
            patch.setattr(lab.world.injector, "release", fail("no such owner"))
            with pytest.raises(RunError, match="could not be injected: no such cable"):
                lab.inject(lab.fault_of("link_down", {"link": "h1-p1"}))
        assert lab.transfer("h1", "h2", 1000).intact
