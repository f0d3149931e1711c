"""Queue state: a packet's fields between the function that enqueues it and the one that dequeues it.

Each place that enqueues a packet is a `Site` with its facts. Sites with the same facts share a `Layout`, which has its
own egress function. A queue state is the tuple (egress function, d, length, instance type, rid, truncation, *locals
that this egress function needs).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mrclab.softswitch.compiler.analysis.state import (
    CLEAN,
    DIRTY,
    FLAGS,
    UNREAD,
    HeaderState,
    Known,
    Local,
    Place,
    SymbolicState,
    initial,
    is_dirty,
    join,
)
from mrclab.softswitch.compiler.block import Block
from mrclab.softswitch.compiler.flow import BranchScope

MAX_LAYOUTS = 48
"""Layouts beyond this share one without facts."""

FLAG_NAMES = (
    "parser_error", "checksum_error", "truncate", "clone", "clone_list", "digest", "resubmit", "recirculate", "exit",
    "length",
)  # fmt: skip


@dataclass
class Site:
    """A place that enqueues a packet: `call` has {} in the place of the queue state."""

    block: Block
    state: SymbolicState
    call: str
    data: str
    instance: int
    truncate: str


@dataclass
class Layout:
    """Layout of the state that egress function `number` expects."""

    number: int
    state: SymbolicState


class Handover:
    """Collects sites and assigns layouts to them; `egress`: a scope at the beginning of egress."""

    def __init__(self, egress: BranchScope) -> None:
        self.program, self.names, self._conformer = egress.program, egress.names, egress.conformer
        self._live, self._is_read = egress.live, egress.is_read
        self._sites: list[Site] = []
        self.layouts: list[Layout] = []
        self._anything: Layout | None = None

    def add(self, at: BranchScope, call: str, instance: int, data: str = "d", truncate: str | None = None) -> None:
        """Note that `at` enqueues the packet here."""
        state = at.state.copy()
        if truncate is None:
            truncate = at.flag("truncate").code
        else:
            state.edit(FLAGS).fields["truncate"] = DIRTY  # a clone session may cut
        self._sites.append(Site(at.block.add(Block()), state, call, data, instance, truncate))

    def settle(self) -> list[Layout]:
        """Write the code of all sites noted since the last call; return the new layouts."""
        groups: dict[object, list[Site]] = {}
        for site in self._sites:
            groups.setdefault(self._signature(self._trim(site.state)), []).append(site)
        self._sites = []
        known = len(self.layouts)
        for sites in groups.values():
            layout = self._layout(self._trim(join(site.state for site in sites)))
            for site in sites:
                self._write(site, layout)
        return self.layouts[known:]

    def _layout(self, state: SymbolicState) -> Layout:
        for layout in self.layouts:
            if layout.state == state:
                return layout
        if len(self.layouts) >= MAX_LAYOUTS:
            if self._anything is None:
                self._anything = self._add(self._nothing_known())
            return self._anything
        return self._add(state)

    def _add(self, state: SymbolicState) -> Layout:
        self.layouts.append(Layout(len(self.layouts), state))
        return self.layouts[-1]

    def _write(self, site: Site, layout: Layout) -> None:
        target = layout.state.copy()
        flags, have = target.edit(FLAGS), site.state.headers[FLAGS]
        for flag in FLAG_NAMES:
            if flag != "length":
                flags.fields[flag] = have.place(flag)
        self._conformer.conform(site.block, site.state, target)
        items = [
            f"egress_{layout.number}", site.data, "length", str(site.instance), "0", site.truncate,
            *self.spilled(layout.state),
        ]  # fmt: skip
        site.block.line(site.call.format(f"({', '.join(items)})"))

    @staticmethod
    def _signature(state: SymbolicState) -> object:
        headers = []
        for name, info in state.headers.items():
            dirty = frozenset(field for field, place in info.fields.items() if is_dirty(place))
            headers.append((name, info.valid, info.offset, dirty if info.valid is not False else None))
        return tuple(headers), state.position, tuple(state.next.items())

    # -- states -------------------------------------------------------------------------------------------------------

    def _trim(self, end: SymbolicState) -> SymbolicState:
        """Return a state reduced to the fields that egress reads."""
        if end.dead:
            return initial(self.program, FLAG_NAMES)
        state = end.copy()
        for name in list(state.headers):
            info = state.edit(name)
            if name == FLAGS:
                info.fields = {flag: self._trim_flag(flag, info) for flag in FLAG_NAMES}
                continue
            metadata = self.program.headers[name].metadata
            places = {f: self._trim_place(name, f, place, metadata) for f, place in info.fields.items()}
            if info.valid is False:
                places = {f: place for f, place in places.items() if self._is_read(name, f)}
            info.fields = {f: place for f, place in places.items() if place != UNREAD}
            if info.valid is False and not any(
                self._is_read(name, f.name) for f in self.program.headers[name].type.fields
            ):
                state.replace(name, HeaderState(valid=False))
        return state

    def _trim_place(self, header: str, name: str, place: Place, metadata: bool) -> Place:
        if not self._live(header, name):
            return Known(0) if metadata else UNREAD
        if place == CLEAN and not self._is_read(header, name) and not metadata:
            return UNREAD
        return Known(place.value) if metadata and isinstance(place, Known) else place

    @staticmethod
    def _trim_flag(flag: str, info: HeaderState) -> Known | Local:
        if flag in {"truncate", "length"}:
            place = info.place(flag)
            return place if isinstance(place, Known) else DIRTY
        return Known(0)

    def _nothing_known(self) -> SymbolicState:
        """Return the state that every other state can be converted to."""
        state = initial(self.program, FLAG_NAMES)
        for name, info in state.headers.items():
            if name == FLAGS:
                info.fields["truncate"] = info.fields["length"] = DIRTY
                continue
            header = self.program.headers[name]
            live = [field for field in header.type.fields if self._live(name, field.name)]
            if header.metadata:
                info.fields.update((field.name, DIRTY) for field in live)
                continue
            varbit = header.type.varbit is not None
            fields: dict[str, Place] = {field.name: DIRTY for field in live}
            state.headers[name] = HeaderState(None, None, None if varbit else 0, fields)
        state.next = dict.fromkeys(state.next)
        state.position = None
        return state

    def spilled(self, state: SymbolicState) -> list[str]:
        """Locals of a layout, in order."""
        names: list[str] = []
        for header, info in state.headers.items():
            if info.valid is None:
                names.append(self.names.valid(header))
            if info.offset is None:
                names.append(self.names.offset(header))
            if info.length is None:
                names.append(self.names.length(header))
            names.extend(self._spilled_fields(header, info))
        names.extend(self.names.next(stack) for stack, index in state.next.items() if index is None)
        if state.position is None:
            names.append("pos")
        return names

    def _spilled_fields(self, header: str, info: HeaderState) -> Iterable[str]:
        for name, place in sorted(info.fields.items()):
            if isinstance(place, Local) and (header, name) != (FLAGS, "truncate"):
                yield self.names.field(header, name)
