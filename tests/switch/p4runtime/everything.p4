/* One program with every kind of object that P4Runtime can name, for tests of the control plane.
 *
 * Compile: p4c-bm2-ss --p4runtime-files everything.p4info.txtpb -o everything.json everything.p4
 */
#include <core.p4>
#include <v1model.p4>

typedef bit<9> port_t;

const port_t CPU_PORT = 510;

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<1> through_tables;
    bit<6> _pad;
}

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> reason;
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> length;
    bit<16> id;
    bit<3> flags;
    bit<13> offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

struct headers_t {
    packet_out_t packet_out;
    packet_in_t packet_in;
    ethernet_t ethernet;
    ipv4_t ipv4;
}

struct learn_t {
    bit<48> src;
    port_t port;
}

struct meta_t {
    bit<2> color;
    bit<16> nexthop;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t smeta) {
    value_set<bit<16>>(4) extra_types;

    state start {
        transition select(smeta.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: parse_ipv4;
            extra_types: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t smeta) {
    counter(64, CounterType.packets_and_bytes) port_counter;
    counter(8, CounterType.packets) packet_counter;
    counter(8, CounterType.bytes) byte_counter;
    meter(8, MeterType.packets) port_meter;
    register<bit<32>>(8) last_seen;
    direct_counter(CounterType.packets_and_bytes) exact_counter;
    direct_meter<bit<2>>(MeterType.bytes) ternary_meter;
    direct_counter(CounterType.packets) ternary_counter;
    action_selector(HashAlgorithm.crc16, 64, 16) selector;
    action_profile(32) profile;

    action drop() { mark_to_drop(smeta); }
    action forward(port_t port) { smeta.egress_spec = port; }
    action rewrite(bit<48> dst, bit<48> src, port_t port) {
        hdr.ethernet.dst = dst;
        hdr.ethernet.src = src;
        smeta.egress_spec = port;
    }
    action to_cpu(bit<7> reason) {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = smeta.ingress_port;
        hdr.packet_in.reason = reason;
        smeta.egress_spec = CPU_PORT;
    }
    action multicast(bit<16> group) { smeta.mcast_grp = group; }
    action mirror() { clone(CloneType.I2E, 5); }
    action set_nexthop(bit<16> nexthop) { meta.nexthop = nexthop; }
    action learn() { digest<learn_t>(1, { hdr.ethernet.src, smeta.ingress_port }); }
    action count_exact(port_t port) { exact_counter.count(); smeta.egress_spec = port; }
    action colour(port_t port) { ternary_meter.read(meta.color); ternary_counter.count(); smeta.egress_spec = port; }

    table exact_table {
        key = { hdr.ethernet.dst: exact; }
        actions = { count_exact; drop; to_cpu; multicast; @defaultonly NoAction; }
        default_action = NoAction();
        counters = exact_counter;
        size = 64;
    }
    table tiny_table {
        key = { hdr.ethernet.type: exact; smeta.ingress_port: exact; }
        actions = { forward; drop; NoAction; }
        default_action = forward(7);
        size = 4;
    }
    table lpm_table {
        key = { hdr.ipv4.dst: lpm; }
        actions = { @tableonly set_nexthop; drop; NoAction; }
        const default_action = NoAction();
        size = 1024;
    }
    table ternary_table {
        key = {
            hdr.ethernet.src: ternary;
            smeta.ingress_port: exact;
            hdr.ipv4.dst: lpm;
            hdr.ipv4.protocol: range;
            hdr.ipv4.tos: optional;
        }
        actions = { colour; forward; NoAction; }
        default_action = NoAction();
        meters = ternary_meter;
        counters = ternary_counter;
        size = 256;
    }
    table wide_table {
        key = { hdr.ethernet.type: range; smeta.ingress_port: optional; meta.nexthop: ternary; }
        actions = { forward; rewrite; drop; NoAction; }
        default_action = drop();
    }
    table selector_table {
        key = { hdr.ipv4.dst: exact; hdr.ipv4.src: selector; hdr.ipv4.id: selector; }
        actions = { forward; rewrite; NoAction; }
        implementation = selector;
        size = 128;
    }
    table profile_table {
        key = { meta.nexthop: exact; }
        actions = { forward; rewrite; drop; NoAction; }
        implementation = profile;
        size = 128;
    }
    table const_table {
        key = { hdr.ipv4.protocol: ternary; }
        actions = { mirror; NoAction; }
        const default_action = NoAction();
        const entries = {
            17 &&& 0xff: mirror();
            0x40 &&& 0xf0: NoAction();
        }
    }
    table idle_table {
        key = { hdr.ethernet.src: exact; }
        actions = { learn; NoAction; }
        default_action = learn();
        support_timeout = true;
        size = 64;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            smeta.egress_spec = hdr.packet_out.egress_port;
            if (hdr.packet_out.through_tables == 0) {
                hdr.packet_out.setInvalid();
                return;
            }
            hdr.packet_out.setInvalid();
        }
        port_counter.count((bit<32>) smeta.ingress_port & 63);
        packet_counter.count(1);
        byte_counter.count(1);
        port_meter.execute_meter<bit<2>>(1, meta.color);
        last_seen.write(1, (bit<32>) smeta.ingress_port);
        idle_table.apply();
        if (hdr.ipv4.isValid()) {
            lpm_table.apply();
            profile_table.apply();
            selector_table.apply();
            const_table.apply();
            ternary_table.apply();
            wide_table.apply();
        } else {
            tiny_table.apply();
        }
        exact_table.apply();
    }
}

control EgressImpl(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t smeta) {
    apply { }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

control VerifyImpl(inout headers_t hdr, inout meta_t meta) { apply { } }
control ComputeImpl(inout headers_t hdr, inout meta_t meta) { apply { } }

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), DeparserImpl()) main;
