"""Node config of each host, against its fabric."""

from pathlib import Path

import pytest

from mrclab.controller import nodefiles
from mrclab.topo import srv6
from mrclab.topo.config import nodeconfig
from mrclab.topo.config.nodeconfig import DenyRule
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec


def fabric(**changes: object) -> Fabric:
    return Fabric(FabricSpec.model_validate(changes))


def test_templates_give_the_addresses_that_the_fabric_routes() -> None:
    net = fabric(t0s=3, t1s=4)
    for source in net.hosts:
        config = nodefiles.node_configs(net)[source.name]
        for destination in net.hosts:
            template = config.template_for(destination.address)
            base = srv6.from_text(template.address) | destination.downlink << srv6_downlink_shift(template.scope)
            for plane, uplink in net.paths(source.name, destination.name):
                entropy = srv6.ev(plane, uplink, srv6.ev_tag(7))
                assert srv6.address(base, entropy) == net.outer_address(source.name, destination.name, entropy)
                assert not template.uplinks[plane] if uplink == 0 else uplink in template.uplinks[plane]


def srv6_downlink_shift(scope: str) -> int:
    """Bit position of the downlink uSID: the second of `locator | T0 | downlink`, the fourth across a T1."""
    return 128 - 32 - 16 * (2 if scope == "t0-local" else 4)


def test_ports_name_both_ends_of_their_cable() -> None:
    net = fabric()
    port = nodefiles.node_configs(net)["h3"].port(2)
    assert (port.name, port.mac) == ("h3-p2", "02:0c:02:00:03:01")
    assert (port.peer_switch, port.peer_port, port.peer_mac) == ("t0-p2-2", 1, "02:0a:02:02:00:01")


