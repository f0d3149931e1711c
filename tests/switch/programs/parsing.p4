// Parser features: select on masks, ranges, tuples and a value set, lookahead, advance, verify, user errors, a header
// stack filled in a loop. What the parser found goes back in a report in front of the packet's rest.

#include "common.p4"

error {
    TooManyLabels,
    BadVersion
}

header label_t {
    bit<20> label;
    bit<3>  tc;
    bit<1>  bottom;
    bit<8>  ttl;
}

header kind_t {
    bit<8> kind;
    bit<8> length;
}

header report_t {
    bit<32> parser_error;
    bit<8>  way;
    bit<8>  labels;
    bit<16> ahead;
    bit<20> last_label;
    bit<4>  pad;
}

header version_t {
    bit<4>  version;
    bit<12> rest;
}

struct headers_t {
    ethernet_t ethernet;
    report_t   report;
    label_t[4] labels;
    kind_t     kind;
    version_t  version;
}

struct metadata_t {
    bit<8>  way;
    bit<16> ahead;
    bit<8>  skip;
    bit<20> last_label;
}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    value_set<bit<16>>(4) known_types;

    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x8847:             parse_label;
            0x1000 &&& 0xfff0:  parse_masked;
            0x2000 .. 0x2fff:   parse_ranged;
            0x3001:             parse_kind;
            0x3002:             parse_version;
            0x3003:             parse_pair;
            known_types:        parse_known;
            default:            accept;
        }
    }

    state parse_label {
        packet.extract(hdr.labels.next);
        verify(hdr.labels.last.ttl != 0, error.TooManyLabels);
        meta.last_label = hdr.labels.last.label;
        transition select(hdr.labels.last.bottom) {
            0: parse_label;
            1: parse_below;
        }
    }

    state parse_below {
        meta.way = 1;
        meta.ahead = packet.lookahead<bit<16>>();
        transition select(packet.lookahead<bit<4>>()) {
            4: parse_version;
            6: parse_version;
            default: accept;
        }
    }

    state parse_masked {
        meta.way = 2;
        transition accept;
    }

    state parse_ranged {
        meta.way = 3;
        transition accept;
    }

    state parse_kind {
        meta.way = 4;
        packet.extract(hdr.kind);
        packet.advance(((bit<32>)hdr.kind.length) << 3);
        transition select(hdr.kind.kind) {
            1: parse_version;
            default: accept;
        }
    }

    state parse_version {
        packet.extract(hdr.version);
        verify(hdr.version.version == 4, error.BadVersion);
        transition accept;
    }

    state parse_pair {
        packet.extract(hdr.kind);
        transition select(hdr.kind.kind, hdr.kind.length) {
            (1, 2):                 parse_pair_exact;
            (3 &&& 0x0f, _):        parse_pair_masked;
            (_, 9):                 parse_pair_second;
            (5 .. 7, 100 .. 200):   parse_pair_ranged;
        }
    }

    state parse_pair_exact  { meta.way = 10; transition accept; }
    state parse_pair_masked { meta.way = 11; transition accept; }
    state parse_pair_second { meta.way = 12; transition accept; }
    state parse_pair_ranged { meta.way = 13; transition accept; }

    state parse_known {
        meta.way = 5;
        transition accept;
    }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.report.setValid();
        hdr.report.parser_error = 0;
        if (std.parser_error == error.NoError)          { hdr.report.parser_error = 1; }
        if (std.parser_error == error.PacketTooShort)   { hdr.report.parser_error = 2; }
        if (std.parser_error == error.NoMatch)          { hdr.report.parser_error = 3; }
        if (std.parser_error == error.StackOutOfBounds) { hdr.report.parser_error = 4; }
        if (std.parser_error == error.TooManyLabels)    { hdr.report.parser_error = 5; }
        if (std.parser_error == error.BadVersion)       { hdr.report.parser_error = 6; }
        hdr.report.way = meta.way;
        hdr.report.ahead = meta.ahead;
        hdr.report.last_label = meta.last_label;
        hdr.report.pad = 0;
        hdr.report.labels = 0;
        if (hdr.labels[0].isValid()) { hdr.report.labels = hdr.report.labels + 1; }
        if (hdr.labels[1].isValid()) { hdr.report.labels = hdr.report.labels + 16; }
        if (hdr.labels[3].isValid()) { hdr.report.labels = hdr.report.labels + 64; }
        std.egress_spec = std.ingress_port;
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
        packet.emit(hdr.report);
        packet.emit(hdr.labels);
        packet.emit(hdr.kind);
        packet.emit(hdr.version);
    }
}

V1Switch(TheParser(), NoChecksums(), TheIngress(), TheEgress(), NoChecksums(), TheDeparser()) main;
