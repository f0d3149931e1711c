"""The command's own manners: output that nobody reads or that cannot be written, and errors that nobody foresaw."""

import inspect
import io
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

import mrclab
from mrclab.lab.command import cli, ending, entry, machine
from mrclab.lab.command.live import shortcut
from mrclab.lab.command.runs import running, scenarios
from mrclab.lab.errors import LabError, ScenarioError, Unreachable
from mrclab.lab.faults.action import FaultAction
from mrclab.lab.prompt import prompt, registry
from mrclab.lab.run.wire import attach
from mrclab.topo.config import registry as algorithms
from mrclab.topo.linux import state
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

PLAN = [sys.executable, "-c", "from mrclab.lab.command.entry import main; main()", "plan"]


class Refuses(io.StringIO):
    """A stream that takes nothing."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def write(self, _text):
        raise self.error


def test_a_reader_that_leaves_early_changes_nothing_about_the_exit_status():
    with subprocess.Popen(PLAN, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, b"")


def test_a_signal_that_comes_when_all_is_done_changes_nothing():
    late = "import atexit, os, signal; atexit.register(os.kill, os.getpid(), signal.SIGINT); "
    done = subprocess.run([*PLAN[:2], late + PLAN[2], *PLAN[3:]], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_said_and_has_a_status_of_its_own():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(PLAN, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == ending.LOST
    assert done.stderr.splitlines() == ["mrclab: its output was lost: No space left on device; its files were written"]


@pytest.mark.parametrize("closed", [1, 2])
def test_a_stream_that_was_closed_before_is_none_that_matters(closed):
    without = [sys.executable, "-c", f"import os, sys; os.close({closed}); os.execv(sys.executable, sys.argv[1:])"]
    done = subprocess.run([*without, *PLAN], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_locale_without_the_characters_of_a_report_is_no_mistake_of_the_lab_s():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run(PLAN, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"t0-p1-1" in done.stdout


def test_ctrl_c_in_a_benchmark_is_the_benchmark_s_and_its_status_counts():
    """A terminal interrupts both; the command waits until the benchmark has cleaned up."""
    child = """if True:
        import os, signal, sys, time
        from pathlib import Path
        status = Path(f"/proc/{os.getppid()}/status")
        for _ in range(1000):
            if int(status.read_text().partition("SigIgn:")[2].split()[0], 16) & 1 << signal.SIGINT - 1:
                break
            time.sleep(0.01)
        try:
            os.kill(os.getppid(), signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            sys.exit(7)
    """
    assert machine._run([sys.executable, "-c", child]) == 7


def test_a_sink_keeps_why_and_goes_on():
    broken, full = ending.Sink(Refuses(BrokenPipeError(32, "Broken pipe"))), ending.Sink(Refuses(OSError(28, "full")))
    for one in (broken, full):
        assert one.write("text") == 4
        one.flush()
    assert (broken.error, full.error) == ("", "full")


def test_an_unexpected_error_names_its_place_and_a_method_that_a_class_lacks(capfd, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(NotImplementedError) as error:
        FaultAction(None, None).clear()
    assert ending._report(error.value) == 1
    printed = capfd.readouterr().err
    assert re.match(
        r"mrclab: internal error in mrclab.lab.faults.action, line \d+: NotImplementedError: "
        r"FaultAction lacks the method clear; its traceback is in ",
        printed.replace("\n", " "),
    )


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (OSError(28, "No space left on device", "/run/x/log"), 1, "mrclab: /run/x/log: No space left on device;"),
        (PermissionError(13, "Permission denied", "/run/x"), 2, "run the same command with sudo"),
        (KeyboardInterrupt(), 130, "mrclab: interrupted"),
        (algorithms.KindError("fault 'x' of y cannot be loaded"), 2, "mrclab: fault 'x' of y cannot be loaded\n"),
        (ZeroDivisionError("by zero"), 1, ": ZeroDivisionError: by zero; its traceback is in "),
    ],
)
def test_every_error_is_one_sentence_without_a_traceback(monkeypatch, capfd, tmp_path, error, status, said):
    app = typer.Typer()

    @app.command()
    def fails():
        raise error

    monkeypatch.setattr(cli, "app", lambda **options: app([], **options))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))  # main puts sinks in their places
    with pytest.raises(SystemExit) as end:
        cli.main()
    printed = capfd.readouterr()
    assert end.value.code == status
    assert said in printed.err
    assert "Traceback" not in printed.err
    kept = list(tmp_path.glob("mrclab-*.log"))
    assert len(kept) == isinstance(error, ZeroDivisionError)


@pytest.mark.parametrize(
    "words",
    [
        ["--run-dir", "DIR", "status"],
        ["status", "--run-dir", "DIR"],
        ["status", "--run-dir=DIR", "--json"],
        ["deny", "plane", "--run-dir", "DIR", "3"],
        ["--run-dir", "other/lab", "status", "--run-dir", "DIR"],  # the last one counts, as of every option
    ],
)
def test_the_run_directory_may_be_named_behind_the_command_too(tmp_path, monkeypatch, words):
    asked = []
    monkeypatch.setattr(state, "running", lambda _base: 1)
    monkeypatch.setattr(attach, "attach", asked.append)
    place = tmp_path / "lab"
    answer = CliRunner().invoke(cli.app, [word.replace("DIR", str(place)) for word in words])
    assert asked == [place], answer.output
    assert "no lab is running" in str(answer.exception)


def test_a_mistake_in_a_package_that_adds_kinds_is_not_the_labs(monkeypatch, capfd, tmp_path):
    monkeypatch.setattr(algorithms, "outside_packages", lambda: {"outage"})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    outage = {"__name__": "outage.faults"}
    exec(compile("\n\ndef inject():\n    return 1 / 0", "faults.py", "exec"), outage)
    with pytest.raises(ZeroDivisionError) as found:
        outage["inject"]()
    assert ending._report(found.value) == 1
    assert "mrclab: error in outage.faults, line 4: ZeroDivisionError: division by zero" in capfd.readouterr().err


SHORT = """
name: short
world: sim
fabric: {planes: 1, t0s: 2, t1s: 1, hosts_per_t0: 1, link: {rate_pps: 1000, delay: 1ms}}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 64 KiB}
expect:
  - {kind: integrity}
  - {kind: lost, at_most: -1}
