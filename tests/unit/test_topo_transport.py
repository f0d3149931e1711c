"""The run's choice of a transport: what it may say, how mistakes are named, what goes with it in the fabric."""

import pytest
from pydantic import ValidationError

from mrclab.topo.config import transport
from mrclab.topo.config.nodeconfig import EvProfileConfig
from mrclab.topo.config.transport import TransportError, TransportSpec
from mrclab.topo.spec import FabricSpec

DEFAULTS = {
    "mpr": 4, "timeout_exponent": 18, "sack_gen_threshold": 3072, "trimming": True, "trim_threshold": 16,
    "drop_threshold": 64,
}  # fmt: skip
PROFILE = EvProfileConfig(name="default", active_per_plane=3, backup_per_plane=1, ev_min_active=1)


@pytest.mark.parametrize(("given", "kind", "profile"), [
    ({}, "mrc", "uet-1.0-nscc"),
    ({"congestion_control": "none"}, "mrc", "none"),
    ({"kind": "roce"}, "roce", "dcqcn"),
    ({"kind": "roce", "congestion_control": "none"}, "roce", "none"),
])  # fmt: skip
def test_each_transport_has_its_congestion_control(given, kind, profile):
    section = TransportSpec.model_validate(given).section(DEFAULTS)
    assert (section.kind, section.cc_profile) == (kind, profile)


@pytest.mark.parametrize(("given", "words"), [
    ({"kind": "tcp"}, "'mrc' or 'roce'"),
    ({"kind": "roce", "congestion_control": "nscc"}, "no congestion control 'nscc'; it has dcqcn, hpcc and none"),
    ({"kind": "roce", "ev_profile": {"active_per_plane": 1}}, "roce has no EVs"),
    ({"attributes": {"cc_profile": "none"}}, "attributes.cc_profile is set by congestion_control"),
    ({"congestion_settings": {"gama": 1}}, r"congestion_settings: nscc has no setting 'gama'; did you mean 'gamma'"),
    ({"congestion_settings": {"gamma": 2}}, r"congestion_settings: gamma: expected a number from 0 to 1, not 2"),
    ({"path_selection": "rotat"}, "no path selection 'rotat'; it has bitmap, flowlet, oblivious, reps, rotation and r"),
    ({"kind": "roce", "path_selection": "rotation"}, "roce has no EVs"),
    ({"qps": 4}, "Extra inputs"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(given, words):
    with pytest.raises(ValidationError, match=words):
        TransportSpec.model_validate(given)


def test_settings_of_the_congestion_control_reach_node_configs_in_seconds():
    chosen = TransportSpec(congestion_settings={"target_delay": "9us", "disable_qa": True})
    assert chosen.section(DEFAULTS).cc_config == {"target_delay": 9e-6, "disable_qa": True}


@pytest.mark.parametrize(("attributes", "words"), [
    ({"retry_cuont": 3}, r"transport.attributes.retry_cuont is not a known field; did you mean 'retry_count'\?"),
    ({"retry_count": 8}, r"transport.attributes.retry_count: .*at most 7"),
    ({"dcqcn": {"g": 2}}, r"transport.attributes.dcqcn.g: .*at most 1"),
])  # fmt: skip
def test_attributes_at_fault_are_named(attributes, words):
    with pytest.raises(TransportError, match=words):
        TransportSpec(kind="roce", attributes=attributes).section(DEFAULTS)


def test_a_field_of_the_ev_profile_at_fault_is_named():
    with pytest.raises(TransportError, match=r"transport.ev_profile.activ is not a known field"):
        TransportSpec(ev_profile={"activ": 1}).profile(PROFILE)
    assert TransportSpec(ev_profile={"active_per_plane": 1}).profile(PROFILE).active_per_plane == 1


def test_the_file_says_the_same_when_read_back_and_holds_nothing_of_a_subclass(tmp_path):
    class Wider(TransportSpec):
        qps: int = 1

    spec = Wider(kind="roce", qps=16, attributes={"dcqcn": {"g": 0.5}})
    transport.store(spec, tmp_path / transport.FILE_NAME)
    read = transport.load(tmp_path / transport.FILE_NAME)
    assert read == TransportSpec(kind="roce", attributes={"dcqcn": {"g": 0.5}})


@pytest.mark.parametrize(("text", "words"), [
    ("{", "is not JSON"),
    ("[]", "transport: .*a mapping of fields"),
    ('{"kind": "rocee"}', "transport.kind: .*'mrc' or 'roce'"),
])  # fmt: skip
def test_a_damaged_file_is_one_sentence(tmp_path, text, words):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(TransportError, match=words):
        transport.load(tmp_path / "t.json")
    with pytest.raises(TransportError, match="No such file"):
        transport.load(tmp_path / "missing.json")


def test_roce_gets_marks_at_the_last_hop_and_deep_buffers():
    plain = FabricSpec.model_validate(transport.fabric_defaults("mrc"))
    roce = FabricSpec.model_validate(transport.fabric_defaults("roce"))
    assert plain == FabricSpec()
    assert roce.last_hop_ecn
    assert roce.queue.depth == round(100 * roce.bdp_packets)
    assert (roce.queue.ecn_min, roce.queue.ecn_max) == (plain.queue.ecn_min, plain.queue.ecn_max)
