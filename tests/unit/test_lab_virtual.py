"""Scenarios in virtual time: the same runner, faults, expectations and report; no root, and the same run again."""

import errno
import gc
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from mrclab import HOME
from mrclab.lab.errors import Interrupted, LabError, RunError, ScenarioError
from mrclab.lab.faults.families import ActOnPackets
from mrclab.lab.faults.timeline import TimeLine
from mrclab.lab.history import History
from mrclab.lab.measure.measures import Measures
from mrclab.lab.report import results, summary
from mrclab.lab.run import runner, worlds
from mrclab.lab.run.interrupts import guarded
from mrclab.lab.run.mirror import Mirror
from mrclab.lab.run.virtual import VirtualWorld, virtual_world
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.units import show_bytes
from mrclab.lab.session.lab import Lab
from mrclab.lab.traffic.running import rings
from mrclab.lab.traffic.running.flows import Running
from mrclab.sim.clock import ticks
from mrclab.sim.world import SimWorld
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

SMALL = """\
name: small
world: sim
seed: 3
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 1, path_mtu: 1024}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 1 MiB}
  - {name: ring, kind: ring_all_reduce, hosts: all, size: 64 KiB, iterations: 3, start: 25% of file}
faults:
  - {name: cut, kind: link_down, link: t0-p1-1/t1-p1-1, at: 200ms, until: 600ms}
  - {name: gray, kind: loss, link: h2-p2, rate: 2%, at: 100ms, until: 900ms}
expect:
  - {kind: integrity}
  - {kind: qp_errors, at_most: 0}
  - {kind: retransmitted}
  - {kind: health}
  - {kind: clean}
linger: 5s
"""


ROCE = "transport: {kind: roce, qps: 4}\n" + SMALL.replace("planes: 2", "planes: 1").replace("h2-p2", "h2-p1")


def quiet(*_arguments):
    """Nobody watches."""


def run(text, parent, **options):
    return runner.run_scenario(scenario.loads(text), parent, quiet, options.get("notify", quiet))


def test_what_a_ring_must_give_is_computed_before_any_traffic_begins(tmp_path, monkeypatch):
    """While traffic runs the lab goes before ordinary work: what it computes then, switches and NICs wait for."""
    order = []
    start, content = Running.start, rings.content

    def started(self, at):
        order.append("start")
        start(self, at)

    def drawn(*words):
        order.append("content")
        return content(*words)

    monkeypatch.setattr(Running, "start", started)
    monkeypatch.setattr(rings, "content", drawn)
    assert run(SMALL, tmp_path).state == "passed"
    assert order == ["content"] * 2 + ["start"] * 2


def test_the_demo_holds_as_on_the_wire(tmp_path):
    loaded = scenario.in_world(scenario.load(HOME / "scenarios/link-failure.yaml"), "sim")
    outcome = runner.run_scenario(loaded, tmp_path, quiet, quiet)
    assert outcome.state == "passed", [verdict for verdict in outcome.verdicts if not verdict.ok]
    info = json.loads((outcome.directory / "run.json").read_text())
    assert (info["world"], len(info["history_sha256"])) == ("sim", 64)
    again = scenario.load(outcome.directory / "scenario.yaml")
    assert again.scenario.world == "sim"


DIGEST = (
    "import sys; from pathlib import Path; from mrclab.lab.run import runner; from mrclab.lab.scenario import scenario;"
    "quiet = lambda *_: None; loaded = scenario.load(Path(sys.argv[1]));"
    "outcome = runner.run_scenario(loaded, Path(sys.argv[2]), quiet, quiet, report=False);"
    "sys.stdout.write((outcome.directory / 'history.jsonl').read_text())"
)


def history_by(python, text, parent, hash_seed="0"):
    """The history as another process writes it."""
    (parent / "small.yaml").write_text(text)
    argv = [str(python), "-c", DIGEST, str(parent / "small.yaml"), str(parent / "results")]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(HOME)}
    return subprocess.run(argv, capture_output=True, text=True, check=True, env=environment).stdout


@pytest.fixture(scope="module")
def own_history(tmp_path_factory):
    return history_by(sys.executable, SMALL, tmp_path_factory.mktemp("own"))


