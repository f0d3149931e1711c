// Operations on headers: assignment, validity, comparison, varbit, unions, stacks with push, pop and computed indices.
// The first byte behind Ethernet says what to do.

#include "common.p4"

header command_t {
    bit<8> what;
    bit<8> index;
    bit<8> value;
}

header pair_t {
    bit<8>  tag;
    bit<24> number;
}

header options_t {
    bit<8>        length;
    varbit<256>   data;
    bit<8>        after;
}

header short_t {
    bit<8> kind;
    bit<8> value;
}

header long_t {
    bit<8>  kind;
    bit<24> value;
}

header_union either_t {
    short_t small;
    long_t  large;
}

struct headers_t {
    ethernet_t ethernet;
    command_t  command;
    pair_t     first;
    pair_t     second;
    options_t  options;
    options_t  copy;
    either_t   either;
    pair_t[3]  stack;
}

struct metadata_t {
    bit<8> left;
}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.command);
        transition select(hdr.command.what) {
            1 .. 9:   parse_pairs;
            10 .. 14: parse_options;
            20 .. 24: parse_union;
            30 .. 39: parse_stack;
            default: accept;
        }
    }

    state parse_pairs {
        packet.extract(hdr.first);
        packet.extract(hdr.second);
        transition accept;
    }

    state parse_options {
        packet.extract(hdr.options, (bit<32>)(packet.lookahead<bit<8>>() << 3));
        transition accept;
    }

    state parse_union {
        transition select(packet.lookahead<bit<8>>()) {
            1: parse_small;
            2: parse_large;
            default: accept;
        }
    }

    state parse_small {
        packet.extract(hdr.either.small);
        transition accept;
    }

    state parse_large {
        packet.extract(hdr.either.large);
        transition accept;
    }

    state parse_stack {
        meta.left = hdr.command.index & 3;
        transition select(hdr.command.index & 3) {
            0: accept;
            default: parse_element;
        }
    }

    state parse_element {
        packet.extract(hdr.stack.next);
        meta.left = meta.left - 1;
        transition select(meta.left) {
            0: accept;
            default: parse_element;
        }
    }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.command.what == 1) {
            hdr.first = hdr.second;
        } else if (hdr.command.what == 2) {
            hdr.first.setInvalid();
            hdr.second = hdr.first;
        } else if (hdr.command.what == 3) {
            hdr.second.setInvalid();
            hdr.second.setValid();
            hdr.second.tag = hdr.command.value;
        } else if (hdr.command.what == 4) {
            if (hdr.first == hdr.second) { hdr.command.value = 1; } else { hdr.command.value = 2; }
        } else if (hdr.command.what == 5) {
            pair_t keep = hdr.first;
            hdr.first = hdr.second;
            hdr.second = keep;
        } else if (hdr.command.what == 6) {
            hdr.first.setInvalid();
            hdr.second.number = hdr.second.number + (bit<24>)hdr.command.value;
        } else if (hdr.command.what == 10) {
            hdr.copy = hdr.options;
            hdr.options.setInvalid();
        } else if (hdr.command.what == 11) {
            hdr.copy = hdr.options;
            hdr.copy.length = hdr.copy.length + 1;
        } else if (hdr.command.what == 12) {
            hdr.options.after = hdr.command.value;
        } else if (hdr.command.what == 20) {
            if (hdr.either.small.isValid()) {
                bit<8> kept = hdr.either.small.value;
                hdr.either.large.setValid();
                hdr.either.large.kind = 7;
                hdr.either.large.value = (bit<24>)kept;
            }
        } else if (hdr.command.what == 21) {
            if (hdr.either.large.isValid()) { hdr.either.large.setInvalid(); }
        } else if (hdr.command.what == 22) {
            if (hdr.either.isValid()) { hdr.command.value = 1; } else { hdr.command.value = 2; }
        } else if (hdr.command.what == 30) {
            hdr.stack.push_front(1);
        } else if (hdr.command.what == 31) {
            hdr.stack.pop_front(1);
        } else if (hdr.command.what == 32) {
            hdr.stack.push_front(2);
            hdr.stack[0].setValid();
            hdr.stack[0].tag = hdr.command.value;
        } else if (hdr.command.what == 33) {
            hdr.stack[hdr.command.value & 1].number = 0x123456;
        } else if (hdr.command.what == 34) {
            hdr.command.value = hdr.stack[hdr.command.value & 1].tag;
        } else if (hdr.command.what == 35) {
            hdr.stack[1] = hdr.stack[0];
        } else if (hdr.command.what == 36) {
            hdr.stack.pop_front(2);
            hdr.stack[2].setValid();
        } else if (hdr.command.what == 40) {
            mark_to_drop(std);
            exit;
        } else if (hdr.command.what == 41) {
            return;
        }
        hdr.command.index = hdr.command.index | 0x80;
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
        packet.emit(hdr.command);
        packet.emit(hdr.first);
        packet.emit(hdr.second);
        packet.emit(hdr.options);
        packet.emit(hdr.copy);
        packet.emit(hdr.either);
        packet.emit(hdr.stack);
    }
}

V1Switch(TheParser(), NoChecksums(), TheIngress(), TheEgress(), NoChecksums(), TheDeparser()) main;
