"""One P4Runtime device: the RPCs without gRPC.

Writes, reads and pipeline changes exclude each other. A Write is checked in the caller's thread; changes to the
data plane run there, a limited number of updates at a time, so that packets are served in between.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby

from finsy.proto import p4r

from mrclab.softswitch.objects.runtime_api import DigestList, TableEntry
from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError, WriteFailedError, invalid, on_target
from mrclab.softswitch.p4runtime.pipeline import ForwardingPipeline, check_p4info, load_pipeline, parse_replay
from mrclab.softswitch.p4runtime.state import Apply
from mrclab.softswitch.p4runtime.stream import notifications
from mrclab.softswitch.p4runtime.stream.arbitration import Arbiter
from mrclab.softswitch.switch import SoftSwitch

log = logging.getLogger(__name__)

UPDATES_PER_RUN = 64  # updates applied between two packets
SINGLES_PER_RUN = 64  # cells or entries read between two packets, where a request names them one by one
ENTITIES_PER_RESPONSE = 1000
BYTES_PER_RESPONSE = 3 << 20  # below gRPC's default limit of 4 MB

SetRequest = p4r.SetForwardingPipelineConfigRequest
GetRequest = p4r.GetForwardingPipelineConfigRequest


class Device:
    """The control plane of `switch`."""

    def __init__(self, switch: SoftSwitch, device_id: int) -> None:
        self.arbiter = Arbiter(device_id)
        self._switch = switch
        self._lock = threading.Lock()
        self._pipeline: ForwardingPipeline | None = None
        self._saved: ForwardingPipeline | None = None
        switch.packet_in_callback = self._on_packet_in
        switch.digest_callback = self._on_digest
        switch.idle_callback = self._on_idle

    def _running(self) -> ForwardingPipeline:
        return _required(self._pipeline)

    def _written(self) -> ForwardingPipeline:
        """Return the pipeline to read and write: the saved one, which waits for its COMMIT, else the running one."""
        return _required(self._saved or self._pipeline)

    def _check_primary(self, request: p4r.WriteRequest | SetRequest) -> None:
        """Refuse a write unless the primary sent it. Under the lock: another may have become primary meanwhile."""
        election_id = request.election_id if request.HasField("election_id") else None
        self.arbiter.check_write(request.device_id, request.role, election_id)

    # -- pipeline -----------------------------------------------------------------------------------------------------

    def set_pipeline(self, request: SetRequest) -> p4r.SetForwardingPipelineConfigResponse:
        """Apply `request.action`; on any error the running pipeline goes on unchanged."""
        action, config = request.action, request.config
        with self._lock:
            self._check_primary(request)
            if action == SetRequest.VERIFY:
                check_p4info(config)
                if config.p4_device_config:
                    load_pipeline(config, self._switch)
            elif action == SetRequest.VERIFY_AND_SAVE:
                self._save(load_pipeline(config, self._switch))
            elif action == SetRequest.VERIFY_AND_COMMIT:
                self._commit(load_pipeline(config, self._switch), [])
            elif action == SetRequest.COMMIT:
                if self._saved is None:
                    raise P4RuntimeError(Code.UNKNOWN, "Error in second phase of device update: no config is saved")
                self._commit(self._saved, [])
            elif action == SetRequest.RECONCILE_AND_COMMIT:
                new = load_pipeline(config, self._switch)
                self._save(None)  # what forwards is kept, not what was written to a saved pipeline
                self._commit(new, parse_replay(self._pipeline, new) if self._pipeline else [])
            else:
                raise invalid("Invalid SetForwardingPipeline action")
        return p4r.SetForwardingPipelineConfigResponse()

    def _save(self, pipeline: ForwardingPipeline | None) -> None:
        self._switch.run(lambda: self._switch.save(None if pipeline is None else pipeline.compiled))
        self._saved = pipeline

    def _commit(self, pipeline: ForwardingPipeline, replay: list[Apply]) -> None:
        def swap() -> list[P4RuntimeError | None]:
            self._switch.commit(pipeline.compiled)
            self._pipeline = pipeline
            return [_try(apply) for apply in replay]

        with on_target("Error in second phase of device update"):
            results = self._switch.run(swap)
        self._saved = None
        failed = next((result for result in results if result is not None), None)
        if failed is not None:
            raise P4RuntimeError(Code.UNKNOWN, f"Error when reconciling config: {failed.message}")

    def get_pipeline(self, request: GetRequest) -> p4r.GetForwardingPipelineConfigResponse:
        """Return the configuration, the saved one if there is one, or the requested parts."""
        self.arbiter.check_device(request.device_id)
        pipeline, response_type = self._written(), request.response_type
        everything = response_type == GetRequest.ALL
        with_p4info = everything or response_type == GetRequest.P4INFO_AND_COOKIE
        with_config = everything or response_type == GetRequest.DEVICE_CONFIG_AND_COOKIE
        if not with_p4info and not with_config and response_type != GetRequest.COOKIE_ONLY:
            raise invalid("Invalid response_type in GetForwardingPipelineConfigRequest")
        config = pipeline.config(p4info=with_p4info, device_config=with_config)
        return p4r.GetForwardingPipelineConfigResponse(config=config)

    # -- writing and reading ------------------------------------------------------------------------------------------

    def write(self, request: p4r.WriteRequest) -> p4r.WriteResponse:
        """Apply all updates in order, each on its own; raises WriteFailedError if one or more fail."""
        with self._lock:
            self._check_primary(request)
            pipeline = self._written()
            if request.atomicity != p4r.WriteRequest.CONTINUE_ON_ERROR:
                raise P4RuntimeError(Code.UNIMPLEMENTED, "Support for atomic write modes has not been implemented yet")
            errors: list[P4RuntimeError | None] = []
            for start in range(0, len(request.updates), UPDATES_PER_RUN):
                errors += self._write_some(pipeline, request.updates[start : start + UPDATES_PER_RUN])
        if any(errors):
            raise WriteFailedError(errors)
        return p4r.WriteResponse()

    def _write_some(self, pipeline: ForwardingPipeline, updates: Iterable[p4r.Update]) -> list[P4RuntimeError | None]:
        parsed = [_parse(pipeline, update) for update in updates]
        if all(isinstance(item, P4RuntimeError) for item in parsed):
            return [item for item in parsed if isinstance(item, P4RuntimeError)]
        return self._switch.run(lambda: [item if isinstance(item, P4RuntimeError) else _try(item) for item in parsed])

    def read(self, request: p4r.ReadRequest) -> Iterator[p4r.ReadResponse | P4RuntimeError]:
        """Yield the requested entities, at least one response; as in PI, an error follows earlier entities."""
        self.arbiter.check_device(request.device_id)
        entities: list[p4r.Entity] = []
        failure: P4RuntimeError | None = None
        with self._lock:
            pipeline = self._written()
            try:
                with on_target("Error when reading from target"):
                    for is_single, group in groupby(request.entities, _is_single):
                        if is_single:
                            self._read_singles(pipeline, list(group), entities)
                        else:
                            for requested in group:
                                entities.extend(pipeline.handler(requested).read(requested))
            except P4RuntimeError as error:
                failure = error
        for start in range(0, max(len(entities), 1), ENTITIES_PER_RESPONSE):
            yield from _responses(entities[start : start + ENTITIES_PER_RESPONSE])
        if failure is not None:
            yield failure

    def _read_singles(self, pipeline: ForwardingPipeline, requested: list[p4r.Entity], found: list[p4r.Entity]) -> None:
        """Append the entities of single objects to `found`, many in one turn of the data plane."""

        def read(some: list[p4r.Entity]) -> None:
            for entity in some:
                found.extend(pipeline.handler(entity).read(entity))

        for start in range(0, len(requested), SINGLES_PER_RUN):
            some = requested[start : start + SINGLES_PER_RUN]
            self._switch.run(partial(read, some))

    # -- stream -------------------------------------------------------------------------------------------------------

    def packet_out(self, packet: p4r.PacketOut) -> None:
        """Send a packet into the pipeline as if it had come in on the CPU port."""
        data = self._running().packet_out.pack(packet)
        with on_target("Error when target sending packet-out"):
            self._switch.run(lambda: self._switch.packet_out(data))

    def digest_ack(self, ack: p4r.DigestListAck) -> None:
        """Pass an acknowledgement on."""
        digest = self._written().state.index.digests.get(ack.digest_id)
        if digest is None:
            raise invalid(f"{ack.digest_id} is not a valid digest id")
        with on_target("Error when acknowledging digest"):
            self._switch.run(lambda: self._switch.program().digests.ack(digest.name, ack.list_id))

    # -- from the data plane, in its thread ---------------------------------------------------------------------------

    def _offer(self, make: notifications.MessageMaker) -> None:
        for client in self.arbiter.primaries:
            client.offer(make)

    def _on_packet_in(self, data: bytes) -> None:
        if self._pipeline is not None:
            self._offer(partial(notifications.packet_in, self._pipeline.packet_in, data))

    def _on_digest(self, found: DigestList) -> None:
        state = self._pipeline.state if self._pipeline is not None else None
        digest = state.index.digests_by_name.get(found.name) if state else None
        if state is not None and digest is not None and digest.id in state.digests:
            self._offer(partial(notifications.digest_list, digest, found))

    def _on_idle(self, name: str, entries: list[TableEntry]) -> None:
        table = self._pipeline.state.index.tables_by_name.get(name) if self._pipeline is not None else None
        if table is not None:
            timed = [entry for entry in entries if entry.notes is not None and entry.notes.idle_timeout_ns]
            for start in range(0, len(timed), ENTITIES_PER_RESPONSE):
                some = timed[start : start + ENTITIES_PER_RESPONSE]
                self._offer(partial(notifications.idle_entries, table, some, time.time_ns()))


def _responses(entities: list[p4r.Entity]) -> Iterator[p4r.ReadResponse]:
    """Yield entities in one response, or in several where they are large."""
    response = p4r.ReadResponse(entities=entities)
    if len(entities) < 2 or response.ByteSize() <= BYTES_PER_RESPONSE:
        yield response
    else:
        half = len(entities) // 2
        yield from _responses(entities[:half])
        yield from _responses(entities[half:])


def _required(pipeline: ForwardingPipeline | None) -> ForwardingPipeline:
    if pipeline is None:
        raise P4RuntimeError(Code.FAILED_PRECONDITION, "No forwarding pipeline config set for this device")
    return pipeline


def _internal(error: Exception) -> P4RuntimeError:
    log.error("unexpected error in the P4Runtime server", exc_info=error)
    return P4RuntimeError(Code.INTERNAL, f"{type(error).__name__}: {error}")


def _is_single(requested: p4r.Entity) -> bool:
    """Return whether a read is for one cell or entry, so that it is quickly done."""
    kind = requested.WhichOneof("entity")
    if kind in {"counter_entry", "meter_entry"}:
        cell = requested.counter_entry if kind == "counter_entry" else requested.meter_entry
        return cell.HasField("index")
    if kind == "table_entry":
        entry = requested.table_entry
        return bool(entry.table_id and (entry.match or entry.is_default_action))
    return False


def _parse(pipeline: ForwardingPipeline, update: p4r.Update) -> Apply | P4RuntimeError:
    try:
        return pipeline.handler(update.entity).parse(update.type, update.entity)
    except P4RuntimeError as error:
        return error.alone()
    except Exception as error:  # one bad update must not take the others down
        return _internal(error)


def _try(apply: Apply) -> P4RuntimeError | None:
    try:
        apply()
    except P4RuntimeError as error:
        return error.alone()
    except Exception as error:  # nothing may escape into the data-plane thread
        return _internal(error)
    return None