def test_the_same_seed_gives_the_same_bytes_again_whatever_the_hash_seed(tmp_path, own_history):
    assert len(own_history.splitlines()) > 100
    assert history_by(sys.executable, SMALL, tmp_path, hash_seed="77") == own_history


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_the_same_seed_gives_the_same_bytes_under_every_python(tmp_path, own_history, version):
    if version == "{}.{}".format(*sys.version_info[:2]):
        pytest.skip(f"Python {version} is the one that the others are compared with")
    python = HOME / f".venv-{version}" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no Python {version} with the lab's dependencies here; setup/pythons.sh {version} makes one")
    assert history_by(python, SMALL, tmp_path) == own_history
    others = tmp_path / "roce"
    others.mkdir()
    assert history_by(python, ROCE, others) == history_by(sys.executable, ROCE, others)


def test_a_run_measured_without_files_is_the_run_that_files_tell(tmp_path, monkeypatch):
    loaded, quiet = scenario.loads(SMALL), lambda *_: None
    kept = runner.run_scenario(loaded, tmp_path, quiet, quiet, report=False)
    monkeypatch.setattr(results, "collect", None)
    found = runner.measure(loaded, tmp_path / "none", quiet, quiet)
    assert (found.state, found.verdicts) == (kept.state, kept.verdicts)
    assert found.measures.history.records == kept.measures.history.records
    assert not (tmp_path / "none").exists()


def test_a_scenario_without_a_report_has_figures_and_draws_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "write_page", None)
    outcome = run(f"report: false\n{SMALL}", tmp_path)
    assert outcome.facts.ok
    assert not list(outcome.directory.glob("*.png"))
    assert json.loads((outcome.directory / "result.json").read_text())["ok"]
    assert results.page_of(outcome.directory) == outcome.directory / "result.json"


def test_the_verdict_is_known_before_the_report_is_drawn_and_passed_on_once(tmp_path, monkeypatch):
    heard = []

    def fails(collected):
        assert [outcome.state for outcome in heard] == ["passed"]
        if tmp_path in collected.directory.parents:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(results, "write_page", fails)
    outcome = runner.run_scenario(scenario.loads(SMALL), tmp_path, quiet, quiet, on_verdict=heard.append)
    assert len(heard) == 1
    assert tmp_path not in outcome.directory.parents
    shutil.rmtree(outcome.directory.parent)


def test_a_run_that_cannot_write_for_its_page_any_more_keeps_its_results(tmp_path):
    def show(world):
        mirror = Mirror(world, tmp_path / "place")
        mirror._file.close()
        mirror._file = open("/dev/full", "w")  # noqa: PTH123, SIM115 - it is of the mirror
        world.follow(mirror)

    outcome = runner.run_scenario(scenario.loads(SMALL), tmp_path / "results", quiet, quiet, show=show)
    assert (outcome.state, "No space left" in outcome.error) == ("aborted", True)
    assert outcome.measures.history.records


def test_another_seed_gives_another_run(tmp_path):
    first, second = (run(SMALL.replace("seed: 3", f"seed: {n}"), tmp_path) for n in (3, 4))
    assert first.facts.run["history_sha256"] != second.facts.run["history_sha256"]
    assert first.state == second.state == "passed"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("{name: x, kind: controller_partition, switch: t0-p1-1, at: 1s}", "controller_partition"),
        ("{name: x, kind: controller_slow, period: 1s, pause: 500ms, at: 1s}", "controller_slow"),
    ],
)
def test_a_fault_that_needs_processes_is_refused_by_name_before_anything_starts(tmp_path, fault, kind):
    text = SMALL.split("faults:", maxsplit=1)[0] + f"faults:\n  - {fault}\n"
    with pytest.raises(ScenarioError, match=f"fault x: {kind} is not supported in virtual time"):
        run(text, tmp_path)
    assert list(tmp_path.iterdir()) == []
    worlds.check(scenario.in_world(scenario.loads(text), "wire"))


def test_a_run_that_waits_for_ever_says_who_waits_for_what(tmp_path):
    text = (
        SMALL.split("faults:", maxsplit=1)[0]
        + "timeout: 2s\nfaults:\n  - {name: dead, kind: nic_down, host: h2, at: 100ms}\n"
    )
    outcome = run(text, tmp_path)
    assert outcome.state == "aborted"
    assert "waits for file" in outcome.error
    assert "h1 QP" in outcome.error


