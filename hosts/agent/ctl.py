"""The agent's control interface: operations that follow `mrc_ctl` of the MRC headers, for a controller of this host.

Only agents of the MRC transport have them. EV values are hexadecimal text of 4 (STEV), 32 (SRV6) or 2 bytes (UDP);
profiles are numbers that this host gives out; times are seconds. docs/agent.md lists all operations.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from mrclab.hosts.agent.api import exact_fields
from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.mrc.endpoint_ops import ProbeResult
from mrclab.hosts.mrc.evs.evformat import EvField, EvFormat, Expansion
from mrclab.hosts.mrc.evs.evprofile import ApiState, Mode, ProfileState
from mrclab.hosts.nic.interface import Loop
from mrclab.rpc.errors import RpcError

Result = dict[str, Any]
EnumT = TypeVar("EnumT", bound=Enum)

_FIELDS = {"width": ..., "init_val": 0, "min": 0, "max": None, "mask": 0}  # in the order of EvField
_BATCHES_KEPT = 64  # finished batches of probes that were not polled are forgotten, oldest first


class CtlOperations:
    """Methods without underscore are operations. `address` is as in `VerbOperations`; `record` keeps an event."""

    def __init__(
        self,
        endpoint: MrcEndpoint,
        loop: Loop,
        address: Callable[[str], str],
        record: Callable[[dict[str, Any]], Any],
    ) -> None:
        self._loop = loop
        self._ctl = endpoint.ctl
        self._address = address
        self._record = record
        self._batches: dict[int, list[Result] | None] = {}  # None until it has finished
        self._next_batch = 1

    # --- EV profiles --------------------------------------------------------------------------------------------------

    def create_ev_profile(
        self,
        mode: str,
        format: str,  # noqa: A002 - the header's word
        ev_count: int,
        ev_min_active: int,
        events: list[str] | None = None,
        fields: list[dict[str, int]] | None = None,
    ) -> Result:
        """Make an EV profile in INIT; `fields` {width, init_val, min, max, mask} expand the EVs of a GENERATED one."""
        fmt = _member(EvFormat, "format", format)
        given = [exact_fields(f"fields[{at}]", field, _FIELDS) for at, field in enumerate(fields or ())]
        expansion = None if fields is None else Expansion(fmt, [EvField(*field.values()) for field in given])
        mask = [_member(ApiState, "events", word) for word in events or ()]
        number = self._ctl.create_ev_profile(
            _member(Mode, "mode", mode), fmt, ev_count, ev_min_active, mask, expansion=expansion
        )
        return {"profile": number}

    def query_ev_profile(self, profile: int) -> Result:
        """Return mode, format, counts, event mask, state and users of an EV profile."""
        found = self._ctl.ev_profile(profile)
        return {
            "profile": profile,
            "mode": found.mode.value,
            "format": found.format.name,
            "ev_count": found.ev_count,
            "ev_min_active": found.ev_min_active,
            "events": sorted(state.value for state in found.event_mask),
            "state": found.state.name,
            "users": found.users,
        }

    def modify_ev_profile(self, profile: int, state: str) -> None:
        """Take one step of INIT → OFFLINE → ONLINE → OFFLINE → INIT; EBUSY while QPs use it."""
        self._ctl.modify_ev_profile(profile, _member(ProfileState, "state", state))

    def destroy_ev_profile(self, profile: int) -> None:
        """Remove an EV profile; EBUSY while QPs use it."""
        self._ctl.destroy_ev_profile(profile)

    def replace_ev(self, profile: int, index: int, port: int, value: str, all_copies: bool = False) -> None:
        """REPLACE_EV: write an entry of an EXPLICIT profile, or with `all_copies` every entry equal to it."""
        self._ctl.replace_ev(profile, index, port, _value(value), all_copies)

    def modify_ev_state(self, profile: int, port: int, value: str, state: str) -> Result:
        """MODIFY_EV_STATE: set an EV to GOOD or DENIED; ENOENT if the profile has no such EV."""
        requested = _member(ApiState, "state", state)
        return {"changed": self._ctl.modify_ev_state(profile, port, _value(value), requested, self._loop.now)}

    def query_ev_array(self, profile: int) -> Result:
        """QUERY_EV_ARRAY: the entries as configured; `value` is null where one is unpopulated."""
        return {
            "entries": [
                {"port": e.port, "value": None if e.value is None else e.value.hex(), "state": e.state.value}
                for e in self._ctl.query_ev_array(profile)
            ]
        }

    def query_ev_state(self, qp: int) -> Result:
        """QUERY_EV_STATE: port, value and state of each EV that a QP uses."""
        rows = self._ctl.query_ev_state(qp)
        return {"evs": [{"port": port, "value": value.hex(), "state": state.value} for port, value, state in rows]}

    def poll_ev_events(self, profile: int) -> Result:
        """Return and remove the EV events of a profile; `dropped` counts those that were lost before one."""
        return {
            "events": [
                {"profile": e.profile, "port": e.port, "value": e.value.hex(), "state": e.state.value,
                 "dropped": e.dropped}
                for e in self._ctl.poll_ev_events(profile)
            ]
        }  # fmt: skip

    # --- congestion control profiles ----------------------------------------------------------------------------------

    def create_cc_profile(self, algorithm: str, parameters: dict[str, Any] | None = None) -> Result:
        """Make a profile of a congestion control, one of `cc_profiles` of `query_device`, with its settings."""
        return {"profile": self._ctl.create_cc_profile(algorithm, **(parameters or {}))}

    def query_cc_profile(self, profile: int) -> Result:
        """Return algorithm, parameters that were set, and how many QPs use the profile."""
        algorithm, parameters = self._ctl.cc_profile(profile)
        return {
            "profile": profile,
            "algorithm": algorithm,
            "parameters": parameters,
            "users": self._ctl.cc_profile_users(profile),
        }

    def destroy_cc_profile(self, profile: int) -> None:
        """Remove a congestion control profile; EBUSY while QPs use it."""
        self._ctl.destroy_cc_profile(profile)

    # --- EV probes ----------------------------------------------------------------------------------------------------

    def probe_evs(self, peer: str, evs: list[int], timeout: float, dscp: str = "NO_TRIM") -> Result:
        """Probe a batch of EVs (32-bit values) of a host; `poll_probes` and the event `ev.probes` give the results."""
        batch = self._next_batch
        self._next_batch += 1
        self._batches[batch] = None

        def done(results: list[ProbeResult]) -> None:
            rows = [{"ev": r.ev, "rtt": r.rtt, "port": r.port, "adj_svc_time": r.rtt is not None} for r in results]
            self._batches[batch] = rows
            self._record({"kind": "ev.probes", "batch": batch, "peer": peer, "results": rows})

        try:
            self._ctl.probe_evs(self._address(peer), evs, timeout, done, self._loop.now, dscp)
        except Exception:
            del self._batches[batch]
            raise
        finished = [number for number, rows in self._batches.items() if rows is not None]
        for number in finished[:-_BATCHES_KEPT]:
            del self._batches[number]
        return {"batch": batch}

    def poll_probes(self, batch: int) -> Result:
        """Return and remove the results of a batch, in order; EAGAIN while the last is not known."""
        if batch not in self._batches:
            raise RpcError("EINVAL", f"there is no batch {batch} of probes")
        rows = self._batches[batch]
        if rows is None:
            raise RpcError("EAGAIN", f"batch {batch} of probes is under way; wait for the event ev.probes")
        del self._batches[batch]
        return {"results": rows}

    # --- ports --------------------------------------------------------------------------------------------------------

    def set_port_admin(self, port: int, enabled: bool) -> None:
        """Disable a port administratively, or allow it again; peers are notified as if the link had failed."""
        self._ctl.set_port_admin(port, enabled, self._loop.now)

    def query_port(self, port: int) -> Result:
        """Return carrier and administrative state of a port; `up` is both."""
        return {"port": port, **self._ctl.query_port(port)}


def _member(kind: type[EnumT], field: str, name: str) -> EnumT:
    """Return a member of an enumeration by its name; RpcError for an unknown one."""
    if name not in kind.__members__:
        raise RpcError("EINVAL", f"{field} {name!r} is unknown; it is one of {', '.join(kind.__members__)}")
    return kind[name]


def _value(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise RpcError("EINVAL", f"value {text!r} is not hexadecimal text of whole bytes") from None
