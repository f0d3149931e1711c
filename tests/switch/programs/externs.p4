// Counters, meters, registers and random numbers, direct and by index.

#include "common.p4"

header probe_t {
    bit<8>  mode;
    bit<32> index;
    bit<48> value;
    bit<8>  colour;
}

struct headers_t {
    ethernet_t ethernet;
    probe_t    probe;
}

struct metadata_t {
    bit<8> colour;
}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.probe);
        transition accept;
    }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(8, CounterType.packets_and_bytes) counted;
    meter(4, MeterType.packets) packet_meter;
    meter(4, MeterType.bytes) byte_meter;
    register<bit<48>>(8) cells;
    register<int<16>>(4) signed_cells;
    direct_counter(CounterType.packets_and_bytes) direct_counted;
    direct_meter<bit<8>>(MeterType.packets) direct_metered;

    action count_direct() {
        direct_counted.count();
    }

    action colour_direct(bit<8> extra) {
        direct_metered.read(meta.colour);
        hdr.probe.index = hdr.probe.index + (bit<32>)extra;
    }

    table with_counter {
        key = { hdr.probe.index : exact; }
        actions = { count_direct; NoAction; }
        default_action = NoAction();
        counters = direct_counted;
        size = 16;
    }

    table with_meter {
        key = { hdr.probe.index : exact; }
        actions = { colour_direct; NoAction; }
        default_action = NoAction();
        meters = direct_metered;
        size = 16;
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.probe.mode == 1) {
            counted.count(hdr.probe.index);
        } else if (hdr.probe.mode == 2) {
            packet_meter.execute_meter(hdr.probe.index, hdr.probe.colour);
        } else if (hdr.probe.mode == 3) {
            byte_meter.execute_meter(hdr.probe.index, hdr.probe.colour);
        } else if (hdr.probe.mode == 4) {
            cells.write(hdr.probe.index, hdr.probe.value);
        } else if (hdr.probe.mode == 5) {
            cells.read(hdr.probe.value, hdr.probe.index);
        } else if (hdr.probe.mode == 6) {
            bit<48> old;
            @atomic {
                cells.read(old, hdr.probe.index);
                cells.write(hdr.probe.index, old + hdr.probe.value);
            }
            hdr.probe.value = old;
        } else if (hdr.probe.mode == 7) {
            with_counter.apply();
        } else if (hdr.probe.mode == 8) {
            meta.colour = 9;
            with_meter.apply();
            hdr.probe.colour = meta.colour;
        } else if (hdr.probe.mode == 9) {
            bit<8> drawn;
            random(drawn, 10, 20);
            hdr.probe.colour = drawn >= 10 && drawn <= 20 ? (bit<8>)1 : 0;
        } else if (hdr.probe.mode == 10) {
            int<16> old;
            signed_cells.read(old, 1);
            old = old - 3;
            signed_cells.write(1, old);
            hdr.probe.value = 0;
            hdr.probe.value[15:0] = (bit<16>)old;
            if (old < -5) { hdr.probe.colour = 77; }
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
    }
}

V1Switch(TheParser(), NoChecksums(), TheIngress(), TheEgress(), NoChecksums(), TheDeparser()) main;
