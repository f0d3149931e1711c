// Copies and second rounds: clones at ingress and egress with preserved metadata, multicast, resubmit, recirculate,
// truncation. Every packet that leaves carries a report of what it was.

#include "common.p4"

header command_t {
    bit<8>  what;
    bit<8>  argument;
    bit<16> number;
}

header report_t {
    bit<8>  instance;
    bit<8>  rounds;
    bit<16> kept;
    bit<16> lost;
    bit<16> rid;
    bit<32> length;
    bit<16> ingress_port;
    bit<16> egress_port;
}

struct headers_t {
    ethernet_t ethernet;
    report_t   report;
    command_t  command;
}

struct metadata_t {
    @field_list(1)
    bit<16> kept;
    @field_list(1, 2)
    bit<8>  rounds;
    bit<16> lost;
}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x9999: parse_report;
            default: parse_command;
        }
    }

    state parse_report {
        packet.extract(hdr.report);
        transition parse_command;
    }

    state parse_command {
        packet.extract(hdr.command);
        transition accept;
    }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        if (std.parser_error != error.NoError) {
            mark_to_drop(std);
            return;
        }
        meta.lost = 0x1057;
        meta.kept = meta.kept + hdr.command.number;
        meta.rounds = meta.rounds + 1;
        if (hdr.command.what == 1) {
            clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.command.argument, 1);
            hdr.command.number = 0xaaaa;
        } else if (hdr.command.what == 2) {
            clone(CloneType.I2E, (bit<32>)hdr.command.argument);
            mark_to_drop(std);
        } else if (hdr.command.what == 3) {
            std.mcast_grp = (bit<16>)hdr.command.argument;
        } else if (hdr.command.what == 4) {
            if (meta.rounds < hdr.command.argument) {
                resubmit_preserving_field_list(1);
                hdr.command.number = 0xbbbb;
            }
        } else if (hdr.command.what == 5) {
            truncate((bit<32>)hdr.command.argument);
        } else if (hdr.command.what == 6) {
            mark_to_drop(std);
            std.mcast_grp = (bit<16>)hdr.command.argument;
        } else if (hdr.command.what == 7) {
            truncate(40);
            truncate((bit<32>)hdr.command.argument);
            std.mcast_grp = 1;
        } else if (hdr.command.what == 12) {
            std.egress_spec = 3;
            std.priority = 1;
        } else if (hdr.command.what == 13) {
            std.egress_spec = 77;
        }
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        bool first = std.instance_type == 0 || std.instance_type == 5;
        if (hdr.command.what == 8 && first) {
            meta.kept = 0x8888;
            clone_preserving_field_list(CloneType.E2E, (bit<32>)hdr.command.argument, 1);
            hdr.command.number = 0xcccc;
        } else if (hdr.command.what == 9 && first) {
            clone(CloneType.E2E, (bit<32>)hdr.command.argument);
            mark_to_drop(std);
        } else if (hdr.command.what == 10 && meta.rounds < hdr.command.argument) {
            recirculate_preserving_field_list(2);
        } else if (hdr.command.what == 11) {
            truncate((bit<32>)hdr.command.argument);
        } else if (hdr.command.what == 3 && std.egress_port == 1) {
            mark_to_drop(std);
        }
        if (!hdr.report.isValid()) {
            hdr.report.setValid();
            hdr.ethernet.ether_type = 0x9999;
        }
        hdr.report.instance = (bit<8>)std.instance_type;
        hdr.report.rounds = meta.rounds;
        hdr.report.kept = meta.kept;
        hdr.report.lost = meta.lost;
        hdr.report.rid = std.egress_rid;
        hdr.report.length = std.packet_length;
        hdr.report.ingress_port = (bit<16>)std.ingress_port;
        hdr.report.egress_port = (bit<16>)std.egress_port;
    }
}

control NoChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.report);
        packet.emit(hdr.command);
    }
}

V1Switch(TheParser(), NoChecksums(), TheIngress(), TheEgress(), NoChecksums(), TheDeparser()) main;
