"""A Linux kernel router in the place of each plane's T1: what the hosts send is SRv6 as others implement it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from agents import NAMES, AgentPair, mac, node_config
from kernel_router import KernelRouter, NoNextCsidError
from netns import Namespace

from mrclab.experiments.survey.streams import lost
from mrclab.topo import srv6
from mrclab.topo.srv6 import UsidType

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces")]

PLANES = 2
UPLINK = 1
DELAY_S = 0.0005


def router_mac(plane: int, host: int) -> str:
    return f"02:0b:{plane:02x}:00:{host:02x}:01"


def address(host: int) -> str:
    return srv6.text(srv6.host_address(host, host))  # host n hangs on downlink n of T0 n


def routed_config(host: int) -> dict[str, Any]:
    """The node config of a host whose NIC ports lead to T1s: `locator | T1 | downlink`."""
    config, peer = node_config(host, PLANES, rate_pps=4000, delay=DELAY_S), 3 - host
    config["host"].update(group=host, downlink=host, address=address(host))
    for port in config["ports"]:
        port.update(peer_switch=f"t1-p{port['plane']}-1", peer_mac=router_mac(port["plane"], host))
    (template,) = config["templates"]
    template.update(
        group=peer, prefix=f"{srv6.text(srv6.group_prefix(peer))}/64", scope="cross-t1",
        address="fcbb:bb00:1000:3000::", uplinks={str(plane): [UPLINK] for plane in range(1, PLANES + 1)}, links=2,
    )  # fmt: skip
    config["directory"] = {f"h{n}": address(n) for n in (1, 2)}
    return config


class RoutedPair(AgentPair):
    """Two agents with a kernel router per plane between them."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.planes = directory, PLANES
        self.namespaces = {name: Namespace(name) for name in NAMES}
        self.processes, self.clients = {}, {}
        self.routers = [KernelRouter(f"t1-{plane}") for plane in range(1, PLANES + 1)]
        try:
            for plane, router in enumerate(self.routers, 1):
                self._wire(router, plane)
        except NoNextCsidError:
            self.remove()
            raise
        for number, name in enumerate(NAMES, 1):
            self.config_path(name).write_text(json.dumps(routed_config(number)))

    def _wire(self, router: KernelRouter, plane: int) -> None:
        for host, name in enumerate(NAMES, 1):
            namespace, interface = self.namespaces[name], f"{name}-p{plane}"
            router.attach(f"to-{name}", router_mac(plane, host), namespace, interface, mac(plane, host))
            router.route(srv6.usid(UsidType.DOWNLINK, plane, host), f"to-{name}")
        router.shift(srv6.usid(UsidType.T1, plane, UPLINK), "to-h1")

    def remove(self) -> None:
        super().remove()
        for router in self.routers:
            router.remove()


@pytest.fixture
def pair(tmp_path: Path):
    try:
        made = RoutedPair(tmp_path)
    except NoNextCsidError as error:
        pytest.skip(str(error))
    try:
        made.start()
        yield made
    finally:
        made.remove()


def test_a_transfer_crosses_kernel_routers_intact(pair: RoutedPair, tmp_path: Path):
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3_000_001))
    qp, _ = pair.connect()
    pair.post(qp, source, tmp_path / "target")
    assert pair.completion()["status"] == "SUCCESS"
    assert (tmp_path / "target").read_bytes() == source.read_bytes()
    counts = pair.clients["h1"].call("stats")
    row = counts["qps"][0]
    assert lost(row, pair.clients["h2"].call("stats")["qps"][0]) == 0
    by_plane = {path["plane"]: path["sent_packets"] for path in counts["paths"]}
    assert max(by_plane.values()) - min(by_plane.values()) <= 1 + row["retx_packets"]
    for router, port in zip(pair.routers, counts["ports"], strict=True):
        assert router.forwarded() >= port["tx_packets"] > 300
    errors = ("icrc_errors", "malformed", "misdelivered")
    for name in NAMES:
        ports = pair.clients[name].call("stats")["ports"]
        assert [{error: port[error] for error in errors if port[error]} for port in ports] == [{}] * PLANES
