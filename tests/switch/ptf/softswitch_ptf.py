"""PTF tests of the test program: PTF's own packet I/O, and the P4Runtime stubs of p4lang's `p4runtime` package.

Run by test_p4runtime_ptf.py with the parameters `address` (of P4Runtime) and `program` (path of the compiled program
without suffix).
"""

import queue
import threading
from pathlib import Path

import grpc
import ptf
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc
from ptf import testutils
from ptf.base_tests import BaseTest

TIMEOUT_S = 120
CPU_PORT_METADATA = 1


class SwitchTest(BaseTest):
    """Connects as primary and loads the program."""

    def setUp(self):
        super().setUp()
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()
        program = testutils.test_param_get("program")
        self.info = text_format.Parse(Path(f"{program}.p4info.txtpb").read_text(), p4info_pb2.P4Info())
        self.channel = grpc.insecure_channel(testutils.test_param_get("address"))
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        self.requests, self.packets = queue.Queue(), queue.Queue()
        self.responses = self.stub.StreamChannel(iter(self.requests.get, None))
        self._arbitrate()
        threading.Thread(target=self._receive, daemon=True).start()
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=1)
        request.election_id.low = 1
        request.action = request.VERIFY_AND_COMMIT
        request.config.p4info.CopyFrom(self.info)
        request.config.p4_device_config = Path(f"{program}.json").read_bytes()
        self.stub.SetForwardingPipelineConfig(request, timeout=TIMEOUT_S)

    def _arbitrate(self):
        hello = p4runtime_pb2.StreamMessageRequest()
        hello.arbitration.device_id = 1
        hello.arbitration.election_id.low = 1
        self.requests.put(hello)
        assert next(self.responses).arbitration.status.code == 0

    def _receive(self):
        try:
            for response in self.responses:
                if response.HasField("packet"):
                    self.packets.put(response.packet)
        except grpc.RpcError:
            pass

    def tearDown(self):
        self.requests.put(None)
        self.channel.close()
        super().tearDown()

    def named(self, collection, name):
        return next(item for item in collection if item.preamble.alias == name)

    def write(self, *entries, kind=p4runtime_pb2.Update.INSERT):
        request = p4runtime_pb2.WriteRequest(device_id=1)
        request.election_id.low = 1
        for entry in entries:
            request.updates.add(type=kind).entity.table_entry.CopyFrom(entry)
        self.stub.Write(request, timeout=TIMEOUT_S)

    def entry(self, table, key, action, *params):
        """An entry of a table with one exact field."""
        entry = p4runtime_pb2.TableEntry(table_id=self.named(self.info.tables, table).preamble.id)
        entry.match.add(field_id=1).exact.value = key
        found = self.named(self.info.actions, action)
        entry.action.action.action_id = found.preamble.id
        for param, value in zip(found.params, params, strict=True):
            entry.action.action.params.add(param_id=param.id, value=value)
        return entry


MAC = "00:00:00:00:00:0a"


class Forwarding(SwitchTest):
    """A packet goes where the entry says, and nowhere once the entry is gone."""

    def runTest(self):  # noqa: N802
        packet = testutils.simple_eth_packet(eth_dst=MAC, eth_type=0x1234)
        entry = self.entry("exact_table", b"\x0a", "count_exact", b"\2")
        self.write(entry)
        testutils.send_packet(self, 1, packet)
        testutils.verify_packets(self, packet, [2])
        self.write(entry, kind=p4runtime_pb2.Update.DELETE)
        drop = self.entry("exact_table", b"\x0a", "drop")
        self.write(drop)
        testutils.send_packet(self, 1, packet)
        testutils.verify_no_other_packets(self)


class RoutedByDefaultAction(SwitchTest):
    """Without an entry the default action decides; tiny_table sends to port 7, which exists on no wire here."""

    def runTest(self):  # noqa: N802
        table = self.named(self.info.tables, "tiny_table")
        entry = p4runtime_pb2.TableEntry(table_id=table.preamble.id, is_default_action=True)
        entry.action.action.action_id = self.named(self.info.actions, "forward").preamble.id
        entry.action.action.params.add(param_id=1, value=b"\1")
        self.write(entry, kind=p4runtime_pb2.Update.MODIFY)
        packet = testutils.simple_eth_packet(eth_dst="00:00:00:00:00:ff", eth_type=0x1234)
        testutils.send_packet(self, 2, packet)
        testutils.verify_packets(self, packet, [1])


class PacketIo(SwitchTest):
    """Packets out of and into the controller, with metadata."""

    def runTest(self):  # noqa: N802
        packet = testutils.simple_eth_packet(eth_dst=MAC, eth_type=0x1234)
        request = p4runtime_pb2.StreamMessageRequest()
        request.packet.payload = bytes(packet)
        request.packet.metadata.add(metadata_id=CPU_PORT_METADATA, value=b"\1")
        self.requests.put(request)
        testutils.verify_packets(self, packet, [1])
        self.write(self.entry("exact_table", b"\x0a", "to_cpu", b"\x11"))
        testutils.send_packet(self, 2, packet)
        received = self.packets.get(timeout=TIMEOUT_S)
        assert received.payload == bytes(packet)
        assert [item.value for item in received.metadata] == [b"\2", b"\x11"]


class TernaryPriority(SwitchTest):
    """The entry with the larger priority wins."""

    def runTest(self):  # noqa: N802
        table = self.named(self.info.tables, "wide_table")
        for priority, port in ((1, b"\1"), (5, b"\2")):
            entry = p4runtime_pb2.TableEntry(table_id=table.preamble.id, priority=priority)
            entry.action.action.action_id = self.named(self.info.actions, "forward").preamble.id
            entry.action.action.params.add(param_id=1, value=port)
            self.write(entry)
        packet = testutils.simple_ip_packet(eth_dst=MAC, ip_proto=99)
        testutils.send_packet(self, 1, packet)
        testutils.verify_packets(self, packet, [2])