"""


def answered(*words) -> dict:
    """Return the output of a command with --json: one object alone, with its exit status in it."""
    result = CliRunner().invoke(cli.app, [*map(str, words), "--json"])
    assert result.stdout.startswith("{"), (result.stdout[:300], result.exception, result.stderr[-300:])
    told = json.loads(result.stdout)
    assert (told["command"], told["ok"], told["exit"]) == (words[0], result.exit_code == 0, result.exit_code)
    return told


def test_every_answer_for_programs_has_one_shape(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "short.yaml"
    file.write_text(SHORT.replace("  - {kind: lost, at_most: -1}\n", ""))
    ran = answered("run", file)
    assert (ran["state"], [each["ok"] for each in ran["expectations"]]) == ("passed", [True])
    assert answered("report", ran["directory"])["state"] == "passed"
    file.write_text(SHORT.replace("kind: lost, at_most: -1", "kind: completion, traffic: file, at_most: 1us"))
    assert answered("run", file)["state"] == "failed"
    suite = answered("suite", file)
    assert [run["state"] for run in suite["runs"]] == ["failed"]
    planned = answered("plan", file, "--entries")
    assert [flow["name"] for flow in planned["flows"]] == ["file/h1>h2"]
    assert set(planned["entries"]) == {switch["name"] for switch in planned["switches"]}
    assert answered("plan", file, "--set", "fabric.t0s=3")["fabric"]["t0s"] == 3
    assert len(answered("run", file, "--dry-run")["runs"]) == 1
    assert answered("suite", file, "--dry-run")["runs"][0]["name"] == "short"
    (tmp_path / "mine.p4").write_text("")
    graded = answered("grade", 2, tmp_path / "mine.p4")
    assert (graded["lesson"], graded["ok"], bool(graded["checks"])) == (2, False, True)
    interim_verdicts = answered("grade", "--all", tmp_path)["lessons"]
    assert interim_verdicts[1] == {"lesson": 2, "title": "The uN shift in P4", "ok": False, "missing": "no shift.p4"}
    assert len(interim_verdicts) == 9
    sent = answered("send", "h1", "h3", file, "--world", "sim")
    assert sent["bytes"] == file.stat().st_size


@pytest.mark.once
def test_experiments_answer_programs_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "short.yaml"
    file.write_text(SHORT.replace("kind: lost, at_most: -1", "kind: completion, traffic: file, at_most: 80ms"))
    made = answered("campaign", file, "--seeds", "1,2", "--set", "fabric.link.delay=1ms,40ms", "--workers", "1")
    assert (made["exit"], made["runs"], made["states"]) == (1, 4, {"passed": 2, "failed": 2})
    ((delay,),) = [each["fields"] for each in made["expectations"] if each["name"] == "completion"]
    assert (delay["chance"], [value["passed"] for value in delay["values"]]) == (False, [2, 0])
    assert [each["values"] for each in made["not_passed"]] == [{"fabric.link.delay": "40ms"}] * 2
    assert len(Path(made["rows"]).read_text(encoding="utf-8").splitlines()) == 4
    soaked = answered("soak", "--seeds", "3")
    assert (soaked["first"], soaked["passed"], soaked["failed"]) == (3, 1, [])
    assert {**answered("soak", "--runs", "1", "--from", "3"), "seconds": 0} == {**soaked, "seconds": 0}
    assert answered("soak", "--seed", "3")["plan"]
    moments = chain([0.0] * 3, repeat(9.0))  # the second is over when one case is done, on any machine
    monkeypatch.setattr("mrclab.experiments.survey.cli.time", SimpleNamespace(monotonic=lambda: next(moments)))
    surveyed = answered("survey", "--world", "sim", "--singles", "1", "--doubles", "0", "--seconds", "1")
    assert (surveyed["done"], surveyed["exit"], surveyed["cases"]) == (False, 3, 1)
    assert answered("survey", "--page", "page.md")["records"] == surveyed["records"]
    file.write_text(file.read_text().replace("world: sim\n", ""))
    both = answered("worlds", file, "--seeds", "1", "--world", "sim", "--results", "worlds")
    assert [(each["run"], each["states"]["sim"]) for each in both["runs"]] == [("short", {"passed": 1})]


@pytest.mark.parametrize(
    "words",
    [
        ["run", "true-speed"],
        ["run", "true-speed", "--dry-run"],
        ["suite", "true-speed"],
        ["up", "--world", "sim"],
        ["send", "h1", "h3", __file__, "--world", "sim"],
        ["survey", "--world", "sim"],
        ["worlds", "true-speed", "--world", "sim"],
    ],
)
def test_a_p4_target_for_virtual_time_is_refused(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli.app, [*words, "--target", "soft"])
    said = "--target soft: virtual time has no P4 switches; leave it out, or choose --world wire"
    assert (type(done.exception), str(done.exception)) == (LabError, said)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("words", "headings"), [(["switch", "--json"], 0), ([], 5)])
def test_one_benchmark_alone_has_no_heading_so_that_its_json_can_be_read(monkeypatch, words, headings):
    monkeypatch.setattr(machine, "_run", lambda _: 0)
    done = CliRunner().invoke(cli.app, ["bench", *words])
    assert (done.exit_code, done.stdout.count("──\n")) == (0, headings), done.output


def test_every_command_that_tells_something_has_json():
    without = {
        "bench",
        "exec",
        "p4sh",
        "up",
        "ui",
        "capture",
        "schema",
        "train",
        "packets",
    }  # others' output, a prompt, a page, files
    commands = typer.main.get_command(cli.app).commands
    lacking = {
        name for name, command in commands.items() if not any("--json" in param.opts for param in command.params)
    }
    assert lacking == without


def test_the_prompts_commands_are_commands_where_no_other_has_the_name():
    assert prompt  # it makes the commands known
    others = {name for panel in cli.PANELS.values() for name, module in panel.items() if "secondterminal" not in module}
    assert set(shortcut.NAMES) == {word.name for word in registry.COMMANDS.values()} - others - {"help"}


def test_every_command_is_where_the_table_says_with_help_of_one_line():
    commands = typer.main.get_command(cli.app).commands
    assert len(commands) == sum(map(len, cli.PANELS.values()))
    assert all(command.name == name and command.help.strip() for name, command in commands.items())


@pytest.mark.parametrize("line", ["flows", "down h1-p2", "status", "do flows", "--version"])
def test_a_command_for_a_lab_elsewhere_loads_neither_models_nor_simulator(tmp_path, line):
    program = (
        "import sys\n"
        f"sys.argv = ['mrclab', *{line.split()!r}, '--run-dir', {str(tmp_path)!r}]\n"
        "from mrclab.lab.command import cli\n"
        "try:\n"
        "    cli.main()\n"
        "except SystemExit:\n"
        "    print(*sys.modules)\n"
    )
    (tmp_path / "controller.sock").touch()  # nobody listens
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    loaded = set(done.stdout.split())
    assert "mrclab.lab.command.cli" in loaded, done.stderr
    heavy = {"mrclab.sim.world", "mrclab.lab.scenario.scenario", "jinja2", "matplotlib"}
    assert not loaded & heavy


def test_a_command_of_the_prompt_needs_no_machinery_of_the_command_line(tmp_path):
    # Only what goes well: to say what is wrong takes rich.
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "lab.sock"))
    listening.listen()
    program = (
        "import sys\n"
        f"sys.argv = ['mrclab', 'flows', '--json', '--run-dir', {str(tmp_path)!r}]\n"
        "from mrclab.lab.command import entry\n"
        "try:\n"
        "    entry.main()\n"
        "except SystemExit as end:\n"
        "    print(end.code, *sys.modules)\n"
    )
    tmp_path.chmod(0o700)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    with listening, process, listening.accept()[0] as peer:
        asked = json.loads(peer.makefile().readline())
        peer.sendall(json.dumps({"id": asked["id"], "ok": {"text": "", "data": [1]}}).encode() + b"\n")
        said = process.communicate()[0].splitlines()
    assert asked == {"id": asked["id"], "op": "command", "line": "flows", "width": 120}
    assert said[0] == "[1]"
    status, *loaded = said[1].split()
    assert status == "0"
    assert not set(loaded) & {"typer", "rich", "pydantic", "mrclab.lab.command.cli"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--run-dir", "d", "links", "--json"], (Path("d"), ["links"], True)),
        (["--run-dir", "d", "heal", "gray"], (Path("d"), ["heal", "gray"], False)),  # of the release before
        (["fault", "link_down", "link=a/b", "--run-dir=d"], None),  # the command line's, as is all that is rare
        (["links", "--help"], None),
        (["links", "--run-dir"], None),
        (["run", "x.yaml"], None),
        ([], None),
    ],
)
def test_what_is_plainly_a_command_of_the_prompt_is_recognized(arguments, expected):
    assert shortcut.request(arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "x.yaml"], Path("x.yaml")),
        (["run", "--help"], None),  # typer's, as are options and mistakes
        (["run", "x.yaml", "--json"], None),
        (["run", ""], None),
        (["plan", "x.yaml"], None),
    ],
)
def test_a_run_without_options_is_recognized(arguments, expected):
    assert entry.scenario(arguments) == expected


def test_a_run_without_options_has_the_defaults_of_the_command():
    plain, command = (
        {one.name: one.default or None for one in inspect.signature(each).parameters.values()}
        for each in (running.run, scenarios.run)
    )
    del plain["run_dir"], command["context"]
    assert plain == command


def test_what_the_wire_lacks_is_refused_before_a_lab_comes_up():
    done = CliRunner().invoke(cli.app, ["up", "true-speed", "--world", "wire"])
    assert isinstance(done.exception, ScenarioError)
    assert "fabric.link: 2949504 packets/s are more than the 100000" in str(done.exception)
    with pytest.raises(ScenarioError, match=r"fabric.nic_latency: NICs of the wire are processes"):
        mrclab.up({"nic_latency": "1us"}, world="wire")


def test_a_name_that_is_nearly_a_command_gets_the_command():
    result = CliRunner().invoke(cli.app, ["flwos"])
    assert result.exit_code == 2
    assert "'flows'" in result.output


def test_a_command_whose_module_raises_a_key_error_is_not_called_unknown(tmp_path, monkeypatch):
    (tmp_path / "broken_command.py").write_text("{}['left out']\n")
    monkeypatch.syspath_prepend(tmp_path)
    commands = cli._Commands()
    commands._modules["run"] = ("Run", "broken_command")
    with pytest.raises(ImportError, match="broken_command cannot be imported: KeyError 'left out'"):
        commands.get("run")


def test_a_host_without_an_agent_is_unreachable(tmp_path):
    clients = attach.LabClients(tmp_path, Fabric(FabricSpec()))
    for reach in (lambda: clients.call("h1", "hello"), lambda: attach.Listener(clients, ["h1"])):
        with pytest.raises(Unreachable, match="its process is not running"):
            reach()