def test_a_run_whose_bytes_can_never_arrive_says_so_long_before_its_timeout(tmp_path):
    text = (
        SMALL.split("faults:", maxsplit=1)[0]
        + "timeout: 600s\nfaults:\n  - {name: dead, kind: nic_down, host: h2, at: 100ms}\n"
    )
    outcome = run(text, tmp_path)
    assert outcome.state == "aborted"
    assert outcome.error.startswith("nothing can end the run any more: it waits for file")
    assert "h1 QP" in outcome.error
    assert outcome.measures.end - outcome.measures.start < 10


def test_a_qp_whose_own_paths_are_all_in_planes_without_carrier_waits_for_nothing(tmp_path):
    text = (
        SMALL.split("traffic:", maxsplit=1)[0]
        + "timeout: 600s\ntraffic:\n"
        + "  - {name: file, kind: write, from: h1, to: h2, size: 1 MiB, paths: [{plane: 1, uplink: 1}]}\n"
        + "faults:\n  - {name: dead, kind: link_down, link: h1-p1, at: 50ms}\n"
    )
    outcome = run(text, tmp_path)
    assert outcome.error.startswith("nothing can end the run any more: it waits for file")
    assert outcome.measures.end - outcome.measures.start < 10


def test_a_cable_that_comes_back_at_a_known_time_is_waited_for(tmp_path):
    text = (
        SMALL.split("faults:", maxsplit=1)[0].split("  - {name: ring", maxsplit=1)[0]
        + "faults:\n  - {name: dead, kind: nic_down, host: h2, at: 50ms, until: 3s}\n"
    )
    outcome = run(text, tmp_path)
    assert (outcome.state, outcome.error) == ("passed", "")


def test_a_signal_ends_a_run_between_two_events_and_what_was_done_is_reported(tmp_path):
    said = []

    def say(text):
        said.append(text)
        if text.startswith("gray"):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted, match="interrupted"):
        run(SMALL, tmp_path, notify=say)
    (directory,) = tmp_path.iterdir()
    assert (directory / "report.html").exists()
    assert str(directory) in said[-1]
    result = json.loads((directory / "result.json").read_text())
    assert result["state"] == "aborted"
    assert any("h2-p2" in str(row) for row in result["facts"]["faults"])


@pytest.mark.parametrize("who", ["controller", "run"])
def test_a_signal_ends_a_long_wait_at_the_event_during_which_it_comes(who):
    ended = []

    def wait():
        with virtual_world(Fabric(FabricSpec(planes=1, t0s=1, t1s=1, hosts_per_t0=2))) as world:
            world.injector.kill("t0-p1-1")
            clock = world._sim._clock
            clock.call_at(ticks(0.25), lambda _: signal.raise_signal(signal.SIGTERM))
            try:
                if who == "controller":
                    world.call("controller", "wait_verified", timeout=1e3)
                else:
                    world.pause(1e3)
            finally:
                ended.append(world.now)

    with pytest.raises(Interrupted):
        wait()
    assert ended == [0.25]


def test_who_listens_hears_what_came_while_time_was_let_pass():
    fabric = Fabric(FabricSpec(planes=1, t0s=1, t1s=1, hosts_per_t0=2))
    with virtual_world(fabric) as world:
        first, second = world.subscribe(["h1"]), world.subscribe(["h1", "h2"])
        began = world.now
        world.injector.kill("h1")
        world.pause(0.5)
        assert world.now == pytest.approx(began + 0.5)
        assert [(host, event["kind"]) for host, event in first.wait(1.0)] == [("h1", "agent.gone")]
        assert [host for host, _ in second.wait(1.0)] == ["h1"]
        assert (first.is_subscribed("h1"), second.is_subscribed("h2")) == (False, True)
        assert second.wait(2.0) == []
        assert world.now == 2.0


def test_the_first_signal_waits_for_who_looks_and_the_second_does_not():
    with guarded() as interrupts:
        interrupts.defer()
        signal.raise_signal(signal.SIGINT)
        assert interrupts.seen == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


