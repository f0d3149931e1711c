// Match-action tables: every match kind, priorities, const entries, defaults, hit and miss, action_run, exit from an
// action. What matched goes back in the packet.

#include "common.p4"

header probe_t {
    bit<8>  mode;
    bit<32> a;
    bit<16> b;
    int<8>  s;
    bit<12> odd;
    bit<4>  nibble;
    bit<16> result;
    bit<8>  trail;
}

struct headers_t {
    ethernet_t ethernet;
    probe_t    probe;
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
    action note(bit<16> value) {
        hdr.probe.result = value;
    }

    action add(bit<16> value) {
        hdr.probe.result = hdr.probe.result + value;
    }

    action double_note(bit<16> value, bit<8> trail) {
        hdr.probe.result = value;
        hdr.probe.trail = trail;
    }

    action stop() {
        mark_to_drop(std);
        exit;
    }

    table exact_one {
        key = { hdr.probe.a : exact; }
        actions = { note; stop; NoAction; }
        default_action = note(0xffff);
        size = 8;
    }

    table exact_pair {
        key = { hdr.probe.a : exact; hdr.probe.odd : exact; hdr.probe.s : exact; }
        actions = { note; double_note; }
        size = 8;
    }

    table prefixes {
        key = { hdr.probe.a : lpm; }
        actions = { note; }
        default_action = note(1);
        size = 16;
    }

    table exact_and_prefix {
        key = { hdr.probe.b : exact; hdr.probe.a : lpm; }
        actions = { note; }
        size = 16;
    }

    table masks {
        key = { hdr.probe.a : ternary; hdr.probe.b : exact; hdr.probe.nibble : ternary; }
        actions = { note; add; }
        default_action = add(5);
        size = 16;
    }

    table ranges {
        key = { hdr.probe.b : range; hdr.probe.a : ternary; }
        actions = { note; }
        size = 16;
    }

    table optionals {
        key = { hdr.probe.b : optional; hdr.probe.odd : optional; }
        actions = { note; }
        size = 16;
    }

    table mixed {
        key = { hdr.probe.a : lpm; hdr.probe.b : ternary; hdr.probe.nibble : exact; }
        actions = { note; }
        size = 16;
    }

    table fixed {
        key = { hdr.probe.a : ternary; hdr.probe.b : range; }
        actions = { note; add; NoAction; }
        const default_action = note(0xdead);
        const entries = {
            (0x0a000000 &&& 0xff000000, 0 .. 99)     : note(1);
            (0x0a0b0000 &&& 0xffff0000, 50 .. 149)   : note(2);
            (_, 100 .. 200)                          : add(3);
        }
    }

    table fixed_prefixes {
        key = { hdr.probe.a : lpm; }
        actions = { note; NoAction; }
        const default_action = NoAction();
        const entries = {
            0x0a000000 &&& 0xff000000 : note(8);
            0x0a0b0000 &&& 0xffff0000 : note(16);
            0x0a0b0c0d                : note(32);
        }
    }

    table run {
        key = { hdr.probe.a : exact; }
        actions = { note; add; double_note; NoAction; }
        default_action = NoAction();
        size = 8;
    }

    table no_key {
        actions = { note; add; }
        default_action = add(9);
    }

    table valid_key {
        key = { hdr.probe.isValid() : exact; hdr.probe.mode : exact; }
        actions = { note; }
        size = 4;
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (std.parser_error != error.NoError) {
            stop();
        }
        if (hdr.probe.mode == 1) {
            exact_one.apply();
        } else if (hdr.probe.mode == 2) {
            exact_pair.apply();
        } else if (hdr.probe.mode == 3) {
            prefixes.apply();
        } else if (hdr.probe.mode == 4) {
            exact_and_prefix.apply();
        } else if (hdr.probe.mode == 5) {
            masks.apply();
        } else if (hdr.probe.mode == 6) {
            if (ranges.apply().hit) { hdr.probe.trail = 1; } else { hdr.probe.trail = 2; }
        } else if (hdr.probe.mode == 7) {
            if (!optionals.apply().hit) { hdr.probe.trail = 7; }
        } else if (hdr.probe.mode == 8) {
            mixed.apply();
        } else if (hdr.probe.mode == 9) {
            fixed.apply();
            if (fixed_prefixes.apply().miss) { hdr.probe.trail = 12; }
        } else if (hdr.probe.mode == 10) {
            switch (run.apply().action_run) {
                note: { hdr.probe.trail = 10; }
                add: { hdr.probe.trail = 20; }
                default: { hdr.probe.trail = 30; }
            }
        } else if (hdr.probe.mode == 11) {
            no_key.apply();
        } else if (hdr.probe.mode == 12) {
            valid_key.apply();
        }
        hdr.probe.nibble = hdr.probe.nibble + 1;
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
    }
}

V1Switch(TheParser(), NoChecksums(), TheIngress(), TheEgress(), NoChecksums(), TheDeparser()) main;
