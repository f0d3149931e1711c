"""pytest plugin: scenario files as tests (`pytest --mrclab scenarios/`), and the fixture `lab` for tests in Python.

Every scenario, or each of its variants, is one test; it fails with the expectations that failed, and is skipped
if the machine could not keep up, since such a run says nothing about the network.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

_OPTIONS = re.compile(r"--(world|target|run-dir|force|results)\b")
_SUFFIXES = {".yaml", ".yml"}


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Options of the command line."""
    _skip_assertion_rewriting(pluginmanager)
    group = parser.getgroup("mrclab", "MRC Lab: scenarios as tests")
    group.addoption("--mrclab", action="store_true", help="run the scenario files (*.yaml) below the paths given")
    group.addoption("--mrclab-world", choices=["wire", "sim"], help="where scenarios happen; default: where they say")
    group.addoption("--mrclab-target", choices=["soft", "bmv2"], help="the P4 switch of the wire")
    group.addoption("--mrclab-run-dir", metavar="DIR", help="where the running lab keeps sockets and files")
    group.addoption("--mrclab-force", action="store_true", help="start even if too large for this machine")
    group.addoption("--mrclab-results", metavar="DIR", default="results", help="where result directories go")


def pytest_configure(config: pytest.Config) -> None:
    """Markers of this plugin."""
    config.addinivalue_line("markers", "scenario: a scenario file run by MRC Lab")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "ScenarioFile | None":
    """Collect scenario files, with `--mrclab`."""
    if file_path.suffix in _SUFFIXES and parent.config.getoption("--mrclab"):
        return ScenarioFile.from_parent(parent, path=file_path)
    return None


class ScenarioFile(pytest.File):
    """One file; its runs are tests. Mistakes in it are an error of the collection, one line each."""

    def collect(self) -> Iterable[pytest.Item]:
        """A test for the scenario, or for each variant."""
        from mrclab.lab.errors import ScenarioError  # noqa: PLC0415
        from mrclab.lab.scenario import scenario  # noqa: PLC0415 - slow to import

        try:
            loaded = scenario.load(self.path)
        except ScenarioError as error:
            raise self.CollectError(str(error)) from None
        loaded = scenario.in_world(loaded, self.config.getoption("--mrclab-world"))
        return [ScenarioItem.from_parent(self, name=one.scenario.name, loaded=one) for one in loaded.runs]


class ScenarioFailed(Exception):  # noqa: N818 - the report matters
    """Failed expectations."""


class ScenarioItem(pytest.Item):
    """One run of a scenario."""

    def __init__(self, *, loaded: Any, **options: Any) -> None:
        super().__init__(**options)
        self._loaded = loaded
        self.add_marker("scenario")

    def runtest(self) -> None:
        """Run it; ScenarioFailed if an expectation failed."""
        from mrclab.lab.errors import Interrupted, NoResult  # noqa: PLC0415
        from mrclab.lab.report import results  # noqa: PLC0415
        from mrclab.lab.run import runner, worlds  # noqa: PLC0415

        _need_root(self._loaded.scenario.world)
        worlds.check(self._loaded)
        worlds.check_size(self._loaded, force=self.config.getoption("--mrclab-force"))
        parent = Path(self.config.getoption("--mrclab-results"))
        target = self.config.getoption("--mrclab-target")
        try:
            outcome = runner.run_scenario(self._loaded, parent, target=target, run_dir=_run_dir(self.config))
        except Interrupted as error:  # it ends the session, as Ctrl-C does, and not this test alone
            pytest.exit(str(error), returncode=error.status)
        except NoResult as error:
            pytest.skip(str(error))
        self.user_properties.append(("report", str(results.page_of(outcome.directory))))
        if outcome.state == "invalid":
            pytest.skip(f"the machine could not keep up: {'; '.join(outcome.measures.invalid)}")
        if not outcome.ok:
            missed = [f"expected {v.expected}\nobserved {v.observed}  {v.when}" for v in outcome.verdicts if not v.ok]
            raise ScenarioFailed("\n".join([*missed, f"report: {results.page_of(outcome.directory)}"]))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Expectations rather than a traceback."""
        from mrclab.lab.errors import LabError  # noqa: PLC0415
        from mrclab.topo.errors import TopoError  # noqa: PLC0415

        if isinstance(excinfo.value, (ScenarioFailed, LabError, TopoError)):
            return _sentence(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the place and the name of the item."""
        return self.path, 0, f"scenario {self.name}"


@pytest.fixture(scope="module")
def lab_options() -> dict[str, Any]:
    """Return the options of a module's lab; override it: any of `world`, `fabric`, `transport`, `mapper`, `seed` of a
    scenario; `{"world": "sim"}` is virtual time.
    """
    return {}


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest, lab_options: dict[str, Any]) -> Iterator[Any]:
    """A lab that is up for all tests of a module, a `mrclab.Lab`; on the wire they are skipped without
    root.
    """
    from mrclab.lab.errors import LabError  # noqa: PLC0415
    from mrclab.lab.run import size, worlds  # noqa: PLC0415
    from mrclab.lab.scenario import scenario  # noqa: PLC0415
    from mrclab.lab.session.lab import lab_up  # noqa: PLC0415
    from mrclab.topo.errors import TopoError  # noqa: PLC0415

    try:
        setting, fabric = scenario.setting(lab_options)
        worlds.check_setting(setting, fabric)
        _need_root(setting.world)
        if setting.world == "wire":
            size.check(fabric.spec, force=request.config.getoption("--mrclab-force"))
        target, run_dir = request.config.getoption("--mrclab-target"), _run_dir(request.config)
        with lab_up(setting, fabric, lambda *_: None, target, run_dir) as made:
            yield made
    except (LabError, TopoError) as error:
        pytest.fail(_sentence(error), pytrace=False)


def _sentence(error: BaseException) -> str:
    """Return an error of the lab with the options that it names as they are called here."""
    return _OPTIONS.sub(r"--mrclab-\1", str(error))


def _skip_assertion_rewriting(pluginmanager: pytest.PytestPluginManager) -> None:
    """Load modules of the lab from their bytecode: pytest would compile a plugin's whole package again to rewrite
    assertions, of which it has none.
    """
    hook = getattr(pluginmanager, "rewrite_hook", None)
    getattr(hook, "_must_rewrite", set()).discard("mrclab")


def _run_dir(config: pytest.Config) -> Path:
    from mrclab.topo.linux.paths import RUN_DIR  # noqa: PLC0415

    given = config.getoption("--mrclab-run-dir")
    return Path(given).absolute() if given else RUN_DIR


def _need_root(world: str) -> None:
    if world == "wire" and os.geteuid() != 0:
        pytest.skip("the lab needs root for network namespaces")
