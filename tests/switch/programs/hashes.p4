// All hash algorithms of v1model over the same fields, and action selectors that pick members by them.

#include "common.p4"

header probe_t {
    bit<8>  mode;
    bit<32> a;
    bit<20> b;
    bit<12> c;
    bit<64> d;
}

header results_t {
    bit<16> crc16_;
    bit<32> crc32_;
    bit<16> csum16_;
    bit<16> xor16_;
    bit<64> identity_;
    bit<16> crc16_custom_;
    bit<32> crc32_custom_;
    bit<32> ranged;
    bit<16> odd_input;
}

header picked_t {
    bit<8> member;
}

struct headers_t {
    ethernet_t ethernet;
    probe_t    probe;
    results_t  results;
    picked_t   picked;
}

struct metadata_t { }

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.probe);
        transition accept;
    }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action pick(bit<8> member) {
        hdr.picked.setValid();
        hdr.picked.member = member;
    }

    action_selector(HashAlgorithm.crc16, 64, 16) selector16;
    action_selector(HashAlgorithm.crc32, 64, 16) selector32;
    action_selector(HashAlgorithm.identity, 64, 16) selector_identity;
    action_profile(16) profile;

    table by_crc16 {
        key = {
            hdr.probe.mode : exact;
            hdr.probe.a : selector;
            hdr.probe.b : selector;
            hdr.picked.member : selector;
        }
        actions = { pick; NoAction; }
        implementation = selector16;
        size = 8;
    }

    table by_crc32 {
        key = { hdr.probe.mode : exact; hdr.probe.a : selector; hdr.probe.d : selector; }
        actions = { pick; NoAction; }
        implementation = selector32;
        size = 8;
    }

    table by_identity {
        key = { hdr.probe.mode : exact; hdr.probe.a : selector; }
        actions = { pick; NoAction; }
        implementation = selector_identity;
        size = 8;
    }

    table by_profile {
        key = { hdr.probe.a : exact; }
        actions = { pick; NoAction; }
        implementation = profile;
        size = 8;
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.probe.mode == 0) {
            hdr.results.setValid();
            bit<64> top64 = 0xffffffffffffffff;
            hash(hdr.results.crc16_, HashAlgorithm.crc16, 16w0, { hdr.probe.a, hdr.probe.b, hdr.probe.c }, 17w0x10000);
            hash(hdr.results.crc32_, HashAlgorithm.crc32, 32w0, { hdr.probe.a, hdr.probe.b, hdr.probe.c, hdr.probe.d },
                 33w0x100000000);
            hash(hdr.results.csum16_, HashAlgorithm.csum16, 16w0, { hdr.probe.a, hdr.probe.d }, 17w0x10000);
            hash(hdr.results.xor16_, HashAlgorithm.xor16, 16w0, { hdr.probe.a, hdr.probe.d }, 17w0x10000);
            hash(hdr.results.identity_, HashAlgorithm.identity, 64w0, { hdr.probe.d }, top64);
            hash(hdr.results.crc16_custom_, HashAlgorithm.crc16_custom, 16w0, { hdr.probe.a }, 17w0x10000);
            hash(hdr.results.crc32_custom_, HashAlgorithm.crc32_custom, 32w0, { hdr.probe.a }, 33w0x100000000);
            hash(hdr.results.ranged, HashAlgorithm.crc32, 32w100, { hdr.probe.a, hdr.probe.d }, 32w37);
            hash(hdr.results.odd_input, HashAlgorithm.crc16, 16w0, { hdr.probe.b, 3w5 }, 17w0x10000);
        } else if (hdr.probe.mode == 1) {
            by_crc16.apply();
        } else if (hdr.probe.mode == 2) {
            by_crc32.apply();
        } else if (hdr.probe.mode == 3) {
            by_identity.apply();
        } else if (hdr.probe.mode == 4) {
            if (by_profile.apply().miss) { pick(99); }
        }
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control NoChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.probe);
        packet.emit(hdr.results);
        packet.emit(hdr.picked);
    }
}

V1Switch(TheParser(), NoChecksums(), TheIngress(), TheEgress(), NoChecksums(), TheDeparser()) main;
