"""Pipelines: verifying, saving, committing and reconciling a forwarding pipeline configuration."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from finsy.proto import p4r
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from mrclab.softswitch.objects.runtime_api import RuntimeApiError
from mrclab.softswitch.p4runtime.entities import make_handlers
from mrclab.softswitch.p4runtime.entities.common import own_copy
from mrclab.softswitch.p4runtime.entities.table import TableHandler
from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError
from mrclab.softswitch.p4runtime.p4info import P4Index, P4InfoError
from mrclab.softswitch.p4runtime.profile_state import ActionProfileState
from mrclab.softswitch.p4runtime.state import Apply, EntityHandler, PipelineState
from mrclab.softswitch.p4runtime.stream.packet_io import HeaderCodec
from mrclab.softswitch.switch import SoftSwitch

if TYPE_CHECKING:
    from mrclab.softswitch.pipeline import Compiled

DEVICE_DATA_FIELD = 3


def device_json(config: bytes) -> bytes:
    """Return the JSON text in `config`, or `config` itself where it is neither JSON nor the old wrapper."""
    if config.lstrip()[:1] == b"{":
        return config
    return _unwrap(config) or config


def _unwrap(message: bytes) -> bytes | None:
    """Return the field `device_data` of a serialised P4DeviceConfig; None if `message` is not one."""
    try:
        fields = UnknownFieldSet(Empty.FromString(message))
    except DecodeError:
        return None
    found = [fields[at].data for at in range(len(fields)) if fields[at].field_number == DEVICE_DATA_FIELD]
    return found[-1] if found and isinstance(found[-1], bytes) else None


@dataclass
class ForwardingPipeline:
    """A program with everything the control plane needs to serve it.

    `device_config` and `rest`, which is compressed, are the configuration as it was sent.
    """

    compiled: Compiled
    device_config: bytes
    rest: bytes
    state: PipelineState
    handlers: dict[str, EntityHandler]
    packet_in: HeaderCodec
    packet_out: HeaderCodec

    def config(self, *, p4info: bool, device_config: bool) -> p4r.ForwardingPipelineConfig:
        """Return the configuration's cookie and the parts that are requested."""
        config = p4r.ForwardingPipelineConfig.FromString(zlib.decompress(self.rest))
        if not p4info:
            config.ClearField("p4info")
        if device_config:
            config.p4_device_config = self.device_config
        return config

    def handler(self, entity: p4r.Entity) -> EntityHandler:
        """Return the handler of `entity`."""
        kind = entity.WhichOneof("entity")
        if kind is None or kind not in self.handlers:
            raise P4RuntimeError(Code.UNKNOWN, "Incorrect entity type")
        return self.handlers[kind]


def check_p4info(config: p4r.ForwardingPipelineConfig) -> None:
    """Refuse a P4Info that contradicts itself."""
    try:
        P4Index.build(config.p4info, None)
    except P4InfoError as error:
        raise P4RuntimeError(Code.UNKNOWN, f"Error when importing p4info: {error}") from error


def load_pipeline(config: p4r.ForwardingPipelineConfig, switch: SoftSwitch) -> ForwardingPipeline:
    """Compile a configuration; the running pipeline is not touched."""
    check_p4info(config)
    try:
        compiled = switch.compile(device_json(config.p4_device_config))
        index = P4Index.build(config.p4info, compiled.program)
    except (RuntimeApiError, P4InfoError) as error:
        raise P4RuntimeError(Code.UNKNOWN, f"Error in first phase of device update: {error}") from error
    kept, sent = compiled.config, config.p4_device_config
    device_config = kept if isinstance(kept, bytes) and kept == sent else sent  # the same bytes once in memory
    rest = own_copy(config)
    rest.ClearField("p4_device_config")
    state = PipelineState(index, switch, profiles={profile_id: ActionProfileState() for profile_id in index.profiles})
    return ForwardingPipeline(
        compiled=compiled,
        device_config=device_config,
        rest=zlib.compress(rest.SerializeToString()),
        state=state,
        handlers=make_handlers(state),
        packet_in=HeaderCodec(index.packet_in),
        packet_out=HeaderCodec(index.packet_out),
    )


def parse_replay(old: ForwardingPipeline, new: ForwardingPipeline) -> list[Apply]:
    """Return the function that copies the forwarding state of `old` into `new`; refused if `new` cannot hold it."""
    replay: list[Apply] = []
    for update_type, entity in _written_state(old):
        try:
            replay.append(new.handler(entity).parse(update_type, entity))
        except P4RuntimeError as error:
            raise P4RuntimeError(Code.UNKNOWN, f"Error when reconciling config: {error.message}") from error
    return replay


def _written_state(pipeline: ForwardingPipeline) -> Iterator[tuple[int, p4r.Entity]]:
    """Yield everything controllers wrote, in an order in which it can be written again."""
    insert, modify = p4r.Update.INSERT, p4r.Update.MODIFY
    state = pipeline.state
    for requested in (
        p4r.Entity(action_profile_member=p4r.ActionProfileMember()),
        p4r.Entity(action_profile_group=p4r.ActionProfileGroup()),
        *_replication_wildcards(),
    ):
        yield from ((insert, entity) for entity in pipeline.handler(requested).read(requested))
    yield from _written_entries(pipeline)
    for table_id in state.defaults:
        requested = p4r.Entity(table_entry=p4r.TableEntry(table_id=table_id, is_default_action=True))
        yield from ((modify, entity) for entity in pipeline.handler(requested).read(requested))
    for requested in (p4r.Entity(counter_entry=p4r.CounterEntry()), p4r.Entity(meter_entry=p4r.MeterEntry())):
        for entity in pipeline.handler(requested).read(requested):
            counter = entity.counter_entry.data
            if counter.packet_count or counter.byte_count or entity.meter_entry.HasField("config"):
                yield modify, entity
    yield from ((insert, p4r.Entity(digest_entry=digest)) for digest in state.digests.values())


def _replication_wildcards() -> Iterator[p4r.Entity]:
    for kind in ("multicast_group_entry", "clone_session_entry"):
        requested = p4r.Entity()
        getattr(requested.packet_replication_engine_entry, kind).SetInParent()
        yield requested


def _written_entries(pipeline: ForwardingPipeline) -> Iterator[tuple[int, p4r.Entity]]:
    """Yield the table entries with their direct counters and meters, without those the program itself has."""
    requested = p4r.Entity(table_entry=p4r.TableEntry(meter_config=p4r.MeterConfig(), counter_data=p4r.CounterData()))
    handler = TableHandler(pipeline.state)
    for table in pipeline.state.index.tables.values():
        yield from ((p4r.Update.INSERT, entity) for entity in handler.read_written(requested.table_entry, table))