@pytest.mark.parametrize(("uplinks", "active", "backup"), [(1, 1, 0), (2, 2, 0), (4, 3, 1), (8, 6, 2)])
def test_a_quarter_of_the_paths_is_backup(uplinks: int, active: int, backup: int) -> None:
    profile = nodefiles.default_profile(fabric(t1s=uplinks))
    assert (profile.active_per_plane, profile.backup_per_plane) == (active, backup)
    assert 1 <= profile.ev_min_active <= max(1, active * 4 // 4)


def test_an_ev_of_a_fast_fabric_is_trusted_again_after_as_many_round_trips() -> None:
    slow, fast = fabric(link={"delay": 0.002}), fabric(link={"rate": "100 Gb/s", "delay": 6e-7})
    assert nodefiles.default_profile(slow).refail_window == 60
    assert nodefiles.default_profile(fast).refail_window == pytest.approx(3000 * nodefiles.longest_rtt(fast))


@pytest.mark.parametrize("delay", [0.0, 0.0005, 0.002, 0.05])
def test_the_ack_timeout_is_the_least_step_that_covers_thirteen_round_trips(delay: float) -> None:
    net = fabric(link={"delay": delay})
    transport = nodefiles.transport(net)
    wanted = 13 * nodefiles.longest_rtt(net)
    assert transport.ack_timeout >= wanted
    assert transport.ack_timeout / 2 < wanted


def test_a_longer_network_gets_a_larger_window() -> None:
    short, long = (nodefiles.transport(fabric(link={"delay": d})).mpr for d in (0.002, 0.008))
    assert short < long <= 255


RULE = DenyRule(plane=2, element="h1-p2/t0-p2-1", reason="5 % loss")


def test_files_are_written_for_every_host_and_hold_its_denylist(tmp_path: Path) -> None:
    net = fabric()
    nodefiles.publish(net, tmp_path, {"h1": [RULE]}, 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["h1.json", "h2.json", "h3.json", "h4.json"]
    h1, h2 = (nodeconfig.load(tmp_path / f"{name}.json") for name in ("h1", "h2"))
    assert h1.version == h2.version == 4
    assert h1.denied(2, 1, "fdcb:bb00:0:2::1")
    assert not h2.denylist


def test_files_that_say_the_same_are_left_alone_and_others_get_a_higher_version(tmp_path: Path) -> None:
    net = fabric()
    first = nodefiles.publish(net, tmp_path, {}, 7)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert nodefiles.publish(net, tmp_path, {}, 1) == first
    assert stamps == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert {config.version for config in nodefiles.publish(net, tmp_path, {"h1": [RULE]}, 1).values()} == {8}


def test_a_damaged_file_is_said_and_written_anew(tmp_path: Path) -> None:
    net = fabric()
    nodefiles.publish(net, tmp_path, {})
    (tmp_path / "h2.json").write_text("{")
    said: list[tuple[str, str]] = []
    configs = nodefiles.publish(net, tmp_path, {}, on_damage=lambda *complaint: said.append(complaint))
    assert nodeconfig.load(tmp_path / "h2.json") == configs["h2"]
    ((host, complaint),) = said
    assert host == "h2"
    assert complaint.startswith(f"{tmp_path / 'h2.json'}: Invalid JSON: ")


def test_the_runs_transport_is_what_every_host_is_told(tmp_path: Path) -> None:
    choice = TransportSpec(kind="roce", congestion_control="none", attributes={"retry_count": 3, "ack_packets": 8})
    for config in nodefiles.publish(fabric(), tmp_path, {}, choice=choice).values():
        told = config.transport
        assert (told.kind, told.cc_profile, told.retry_count, told.ack_packets) == ("roce", "none", 3, 8)
        assert told.timeout_exponent == nodefiles.transport(fabric()).timeout_exponent


def test_mrc_takes_overrides_of_its_ev_profile_and_transport() -> None:
    net = fabric(t1s=4)
    choice = TransportSpec(ev_profile={"active_per_plane": 1, "backup_per_plane": 3}, attributes={"remap_delay": 0.5})
    config = nodefiles.node_configs(net, choice=choice)["h1"]
    assert (config.profile("default").active_per_plane, config.profile("default").backup_per_plane) == (1, 3)
    assert (config.transport.kind, config.transport.remap_delay) == ("mrc", 0.5)
    assert config.transport.cc_profile == "uet-1.0-nscc"


def test_hosts_share_what_they_know_of_the_fabric_and_differ_in_what_is_their_own() -> None:
    net = fabric(t0s=3, hosts_per_t0=2)
    configs = nodefiles.node_configs(net, denylists={"h2": [DenyRule(plane=1, element="x")]})
    first, second, third = (configs[name] for name in ("h1", "h2", "h3"))
    assert first.directory is second.directory is third.directory
    assert first.templates is second.templates
    assert first.templates != third.templates
    assert {config.host.name for config in configs.values()} == set(first.directory) == set(configs)
    assert first.denied(1, 1, "fdcb:bb00:0:2::1") is False
    assert second.denied(1, 1, "fdcb:bb00:0:2::1") is True
    for config in configs.values():
        assert nodeconfig.loads(nodeconfig.dumps(config)) == config


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"t0s": 3, "t1s": 4, "hosts_per_t0": 3},
        {"link": {"rate": "100 Gb/s", "delay": 0}, "trimming": False},
        {
            "link": {"rate": "100 Gb/s"},
            "links": [{"tier": "nic", "planes": [2], "rate": "50 Gb/s"}, {"tier": "t0-t1", "rate": "200 Gb/s"}],
        },
    ],
)
def test_what_is_made_of_a_valid_fabric_is_what_its_schema_would_make_of_it(changes: dict[str, object]) -> None:
    mapper = nodefiles.mapper(fabric(**changes), 0.5)
    for made in nodefiles.node_configs(fabric(**changes), mapper=mapper).values():
        text = nodeconfig.dumps(made)
        read = nodeconfig.loads(text)
        assert read == made
        assert nodeconfig.dumps(read) == text  # an int in the place of a float would be another text
