"""One module per kind of entity, and the table of them."""

from __future__ import annotations

from mrclab.softswitch.p4runtime.entities.counters.counter import CounterHandler, DirectCounterHandler
from mrclab.softswitch.p4runtime.entities.counters.meter import DirectMeterHandler, MeterHandler
from mrclab.softswitch.p4runtime.entities.digest import DigestHandler
from mrclab.softswitch.p4runtime.entities.profiles.action_profile import GroupHandler, MemberHandler
from mrclab.softswitch.p4runtime.entities.replication import ReplicationHandler
from mrclab.softswitch.p4runtime.entities.table import TableHandler
from mrclab.softswitch.p4runtime.entities.unsupported import UnsupportedHandler
from mrclab.softswitch.p4runtime.state import EntityHandler, PipelineState


def make_handlers(state: PipelineState) -> dict[str, EntityHandler]:
    """Return the handlers for `state`, by the name of the field of `p4.v1.Entity` that they serve."""
    return {
        "table_entry": TableHandler(state),
        "action_profile_member": MemberHandler(state),
        "action_profile_group": GroupHandler(state),
        "meter_entry": MeterHandler(state),
        "direct_meter_entry": DirectMeterHandler(state),
        "counter_entry": CounterHandler(state),
        "direct_counter_entry": DirectCounterHandler(state),
        "packet_replication_engine_entry": ReplicationHandler(state),
        "value_set_entry": UnsupportedHandler("ValueSet"),
        "register_entry": UnsupportedHandler("Register"),
        "digest_entry": DigestHandler(state),
        "extern_entry": UnsupportedHandler("Extern"),
    }
