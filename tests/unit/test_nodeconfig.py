"""The node config schema: what fits, what does not, and what it says then."""

import json
from pathlib import Path

import pytest

from mrclab.topo.config import nodeconfig
from mrclab.topo.config.nodeconfig import DenyRule, NodeConfig, NodeConfigError


def example() -> dict[str, object]:
    """A host on a two-plane fabric with two T0 groups and two uplinks, as JSON would give it."""
    return {
        "version": 3,
        "host": {"name": "h1", "number": 1, "group": 1, "downlink": 1, "address": "fdcb:bb00:0:1::1"},
        "path_mtu": 4096,
        "link": {"rate_pps": 500, "delay": 0.002},
        "ports": [
            {
                "number": plane,
                "name": f"h1-p{plane}",
                "plane": plane,
                "mac": f"02:0c:0{plane}:00:01:01",
                "peer_switch": f"t0-p{plane}-1",
                "peer_port": 1,
                "peer_mac": f"02:0a:0{plane}:01:00:01",
            }
            for plane in (1, 2)
        ],
        "templates": [
            {
                "group": 1,
                "prefix": "fdcb:bb00:0:1::/64",
                "scope": "t0-local",
                "address": "fcbb:bb00:2001:3000::",
                "uplinks": {"1": [], "2": []},
                "base_rtt": 0.008,
                "links": 2,
            },
            {
                "group": 2,
                "prefix": "fdcb:bb00:0:2::/64",
                "scope": "cross-t1",
                "address": "fcbb:bb00:2001:1000:2002:3000::",
                "uplinks": {"1": [1, 2], "2": [1, 2]},
                "base_rtt": 0.016,
                "links": 4,
            },
        ],
        "ev_profiles": [{"name": "default", "active_per_plane": 2, "backup_per_plane": 0, "ev_min_active": 1}],
        "transport": {
            "mpr": 2,
            "timeout_exponent": 18,
            "sack_gen_threshold": 12288,
            "trimming": True,
            "trim_threshold": 8,
            "drop_threshold": 64,
        },
        "denylist": [{"plane": 1, "uplink": 2, "element": "t0-p1-1/t1-p1-2"}],
        "directory": {"h1": "fdcb:bb00:0:1::1", "h3": "fdcb:bb00:0:2::1"},
    }


def config(**changes: object) -> NodeConfig:
    return nodeconfig.loads(json.dumps({**example(), **changes}))


def test_a_file_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    path = tmp_path / "node" / "h1.json"
    nodeconfig.store(config(), path)
    assert nodeconfig.load(path) == config()
    assert [entry.name for entry in path.parent.iterdir()] == ["h1.json"]


def test_the_template_is_chosen_by_prefix() -> None:
    assert config().template_for("fdcb:bb00:0:2::7").group == 2
    with pytest.raises(KeyError, match="no template for fdcb:bb00:0:9::1"):
        config().template_for("fdcb:bb00:0:9::1")


@pytest.mark.parametrize(
    ("plane", "uplink", "destination", "denied"),
    [
        (1, 2, "fdcb:bb00:0:2::1", True),
        (1, 1, "fdcb:bb00:0:2::1", False),
        (2, 2, "fdcb:bb00:0:2::1", False),
        (1, 0, "fdcb:bb00:0:1::2", False),
    ],
)
def test_a_rule_denies_only_the_paths_it_names(plane: int, uplink: int, destination: str, denied: bool) -> None:
    assert config().denied(plane, uplink, destination) is denied


@pytest.mark.parametrize(
    ("rule", "hit", "miss"),
    [
        (DenyRule(plane=1, element="x"), (1, 9, 9, 9), (2, 9, 9, 9)),
        (DenyRule(plane=1, group=2, element="x"), (1, 5, 2, 5), (1, 5, 3, 5)),
        (DenyRule(plane=1, group=2, downlink=4, element="x"), (1, 5, 2, 4), (1, 5, 2, 3)),
        (DenyRule(plane=1, uplink=3, group=2, element="x"), (1, 3, 2, 1), (1, 4, 2, 1)),
    ],
)
def test_a_missing_field_of_a_rule_stands_for_any_value(
    rule: DenyRule, hit: tuple[int, int, int, int], miss: tuple[int, int, int, int]
) -> None:
    assert rule.covers(*hit)
    assert not rule.covers(*miss)


def test_times_and_windows_follow_the_encoding_on_the_wire() -> None:
    transport = config().transport
    assert transport.ack_timeout == pytest.approx(0.268435456)
    assert transport.mpr_psns == 256


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("version", 0, "version: this must be at least 1"),
        ("colour", "red", "colour: Extra inputs are not permitted"),
        ("path_mtu", 64, "path_mtu: this must be at least 256"),
        ("host", {**example()["host"], "address": "h1"}, "host.address: .*'h1' is not an IPv6 address"),  # type: ignore[dict-item]
        ("ports", [example()["ports"][0]] * 2, "node config: ports: 1 occurs more than once"),  # type: ignore[index]
        ("denylist", [{"element": "x"}], "denylist.0: .*must name a plane"),
        ("denylist", [{"element": "x", "plane": 1, "downlink": 2}], "denylist.0: .*must name the group"),
        ("ports", [], "ports: this list is too short; name at least 1"),
    ],
)
def test_a_bad_field_is_named_in_one_sentence(field: str, value: object, complaint: str) -> None:
    with pytest.raises(NodeConfigError, match=complaint) as caught:
        config(**{field: value})
    assert "\n" not in str(caught.value)


def test_a_missing_or_torn_file_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(NodeConfigError, match=r"No such file or directory; is the controller running\?"):
        nodeconfig.load(tmp_path / "h9.json")
    torn = tmp_path / "h1.json"
    torn.write_text(nodeconfig.dumps(config())[:40])
    with pytest.raises(NodeConfigError, match="Invalid JSON"):
        nodeconfig.load(torn)


def test_a_copy_with_other_templates_knows_them() -> None:
    first = config()
    assert first.template_for("fdcb:bb00:0:2::7").group == 2
    copied = first.model_copy(update={"templates": first.templates[:1]})
    with pytest.raises(KeyError, match="no template"):
        copied.template_for("fdcb:bb00:0:2::7")
    assert first == config()
