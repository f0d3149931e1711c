"""Port status between two hosts, through loss, reordering and restarts."""

import pytest
from mrc_sim import FULL_SIZE, PLANES, Simulation, Transfer

from mrclab.hosts.mrc.packets import headers as h
from mrclab.topo import srv6

ALL = (1 << PLANES) - 1
PLANE = 2


class Fabric:
    """h1 sends to h3, or the other way round; ports die with their cables, and packets by what the test says."""

    def __init__(self, **config):
        self.sim = Simulation(**config)
        self.gone = set()  # (host, plane)
        self.lost = lambda _transit: False
        self.late = lambda _transit: 0.0
        self.sim.network = self.network
        self.h1, self.h3 = self.sim.hosts["h1"], self.sim.hosts["h3"]

    def network(self, transit):
        ends = {(transit.source, transit.plane), (transit.destination, transit.plane)}
        if ends & self.gone or self.lost(transit):
            return []
        return [self.sim.delay(transit) + self.late(transit)]

    def port(self, host, up, plane=PLANE):
        (self.gone.discard if up else self.gone.add)((host, plane))
        number = next(p.number for p in self.sim.configs[host].ports if p.plane == plane)
        self.sim.hosts[host].port_event(number, up, self.sim.now)

    def believed(self):
        """The mask that h1 knows of h3."""
        (peer,) = self.h1.peers.with_qps.values()
        return peer.port_mask


def is_update(transit):
    return transit.op == h.MrcOpcode.ENDPOINT_REQUEST and transit.data[h.BODY_AT] == h.EndpointOp.PORT_STATUS_UPDATE


def test_a_port_is_known_to_be_up_again_however_many_probes_went_out_since_it_was_down():
    fabric = Fabric()
    Transfer(fabric.sim, "h1", "h3", 10)
    fabric.port("h3", up=False)
    fabric.sim.run(until=1.0)
    assert fabric.believed() == ALL & ~(1 << PLANE - 1)
    (peer,) = fabric.h3.peers.with_qps.values()
    path = peer.control_path(1, peer.uplinks(1)[0])
    for _ in range(40_000):
        fabric.h3.ops.probe(peer, path, 0.001, lambda _result: None, fabric.sim.now)
        fabric.h3.ports.by_number[1].control.clear()
    fabric.sim.run(until=2.0)
    fabric.port("h3", up=True)
    fabric.sim.run(until=3.0)
    assert fabric.believed() == ALL


def test_a_port_change_is_told_also_to_a_peer_that_nothing_reaches_for_a_while():
    fabric = Fabric()
    transfer = Transfer(fabric.sim, "h1", "h3", 10)
    transfer.write(0, 10)
    fabric.port("h3", up=False)
    fabric.sim.run(until=1.0)
    fabric.lost = lambda _transit: 2.0 < fabric.sim.now < 12.0  # some five hundred round trips
    fabric.sim.at(3.0, lambda: fabric.port("h3", up=True))
    fabric.sim.run(until=12.0)
    assert fabric.believed() != ALL
    unanswered = [r["node"] for r in fabric.sim.records if r["kind"] == "port.update.unanswered"]
    assert unanswered == ["h3"]
    fabric.sim.run(until=14.0)
    assert fabric.believed() == ALL
    fabric.sim.run(until=100.0)
    assert fabric.h3.next_deadline() is None  # answered, so not repeated


def test_a_port_that_was_down_before_the_first_qp_is_known_to_be_down():
    fabric = Fabric()
    a, b = fabric.h1.verbs, fabric.h3.verbs
    fabric.port("h3", up=False)
    qa = a.reserve_qpn()
    qb = b.create_qp(fabric.sim.configs["h1"].host.address, 0.0)
    b.connect(qb, {"qpn": qa, "psn": 1, "mpr": 1, "wimm": 1}, 0.0)
    fabric.sim.run(until=1.0)
    a.create_qp(fabric.sim.configs["h3"].host.address, 1.0, qpn=qa)
    a.connect(qa, b.local_info(qb), 1.0)
    assert fabric.believed() == ALL & ~(1 << PLANE - 1)
    fabric.port("h3", up=True)
    fabric.sim.run(until=2.0)
    assert fabric.believed() == ALL


def test_updates_are_taken_from_a_peer_that_counts_anew():
    fabric = Fabric()
    sim = fabric.sim
    transfer = Transfer(sim, "h1", "h3", 10)
    for n in range(4):
        sim.at(0.2 * n, lambda n=n: fabric.port("h3", up=bool(n % 2)))
    sim.run(until=1.0)
    assert fabric.believed() == ALL
    fabric.h3.verbs.destroy_qp(transfer.qb, sim.now)  # with its last QP there, a host forgets a peer
    fabric.port("h3", up=False)
    again = fabric.h3.verbs.create_qp(sim.configs["h1"].host.address, sim.now)
    fabric.h3.verbs.connect(again, fabric.h1.verbs.local_info(transfer.qa), sim.now)
    sim.run(until=3.0)
    assert fabric.believed() == ALL & ~(1 << PLANE - 1)


@pytest.mark.parametrize("rtts", [2, 10, 30])
def test_an_update_that_a_newer_one_overtook_changes_nothing(rtts):
    fabric = Fabric()
    Transfer(fabric.sim, "h1", "h3", 10)
    delayed = []

    def late(transit):
        if is_update(transit) and not delayed:
            delayed.append(transit)
            return rtts * 0.018
        return 0.0

    fabric.late = late
    fabric.port("h3", up=False)
    fabric.sim.at(0.002, lambda: fabric.port("h3", up=True))
    fabric.sim.run(until=2.0)
    assert delayed
    assert fabric.believed() == ALL


def test_a_peer_that_never_got_an_update_learns_the_ports_from_answers_to_its_probes():
    fabric = Fabric()
    Transfer(fabric.sim, "h1", "h3", 10)
    fabric.lost = is_update
    fabric.port("h3", up=False)
    fabric.sim.run(until=0.5)
    assert fabric.believed() == ALL
    evs = [srv6.ev(1, 1, srv6.ev_tag(0))]
    fabric.h1.ctl.probe_evs(fabric.sim.configs["h3"].host.address, evs, 0.2, lambda _results: None, fabric.sim.now)
    fabric.sim.run(until=1.0)
    assert fabric.believed() == ALL & ~(1 << PLANE - 1)


class OtherNumbers(Simulation):
    """h1 numbers its ports the other way round than their planes."""

    def adapt(self, config):
        if config.host.name != "h1":
            return config
        ports = tuple(port.model_copy(update={"number": PLANES + 1 - port.plane}) for port in config.ports)
        return config.model_copy(update={"ports": ports})


def test_a_peers_ports_are_told_apart_by_plane_not_by_number():
    numbers = {port.plane: port.number for port in OtherNumbers().configs["h1"].ports}
    assert numbers == {1: 4, 2: 3, 3: 2, 4: 1}
    sim = OtherNumbers()
    transfer = Transfer(sim, "h1", "h3", 40 * FULL_SIZE)
    sim.hosts["h3"].port_event(PLANE, False, 0.0)
    sim.run(until=0.5)
    evs = sim.hosts["h1"].verbs.qp(transfer.qa).evs
    assert [number for number, plane in evs.planes.items() if not plane.up] == [PLANE]
    sim.hosts["h1"].port_event(numbers[3], False, sim.now)
    sim.run(until=1.0)
    evs = sim.hosts["h3"].verbs.qp(transfer.qb).evs
    assert [number for number, plane in evs.planes.items() if not plane.up] == [PLANE, 3]
