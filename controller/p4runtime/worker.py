"""The life of one switch as the controller sees it: connect, arbitrate, provision, watch; and again when it ends."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mrclab.controller.driver import SwitchState, SwitchView
from mrclab.controller.errors import ControllerError, SwitchError
from mrclab.controller.history import ControllerHistory
from mrclab.controller.p4runtime.session import Role, SwitchSession
from mrclab.controller.provisioning.intent import IntendedEntry
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.controller.provisioning.provision import Provisioned, provision
from mrclab.controller.provisioning.reconcile import Change, UpdateKind
from mrclab.events.switches import (
    ProgramReplaced,
    SwitchAnswers,
    SwitchDemoted,
    SwitchDown,
    SwitchFailed,
    SwitchReady,
    SwitchSilent,
    SwitchTakeover,
    SwitchUp,
)
from mrclab.rpc.peers import is_stopped, peer_pid, stopped_text
from mrclab.topo.model import Switch

log = logging.getLogger(__name__)

CONNECT_INTERVAL = 0.05  # seconds between attempts to connect; a switch must be back within 1 s
RETRY_FIRST = 0.1  # seconds before another try after a switch answered with an error
RETRY_MAX = 2.0


@dataclass(eq=False)
class Worker:
    """Keeps one switch provisioned. `run` never returns; see `state`, `error` and `session`."""

    switch: Switch
    socket_path: Path
    program: PipelineConfig
    intended: tuple[IntendedEntry, ...]
    election_id: int
    history: ControllerHistory
    on_packet: Callable[[str, int, bytes], None]
    on_change: Callable[["Worker"], None]
    state: SwitchState = SwitchState.CONNECTING
    error: str = ""
    session: SwitchSession | None = None
    provisioned: Provisioned | None = None
    silent: bool = False  # connected, but requests go unanswered
    pid: int | None = None  # of the process that serves the socket
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while entries are compared and written

    @property
    def name(self) -> str:
        """Name of the switch."""
        return self.switch.name

    async def run(self) -> None:
        """Connect, provision and watch, until cancelled."""
        pause = RETRY_FIRST
        while True:
            await self._until_served()
            try:
                await self._one_session()
            except ControllerError as error:
                self._failed(error)
            # Back off only from a switch that refuses; one that is down may be back at any moment.
            pause = min(2 * pause, RETRY_MAX) if self.state is SwitchState.FAILED else RETRY_FIRST
            await asyncio.sleep(pause)

    def require_session(self) -> SwitchSession:
        """The session of a switch that is ready; SwitchError otherwise."""
        if self.session is None or self.state is not SwitchState.READY:
            raise SwitchError(self.name, f"is not ready but {self.state.value}; wait for it", "UNAVAILABLE")
        return self.session

    @property
    def unresponsive(self) -> str:
        """Reason why a connected switch does not respond, as a predicate; empty if it does, as far as is known."""
        if self.pid is not None and is_stopped(self.pid):
            return stopped_text(self.pid)
        return "does not answer" if self.silent else ""

    @property
    def view(self) -> SwitchView:
        """State of the switch, and why it does not respond."""
        return SwitchView(self.state, self.unresponsive if self.state is SwitchState.READY else "", self.error)

    async def reprovision(self) -> Provisioned:
        """Write the differences from the intended entries on the present session."""
        return await self._provision()

    async def _provision(self, new: SwitchSession | None = None) -> Provisioned:
        """Write the intended entries on a new session, or the present one; then what was intended meanwhile.

        Return the outcome of the first pass.
        """
        async with self.lock:
            session, intended = new or self.require_session(), self.intended
            self.provisioned = done = await provision(session, self.program, intended)
            while intended is not self.intended:
                before, intended = intended, self.intended
                await provision(session, self.program, intended)
                kept = set(intended)  # entries in shared tables are deleted by name alone
                await session.write([Change(UpdateKind.DELETE, entry) for entry in before if entry not in kept])
        return done

    async def write(self, changes: Sequence[Change]) -> None:
        """Write single entries; the caller has updated `intended` before."""
        async with self.lock:
            await self.require_session().write(changes)

    def failed_to_answer(self, error: SwitchError) -> None:
        """Note that a request failed; it is logged once."""
        if error.code == "DEADLINE_EXCEEDED" and not self.silent:
            self.silent = True
            self.history.record(SwitchSilent(switch=self.name, reason=str(error)))
        elif error.code == "DATA_LOSS" and self.error != str(error):
            self.error = str(error)
            self.history.record(SwitchFailed(switch=self.name, error=self.error))
        else:
            log.debug("%s", error)

    def answered(self) -> None:
        """Note that the switch responds."""
        self.error = ""
        if self.silent:
            self.silent = False
            self.history.record(SwitchAnswers(switch=self.name))

    async def _until_served(self) -> None:
        """Wait until something accepts connections on the socket."""
        while not self._accepts():
            self._become(SwitchState.CONNECTING)
            await asyncio.sleep(CONNECT_INTERVAL)

    def _accepts(self) -> bool:
        """Return True if a process listens on the socket, and note which."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
            status = probe.connect_ex(str(self.socket_path))
            if status == 0:
                self.pid = peer_pid(probe)
        return status in {0, errno.EAGAIN}

    async def _one_session(self) -> None:
        session = SwitchSession(
            self.name,
            f"unix:{self.socket_path}",
            self.switch.device_id,
            self.program,
            self.election_id,
            lambda port, frame: self.on_packet(self.name, port, frame),
        )
        try:
            await session.open()
            self.history.record(SwitchUp(switch=self.name, role=str(session.role and session.role.value)))
            await self._serve(session)
        finally:
            was_ready = self.state in {SwitchState.READY, SwitchState.BACKUP}
            self.session = None
            if was_ready:
                self._become(SwitchState.CONNECTING)
            await session.close()

    async def _serve(self, session: SwitchSession) -> None:
        """Provision as soon and as often as this controller becomes primary, until the session ends."""
        while session.is_open:
            if session.role is not Role.PRIMARY:
                self._become(SwitchState.BACKUP)
                await session.until_role(Role.PRIMARY)
                self.history.record(SwitchTakeover(switch=self.name, election_id=session.election_id))
            self._become(SwitchState.PROVISIONING)
            done = await self._provision(session)
            self.session = session
            self.answered()
            self._become(SwitchState.READY)
            if done.replaced:
                self.history.record(ProgramReplaced(switch=self.name))
            self.history.record(
                SwitchReady(
                    switch=self.name,
                    adopted=done.adopted,
                    inserted=done.inserted,
                    modified=done.modified,
                    deleted=done.deleted,
                    seconds=round(done.seconds, 4),
                )
            )
            await self._watch(session)

    async def _watch(self, session: SwitchSession) -> None:
        """Wait until another controller takes over; SwitchError when the session ends."""
        try:
            await session.until_role(Role.BACKUP)
        except SwitchError as reason:
            self.history.record(SwitchDown(switch=self.name, reason=str(reason)))
            raise
        self.session = None
        self.history.record(SwitchDemoted(switch=self.name, primary=session.highest_election_id))

    def _failed(self, error: ControllerError) -> None:
        """Note why a session failed; it is logged once, however often it is tried again."""
        is_new, self.error = str(error) != self.error, str(error)
        gone = isinstance(error, SwitchError) and error.code == "UNAVAILABLE"
        log.log(logging.DEBUG if not is_new else logging.INFO if gone else logging.ERROR, "%s", error)
        if not gone:
            if is_new:
                self.history.record(SwitchFailed(switch=self.name, error=self.error))
            self._become(SwitchState.FAILED)

    def _become(self, state: SwitchState) -> None:
        if state is not self.state:
            self.state = state
            self.on_change(self)
