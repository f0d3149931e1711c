// IPv4 header checksum with options (varbit), UDP checksum with payload: verified on the way in, updated on the way out.

#include "common.p4"

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
    varbit<320> options;
}

header udp_t {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
}

struct metadata_t { }

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        bit<8> first = packet.lookahead<bit<8>>();
        verify(first[3:0] >= 5, error.HeaderTooShort);
        packet.extract(hdr.ipv4, ((bit<32>)(first[3:0] - 5)) << 5);
        transition select(hdr.ipv4.protocol) {
            17: parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(
            hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.identification, hdr.ipv4.flags,
              hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.options },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = std.ingress_port;
        if (std.parser_error != error.NoError) {
            hdr.ethernet.src = 0xbad;
        }
        if (std.checksum_error == 1) {
            hdr.ethernet.dst = 0xbad;
        }
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        }
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(
            hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.identification, hdr.ipv4.flags,
              hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.options },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(
            hdr.udp.isValid() && hdr.udp.checksum != 0,
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, hdr.udp.length, hdr.udp.src, hdr.udp.dst,
              hdr.udp.length },
            hdr.udp.checksum, HashAlgorithm.csum16);
    }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
    }
}

V1Switch(TheParser(), Verify(), TheIngress(), TheEgress(), Update(), TheDeparser()) main;
