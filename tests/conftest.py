"""Fixtures and rules of every test."""

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator

import history_net
import hypothesis
import light_runs
import pytest

from mrclab import compiled

# How long an example takes says nothing about what is tested: a busy machine stops it anywhere.
hypothesis.settings.register_profile(
    "any-machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any-machine")

# Tests replace methods and look inside, which compiled modules do not let; those of the compiled form ask for it.
FORM = os.environ.get("MRCLAB_COMPILED", "")
os.environ["MRCLAB_COMPILED"] = FORM or "0"

# As the command does it, and for processes that tests start: loading makes many objects, and all of them stay; to look
# for plug-ins of pydantic goes through all installed packages.
gc.set_threshold(100_000)
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

# Started in the background by a shell, pytest ignores SIGINT, and so would every process whose Ctrl-C is tested.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def nothing_outlives_the_tests() -> Iterator[None]:
    """Python would wait for such threads and processes before it ends, forever where they wait for something too."""
    yield
    threads = [thread for thread in threading.enumerate() if not thread.daemon and thread.is_alive()]
    threads.remove(threading.main_thread())
    for thread in threads:
        thread.join(10)  # one of grpc's that was told to end may still be about to
    assert not [thread for thread in threads if thread.is_alive()]
    assert not multiprocessing.active_children()


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """The handlers of this process, whatever a test did to them."""
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.getsignal(getattr(signal, name)) for name in names}
    yield
    for name, handler in before.items():
        if handler is not None:  # one that was not set from Python cannot be set again
            signal.signal(getattr(signal, name), handler)


@pytest.fixture
def form_of_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes that the test starts run the compiled form, where there is one and nobody asked for another."""
    monkeypatch.setenv("MRCLAB_COMPILED", FORM)


@pytest.fixture(autouse=True)
def records_have_classes() -> Iterator[None]:
    """Every kind of record that a simulation writes is one of `mrclab.events`."""
    yield
    assert history_net.taken() == []


@pytest.fixture(autouse=True)
def whole_runs_where_wanted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs leave out what `light_runs` says, except in tests marked `whole`."""
    if request.node.get_closest_marker("whole") is None:
        yield
        return
    light_runs.LEAVING.out = False
    try:
        yield
    finally:
        light_runs.LEAVING.out = True
        light_runs.keep()


def pytest_collection_finish() -> None:
    """Modules are loaded now: simulated worlds are watched where there are any."""
    history_net.spread()
    light_runs.spread()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests marked `root` where nobody is root, and those of the sources where the compiled form runs."""
    is_compiled = compiled.state().runs
    for item in items:
        if is_compiled and item.get_closest_marker("sources"):
            item.add_marker(pytest.mark.skip(reason="compiled classes do not let it"))
        if os.geteuid() != 0 and item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason="network namespaces need root"))
