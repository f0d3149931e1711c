// Control flow: nested and sequential branches, return and exit in both pipelines, actions with branches of their own,
// temporaries that cross from ingress to egress, booleans, log messages and assertions that hold.

#include "common.p4"

header probe_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> trace;
    bit<8> egress_trace;
}

header extra_t {
    bit<16> number;
}

struct headers_t {
    ethernet_t ethernet;
    probe_t    probe;
    extra_t    extra;
}

struct metadata_t {
    bool    seen;
    bit<4>  carried;
    bit<16> total;
    int<8>  signed_carried;
}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        meta.seen = false;
        packet.extract(hdr.ethernet);
        packet.extract(hdr.probe);
        meta.seen = hdr.probe.a > 100;
        transition select(hdr.probe.c) {
            0x80 &&& 0x80: parse_extra;
            default: accept;
        }
    }

    state parse_extra {
        packet.extract(hdr.extra);
        meta.total = hdr.extra.number + 1;
        transition accept;
    }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action branchy(bit<8> limit) {
        if (hdr.probe.a > limit) {
            hdr.probe.trace = hdr.probe.trace | 1;
            if (hdr.probe.b > limit) {
                hdr.probe.trace = hdr.probe.trace | 2;
            } else {
                hdr.probe.trace = hdr.probe.trace | 4;
            }
        } else if (hdr.probe.b == limit) {
            hdr.probe.trace = hdr.probe.trace | 8;
        }
        meta.total = meta.total + 100;
    }

    table choose {
        key = { hdr.probe.b : exact; }
        actions = { branchy; NoAction; }
        default_action = branchy(50);
        size = 4;
    }

    apply {
        std.egress_spec = std.ingress_port;
        bool early = hdr.probe.a == 1 && !meta.seen;
        log_msg("a {} seen {}", { hdr.probe.a, meta.total });
        assert(hdr.probe.a == 1 || !early);
        assume(hdr.ethernet.isValid() || std.parser_error != error.NoError);
        if (early) {
            hdr.probe.trace = 0x11;
            return;
        }
        if (hdr.probe.a == 2) {
            hdr.probe.trace = 0x22;
            exit;
        }
        if (hdr.probe.a < 50) {
            if (hdr.probe.b < 50) { meta.carried = 1; } else { meta.carried = 2; }
        } else {
            if (hdr.probe.b < 50) { meta.carried = 3; hdr.extra.setInvalid(); } else { meta.carried = 4; }
        }
        if (meta.carried == 2 || meta.carried == 3) {
            hdr.probe.c = hdr.probe.c + 1;
        }
        choose.apply();
        meta.signed_carried = (int<8>)hdr.probe.c - 5;
        if (meta.signed_carried < 0) {
            hdr.probe.trace = hdr.probe.trace | 0x40;
        }
        if (hdr.extra.isValid() && meta.seen) {
            hdr.extra.number = hdr.extra.number + meta.total;
        }
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.probe.a == 3) {
            hdr.probe.egress_trace = 0x33;
            exit;
        }
        if (hdr.probe.a == 4) {
            mark_to_drop(std);
            return;
        }
        hdr.probe.egress_trace = (bit<8>)meta.carried;
        if (meta.seen) {
            hdr.probe.egress_trace = hdr.probe.egress_trace | 0x10;
        }
        if (meta.signed_carried < 0) {
            hdr.probe.egress_trace = hdr.probe.egress_trace | 0x20;
            hdr.extra.setValid();
            hdr.extra.number = meta.total;
        }
    }
}

control NoChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.probe);
        packet.emit(hdr.extra);
    }
}

V1Switch(TheParser(), NoChecksums(), TheIngress(), TheEgress(), NoChecksums(), TheDeparser()) main;