TRUE_SPEED = """\
name: true-speed
world: sim
fabric: {planes: 4, t0s: 2, t1s: 4, hosts_per_t0: 1, link: {rate: 100 Gb/s, delay: 600 ns}}
traffic:
  - {name: file, kind: stream, from: h1, to: h2, message: 256 KiB, depth: 8, size: 16 MiB}
faults:
  - {name: cut, kind: link_down, link: t0-p1-1/t1-p1-2, at: 100us, until: 200us}
expect:
  - {kind: integrity}
  - {kind: goodput, window: start + 5rtt .. cut, at_least: 95% of line}
  - {kind: stall, window: start + 5rtt .. end, max_rtts: 5}
  - {kind: lost, fault: cut, at_most: 60}
  - {kind: clean}
linger: 5ms
"""


def test_links_of_100_gigabits_are_filled_and_told_in_their_units(tmp_path):
    outcome = run(TRUE_SPEED, tmp_path)
    assert outcome.state == "passed", [verdict for verdict in outcome.verdicts if not verdict.ok]
    goodput = outcome.verdicts[1]
    assert goodput.when.endswith("µs")
    assert outcome.measures.rates.line() == pytest.approx(4 * 12.5e9 * 4096 / 4238, rel=1e-6)
    assert (outcome.facts.units.time, outcome.facts.units.rate) == ("µs", "Gb/s")
    assert 350e-6 < outcome.measures.end - outcome.measures.start < 500e-6


def test_the_wire_refuses_a_line_rate_that_it_cannot_carry_and_says_what_it_could(tmp_path):
    loaded = scenario.in_world(scenario.loads(TRUE_SPEED), "wire")
    with pytest.raises(ScenarioError, match=r"2949504 packets/s are more than the 100000 \(3390 Mb/s"):
        runner.run_scenario(loaded, tmp_path, quiet, quiet)
    slower = TRUE_SPEED.replace("100 Gb/s", "5 Mb/s").replace("600 ns", "5ms")
    worlds.check(scenario.in_world(scenario.loads(slower), "wire"))


def test_the_wire_refuses_nics_that_take_a_time_of_the_model_s():
    slow = TRUE_SPEED.replace("100 Gb/s", "5 Mb/s").replace("600 ns}", "5ms}, nic_latency: 2us")
    with pytest.raises(ScenarioError, match=r"fabric\.nic_latency: .*leave it out, or run it with --world sim"):
        worlds.check(scenario.in_world(scenario.loads(slow), "wire"))


def test_what_is_due_at_a_time_that_no_float_meets_happens_all_the_same(tmp_path):
    starts = ["0.01", "0.15", "0.16", "0.17", "0.21", "0.22", "0.23", "0.99"]  # (0.017 + 0.15) - 0.017 < 0.15
    traffic = [
        f"  - {{name: part-{n}, kind: write, from: h1, to: h2, size: 2 KiB, start: {at}s}}\n"
        for n, at in enumerate(starts)
    ]
    fabric = SMALL.split("traffic:", maxsplit=1)[0].replace("path_mtu: 1024", "path_mtu: 1024, link: {delay: 7ms}")
    text = fabric + "traffic:\n" + "".join(traffic) + "expect: [{kind: integrity}]\n"
    outcome = run(text, tmp_path)
    assert outcome.state == "passed"
    began = [record.t for record in outcome.measures.history.of("traffic.start")]
    assert [t - began[0] for t in began] == pytest.approx([float(at) - 0.01 for at in starts], abs=1e-6)


@pytest.mark.parametrize("moment", ["collect", "load"])
def test_a_signal_while_the_run_is_collected_or_judged_costs_nothing_that_was_done(tmp_path, monkeypatch, moment):
    does = getattr(results, moment)

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return does(*arguments)

    monkeypatch.setattr(results, moment, interrupted)
    said = []
    with pytest.raises(Interrupted):
        run(SMALL, tmp_path, notify=said.append)
    (directory,) = tmp_path.iterdir()
    assert f"what was done until then is in {directory}" in said
    monkeypatch.undo()
    assert runner.finish(directory).measures.faults


