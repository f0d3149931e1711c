"""One module per kind of entity, and the table of them."""

from __future__ import annotations

from mrclab.softswitch.p4runtime.entities.counters import COUNTER, METER, CellHandler, DirectHandler
from mrclab.softswitch.p4runtime.entities.digest import DigestHandler
from mrclab.softswitch.p4runtime.entities.profiles import GroupHandler, MemberHandler
from mrclab.softswitch.p4runtime.entities.replication import ReplicationHandler
from mrclab.softswitch.p4runtime.entities.table import TableHandler
from mrclab.softswitch.p4runtime.state import EntityHandler, PipelineState


def make_handlers(state: PipelineState) -> dict[str, EntityHandler]:
    """Return the handlers for `state`, by the name of the field of `p4.v1.Entity` that they serve."""
    return {
        "table_entry": TableHandler(state),
        "action_profile_member": MemberHandler(state),
        "action_profile_group": GroupHandler(state),
        "meter_entry": CellHandler(state, METER),
        "direct_meter_entry": DirectHandler(state, METER),
        "counter_entry": CellHandler(state, COUNTER),
        "direct_counter_entry": DirectHandler(state, COUNTER),
        "packet_replication_engine_entry": ReplicationHandler(state),
        "value_set_entry": EntityHandler(state, "ValueSet"),
        "register_entry": EntityHandler(state, "Register"),
        "digest_entry": DigestHandler(state),
        "extern_entry": EntityHandler(state, "Extern"),
    }
