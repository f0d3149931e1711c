"""Arbitration: controllers, their roles and election ids.

Every role has a primary of its own: the connected controller with the highest election id. As in PI, the next one in
line becomes primary as soon as the primary's stream ends, an election id that is not set counts as 0, and a Write
without election id is accepted while no controller is connected at all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from finsy.proto import p4r

from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError, code_number, invalid
from mrclab.softswitch.p4runtime.stream.notifications import StreamChannel

MAX_CONTROLLERS = 16  # as PI


@dataclass(eq=False)
class ArbitratedController:
    """A stream that has introduced itself."""

    client: StreamChannel
    role: str
    election_id: int


def election_number(message: p4r.Uint128) -> int:
    """Return an election id as one number."""
    return message.high << 64 | message.low


def not_primary() -> P4RuntimeError:
    """Return the error for a request of a controller that is not the primary of its role."""
    return P4RuntimeError(Code.PERMISSION_DENIED, "Not primary")


class Arbiter:
    """The controllers of one device. All methods may be called from any thread."""

    def __init__(self, device_id: int) -> None:
        self._device_id = device_id
        self._lock = threading.Lock()
        self._controllers: list[ArbitratedController] = []
        self._configs: dict[str, p4r.Role] = {}
        self.primaries: tuple[StreamChannel, ...] = ()
        """The streams of all roles' primaries; replaced, never changed, so that it can be read without the lock."""

    def introduce(self, client: StreamChannel, message: p4r.MasterArbitrationUpdate) -> ArbitratedController:
        """Register a stream with the role and election id in `message`, and notify the streams concerned."""
        self.check_device(message.device_id)
        controller = ArbitratedController(client, message.role.name, election_number(message.election_id))
        with self._lock:
            if len(self._controllers) >= MAX_CONTROLLERS:
                raise P4RuntimeError(Code.RESOURCE_EXHAUSTED, "Too many connections")
            self._check_unused(controller.role, controller.election_id, "Election id already exists")
            self._configs[controller.role] = message.role
            self._change(controller, lambda: self._controllers.append(controller))
        return controller

    def update(self, controller: ArbitratedController, message: p4r.MasterArbitrationUpdate) -> None:
        """Give a stream another election id; device and role must stay."""
        if message.device_id != self._device_id:
            raise P4RuntimeError(Code.FAILED_PRECONDITION, "Invalid device id")
        if message.role.name != controller.role:
            raise P4RuntimeError(Code.FAILED_PRECONDITION, "The role of a stream cannot be changed")
        election_id = election_number(message.election_id)
        with self._lock:
            if election_id == controller.election_id:
                self._notify(controller)
                return
            self._check_unused(controller.role, election_id, "New election id already exists")
            self._change(controller, lambda: setattr(controller, "election_id", election_id))

    def leave(self, controller: ArbitratedController) -> None:
        """Forget a stream that has ended; where it was primary, the next in line is notified."""
        with self._lock:
            was_primary = self._primary(controller.role) is controller
            self._controllers.remove(controller)
            self._refresh()
            if was_primary:
                self._notify_role(controller.role)

    def is_primary(self, controller: ArbitratedController) -> bool:
        """Return whether this stream may send packets and acknowledgements now."""
        return controller.client in self.primaries

    def check_write(self, device_id: int, role: str, election_id: p4r.Uint128 | None) -> None:
        """Refuse a write that does not come from the primary of its role."""
        self.check_device(device_id)
        with self._lock:
            if not self._controllers:
                if election_id is not None:
                    raise not_primary()
                return
            primary = self._primary(role)
            if primary is None or primary.election_id != election_number(election_id or p4r.Uint128()):
                raise not_primary()

    def check_device(self, device_id: int) -> None:
        """Refuse a request for another device."""
        if device_id != self._device_id:
            raise P4RuntimeError(Code.NOT_FOUND, f"No device {device_id} here: this switch is device {self._device_id}")

    # -- under the lock -----------------------------------------------------------------------------------------------

    def _primary(self, role: str) -> ArbitratedController | None:
        of_role = (c for c in self._controllers if c.role == role)
        return max(of_role, key=lambda c: c.election_id, default=None)

    def _check_unused(self, role: str, election_id: int, message: str) -> None:
        if any(c.role == role and c.election_id == election_id for c in self._controllers):
            raise invalid(message)

    def _change(self, controller: ArbitratedController, change: Callable[[], None]) -> None:
        before = self._primary(controller.role)
        change()
        self._refresh()
        after = self._primary(controller.role)
        if before is not after or after is controller:
            self._notify_role(controller.role)
        else:
            self._notify(controller)

    def _refresh(self) -> None:
        roles = dict.fromkeys(c.role for c in self._controllers)
        self.primaries = tuple(p.client for p in map(self._primary, roles) if p is not None)

    def _notify_role(self, role: str) -> None:
        for controller in self._controllers:
            if controller.role == role:
                self._notify(controller)

    def _notify(self, controller: ArbitratedController) -> None:
        primary = self._primary(controller.role)
        if primary is None:
            return
        response = p4r.StreamMessageResponse()
        update = response.arbitration
        update.device_id = self._device_id
        update.election_id.high, update.election_id.low = divmod(primary.election_id, 1 << 64)
        if controller.role:
            update.role.CopyFrom(self._configs[controller.role])
        is_primary = primary is controller
        update.status.code = code_number(Code.OK if is_primary else Code.ALREADY_EXISTS)
        update.status.message = "Is primary" if is_primary else "Is backup"
        controller.client.send(response)