def test_a_second_signal_while_what_was_measured_is_collected_costs_none_of_it(tmp_path, monkeypatch):
    fill = results._fill

    def interrupted(directory, *arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        fill(directory, *arguments)

    monkeypatch.setattr(results, "_fill", interrupted)

    def say(text):
        if text.startswith("gray: ") and "cleared" not in text:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        run(SMALL, tmp_path, notify=say)
    (directory,) = tmp_path.iterdir()
    assert json.loads((directory / "result.json").read_text())["state"] == "aborted"


def test_a_signal_after_a_run_was_aborted_costs_nothing_that_was_measured(tmp_path, monkeypatch):
    def fail(*_arguments):
        raise RunError("a helper was killed")

    def say(text):
        if text == "a helper was killed":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(TimeLine, "advance", fail)
    with pytest.raises(Interrupted):
        run(SMALL, tmp_path, notify=say)
    (directory,) = tmp_path.iterdir()
    assert json.loads((directory / "run.json").read_text())["error"] == "a helper was killed"


def test_traffic_of_an_aborted_run_is_abandoned_before_the_lab_goes_down(tmp_path, monkeypatch):
    order = []
    stop = VirtualWorld.stop

    def fail(*_arguments):
        raise RunError("a helper was killed")

    monkeypatch.setattr(Lab, "step", fail)
    monkeypatch.setattr(Running, "abandon", lambda running: order.append(running.name), raising=False)
    monkeypatch.setattr(VirtualWorld, "stop", lambda world: order.append("down") or stop(world))
    assert run(SMALL, tmp_path).error == "a helper was killed"
    assert order[:2] == ["file", "down"]


def test_a_signal_after_results_moved_from_a_full_disk_names_their_place(tmp_path, monkeypatch):
    monkeypatch.setattr(results.tempfile, "tempdir", str(tmp_path))
    write = results.write_numbers

    def full(outcome):
        if outcome.directory.parent == tmp_path / "full":
            raise OSError(errno.ENOSPC, "No space left on device")
        write(outcome)

    monkeypatch.setattr(results, "write_numbers", full)
    said = []

    def say(text):
        said.append(text)
        if text.startswith("the report could not be written"):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        run(SMALL, tmp_path / "full", notify=say)
    (moved,) = tmp_path.glob("mrclab-results-*/small-*")
    assert said[-1] == f"what was done until then is in {moved}"


def test_a_report_that_fits_nowhere_names_what_is_kept_and_the_remedy(tmp_path, monkeypatch):
    def full(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(results.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(results, "write_page", full)
    monkeypatch.setattr(results.shutil, "copytree", full)
    with pytest.raises(RunError) as caught:
        run(SMALL, tmp_path / "full")
    (kept,) = (tmp_path / "full").iterdir()
    assert str(caught.value) == (
        f"the report could not be written to {kept}: No space left on device; nor does it fit into {tmp_path}; make"
        f" room, then run `mrclab report {kept}`"
    )
    assert list(tmp_path.glob("mrclab-results-*")) == []
    monkeypatch.undo()
    assert runner.finish(kept).ok


def test_a_disk_that_is_full_is_named_by_the_file_that_does_not_fit(tmp_path, monkeypatch):
    def full(_draw, _length):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("random.Random.randbytes", full)
    outcome = run(SMALL, tmp_path)
    assert outcome.error.endswith("/h1/file: No space left on device")


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_a_directory_that_could_not_be_filled_does_not_stay(tmp_path, monkeypatch, error):
    def fail(*_arguments):
        raise error

    monkeypatch.setattr(VirtualWorld, "collect", fail)
    fabric = Fabric(FabricSpec(planes=1, t0s=1, t1s=1, hosts_per_t0=2))
    with virtual_world(fabric) as world, pytest.raises((LabError, KeyboardInterrupt)):
        results.snapshot(world, scenario.loads(SMALL), tmp_path / "results")
    assert list((tmp_path / "results").iterdir()) == []


@pytest.mark.whole
def test_a_run_is_judged_in_the_memory_that_its_world_had(tmp_path, monkeypatch):
    load = results.load

    def worlds_in_memory():
        return sum(isinstance(thing, SimWorld) for thing in gc.get_objects())

    def load_alone(*arguments):
        assert worlds_in_memory() == before
        return load(*arguments)

    gc.collect()
    before = worlds_in_memory()  # those of other tests

    monkeypatch.setattr(results, "load", load_alone)
    run(SMALL, tmp_path)


def test_the_headline_counts_what_flows_carried_however_seldom_hosts_were_sampled(tmp_path):
    stream = "  - {name: mice, kind: stream, from: h1, to: h2, duration: 300ms, message: 4 KiB}\n"
    outcome = run(SMALL.replace("faults:", stream + "faults:"), tmp_path)
    rare = Measures(
        History(r for r in outcome.measures.history.records if r.kind != "sample"),
        outcome.measures.scenario,
        outcome.measures.fabric,
    )
    carried = sum(record["bytes"] for record in outcome.measures.history.of("traffic.end"))
    assert show_bytes(carried) in summary.summarize(rare, [], {}).headline


def test_what_cannot_be_cleared_does_not_hide_why_the_run_ended(tmp_path, monkeypatch):
    def fails(what):
        def fail(*_arguments):
            raise RunError(what)

        return fail

    monkeypatch.setattr(TimeLine, "clear_all", fails("cut could not be cleared"))
    assert run(SMALL, tmp_path).error == "cut could not be cleared"
    monkeypatch.setattr(TimeLine, "advance", fails("a helper was killed"))
    assert run(SMALL, tmp_path).error == "a helper was killed"


def test_a_run_for_which_the_machine_has_no_thread_left_keeps_what_it_measured(tmp_path, monkeypatch):
    def fail(error):
        def advance(*_arguments):
            raise error

        monkeypatch.setattr(TimeLine, "advance", advance)

    fail(RuntimeError("can't start new thread"))
    outcome = run(SMALL, tmp_path)
    assert outcome.error.startswith("this machine has run out of processes and threads; ")
    assert (outcome.directory / "history.jsonl").exists()
    for bug in (RuntimeError("a mistake"), NotImplementedError()):
        fail(bug)
        with pytest.raises(type(bug)):
            run(SMALL, tmp_path)


@pytest.mark.parametrize(
    "fault",
    [
        "kind: flap, link: t0-p1-1/t1-p1-1, period: 500ms, duty: 20%",
        "kind: population, count: 1, of: t0-t1, fault: {kind: flap, period: 500ms, duty: 20%}",
    ],
)
def test_a_fault_without_an_end_ends_with_the_traffic(fault, tmp_path):
    head, _, expect = SMALL.partition("faults:\n")
    optic = f"faults:\n  - {{name: optic, {fault}, at: 100ms}}\n"
    outcome = run(head + optic + expect[expect.index("expect:") :], tmp_path)
    assert outcome.error == ""
    assert outcome.measures.history.records[-1].t < 100


AT_ONCE = """\
name: at-once
world: sim
seed: 3
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 1, path_mtu: 1024}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 256 KiB}
  - {name: more, kind: write, from: h1, to: h2, size: 64 KiB, start: 500ms}
faults:
  - {name: first, kind: lose_packets, link: h2-p1, direction: down, packets: [1], at: 0s}
  - {name: with-more, kind: lose_packets, link: h2-p2, direction: down, packets: [1], at: 500ms}
  - {name: with-file, kind: loss, link: h2-p2, rate: 1%, at: file + 0s}
"""


def test_no_packet_is_sent_before_a_fault_that_is_due_with_its_traffic(tmp_path, monkeypatch):
    """On the wire it takes a while to put a fault in place; here too, by this patch."""
    inject = ActOnPackets.inject

    def slowly(action):
        action.context.pause(0.1)
        inject(action)

    monkeypatch.setattr(ActOnPackets, "inject", slowly)
    records = run(AT_ONCE, tmp_path).measures.history.records
    began = {r.data["traffic"]: r.t for r in records if r.kind == "traffic.start"}
    began |= {r.data["fault"]: r.t for r in records if r.kind == "fault.begin"}
    assert (began["first"], began["file"]) == (0.0, pytest.approx(0.1))
    assert began["with-file"] == pytest.approx(began["file"])
    assert began["with-more"] == pytest.approx(began["file"] + 0.5), "second 0 is when the traffic begins"
    assert began["more"] >= began["with-more"] + 0.1
