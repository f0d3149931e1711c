// Egress: ECN marking by queue depth at dequeue, and what is counted per port, class and entropy value.

control MrcEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(4096, CounterType.packets_and_bytes) tx;    // by egress port × 8 + traffic class
    counter(512, CounterType.packets) ecn_marks;        // by egress port
    direct_counter(CounterType.packets_and_bytes) ev_packets;

    bit<19> above = 0;
    bit<19> draw = 0;

    // Marking probability rises linearly from 0 at `min_depth` packets to 1 at `min_depth + last + 1`.
    action mark_between(bit<19> min_depth, bit<19> last) {
        above = std.deq_qdepth |-| min_depth;
        random(draw, 0, last);
    }

    // Ports without an entry never mark: last-hop ports have none.
    table ecn_policy {
        key = { std.egress_port : exact; }
        actions = { mark_between; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    action count_ev() {
        ev_packets.count();
    }

    // The entropy value as carried in the inner flow label and UDP source port; entries only where somebody asks.
    table ev_watch {
        key = {
            hdr.inner_ipv6.flow_label : exact;
            hdr.udp.src_port          : exact;
        }
        actions = { count_ev; NoAction; }
        default_action = NoAction();
        counters = ev_packets;
        size = 1024;
    }

    action mark_ce() {
        hdr.ipv6.ecn = ECN_CE;
        ecn_marks.count((bit<32>)std.egress_port);
    }

    apply {
        if (std.priority == QUEUE_DATA) { // control packets see their own queue, which says nothing about the data's
            queue_depths.write((bit<32>)std.egress_port, std.deq_qdepth);
        }
        tx.count((bit<32>)(std.egress_port ++ meta.traffic_class));
        if (hdr.ipv6.isValid() && hdr.ipv6.ecn != ECN_NOT_ECT && std.priority == QUEUE_DATA) {
            if (ecn_policy.apply().hit) {
                if (above > draw) {
                    mark_ce();
                    if (hdr.inner_ipv6.isValid()) {
                        hdr.inner_ipv6.ecn = ECN_CE;
                    }
                }
            }
        }
        if (hdr.inner_ipv6.isValid() && hdr.udp.isValid()) {
            ev_watch.apply();
        }
    }
}
