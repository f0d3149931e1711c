"""Subset of p4runtime-shell's API for lessons, on a switch in this process, without gRPC.

A controller that runs on it also runs on p4runtime-shell. Functions outside the subset are refused by name.
"""

import contextlib
import io
import sys
import traceback
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

from mrclab.lab.errors import LabError
from mrclab.lab.p4 import text
from mrclab.lab.p4.inside import MrcSwitch

FILE = "controller.py"


class FwdPipeConfig(NamedTuple):
    """Paths of the P4Info and of the compiled program."""

    p4info: str
    bin: str


class _Values(dict[str, str]):
    """Match fields or parameters: `entry.match["name"] = "value"`."""

    def set(self, **values: str) -> None:
        """Set several fields."""
        self.update(values)


class ShellEntry:
    """Table entry: `TableEntry("MrcIngress.usid_fib")(action="MrcIngress.forward")`."""

    def __init__(self, device: "ShellDevice", table: str) -> None:
        self._device, self._table, self._action_name = device, table, ""
        known = device.switch.runtime.table(_known(device.switch, table)).table
        self._fields = [key.name for key in known.key]
        self.match, self.action = _Values(), _Values()

    def __call__(self, action: str = "") -> "ShellEntry":
        """Set the action."""
        self._action_name = action or self._action_name
        return self

    def insert(self) -> None:
        """Insert the entry; LabError if there is one with this key."""
        self._write("insert")

    def modify(self) -> None:
        """Modify the entry with this key."""
        self._write("modify")

    def delete(self) -> None:
        """Delete the entry with this key."""
        self._write("delete")

    def read(self, function: Callable[[str], object] = print) -> None:
        """Call a function with every entry of the table."""
        known = next(each for each in text.tables(self._device.switch) if each["table"] == text.short(self._table))
        for entry in known["entries"]:
            function(f"{text.short(self._table)}: {entry['key']} → {entry['action']}")

    def _write(self, kind: str) -> None:
        if missing := [name for name in self._fields if name not in self.match]:
            raise LabError(f'{self._table}: set entry.match["{missing[0]}"] first')
        if unknown := [name for name in self.match if name not in self._fields]:
            raise LabError(f"{self._table}: the key has no field {unknown[0]}; it has {', '.join(self._fields)}")
        key = ", ".join(str(self.match[name]) for name in self._fields)
        params = {name: str(value) for name, value in self.action.items()}
        text.write(self._device.switch, kind, self._table, key, self._action_name, params)


class ShellDevice:
    """A switch that a controller connects to; without a program until `setup` brings one."""

    def __init__(self) -> None:
        self._made: MrcSwitch | None = None
        self.connected = False

    @property
    def switch(self) -> MrcSwitch:
        """The switch with its program. LabError: it has none yet."""
        if not self.connected:
            raise LabError("no connection: call sh.setup first")
        if self._made is None:
            raise LabError("the switch has no program yet: pass `config` to sh.setup")
        return self._made

    @property
    def programmed(self) -> MrcSwitch | None:
        """The switch, once it has a program."""
        return self._made

    def setup(self, config: FwdPipeConfig | None = None, **_: Any) -> None:
        """Connect, become primary, and load the program."""
        self.connected = True
        if config is not None:
            self._made = MrcSwitch()

    def teardown(self) -> None:
        """Disconnect."""
        self.connected = False


def _known(switch: MrcSwitch, table: str) -> str:
    try:
        return switch.full_name(table)
    except KeyError:
        names = ", ".join(switch.runtime.program().tables)
        raise LabError(f"the program has no table {table}; it has {names}") from None


def _modules(device: ShellDevice) -> dict[str, ModuleType]:
    package, shell = ModuleType("p4runtime_sh"), ModuleType("p4runtime_sh.shell")
    shell.setup, shell.teardown, shell.FwdPipeConfig = device.setup, device.teardown, FwdPipeConfig  # type: ignore[attr-defined]
    shell.TableEntry = lambda table: ShellEntry(device, table)  # type: ignore[attr-defined]
    package.shell = shell  # type: ignore[attr-defined]
    return {"p4runtime_sh": package, "p4runtime_sh.shell": shell}


@contextlib.contextmanager
def _installed(device: ShellDevice) -> Iterator[None]:
    names, argv = _modules(device), sys.argv
    former = {name: sys.modules.get(name) for name in names}
    sys.modules.update(names)
    sys.argv = [FILE, "p4rt.sock", "mrc.p4info.txtpb", "mrc.json"]
    try:
        yield
    finally:
        sys.argv = argv
        for name, module in former.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def run(source: str, device: ShellDevice) -> tuple[str, str]:
    """Run a controller's source; return its output, and its error (empty: it completed)."""
    printed = io.StringIO()
    with _installed(device), contextlib.redirect_stdout(printed):
        try:
            exec(compile(source, FILE, "exec"), {"__name__": "__main__"})
        except SystemExit as end:
            return printed.getvalue(), "" if not end.code else f"exit status {end.code}"
        except (Exception, KeyboardInterrupt) as error:
            line = next((each.lineno for each in reversed(traceback.extract_tb(error.__traceback__))
                         if each.filename == FILE), getattr(error, "lineno", None))  # fmt: skip
            kind = "" if isinstance(error, LabError) else f"{type(error).__name__}: "
            return printed.getvalue(), f"{f'line {line}: ' if line else ''}{kind}{error}"
    return printed.getvalue(), ""
