// Ingress: uN processing and static forwarding, then the trim decision for the chosen egress port.

// Depth of each port's data queue in packets as last seen at a dequeue: egress writes it, ingress of the next packet
// reads it.
register<bit<19>>(512) queue_depths;

control MrcIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(16, CounterType.packets_and_bytes) drops;   // by drop reason
    counter(512, CounterType.packets_and_bytes) rx;     // by ingress port
    counter(512, CounterType.packets) trims;            // by egress port

    action drop(bit<32> reason) {
        drops.count(reason);
        mark_to_drop(std);
        meta.dropped = 1;
    }

    action forward(bit<9> port, bit<48> src_mac, bit<48> dst_mac) {
        std.egress_spec = port;
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
    }

    action expect_source(bit<128> address) {
        meta.source = address;
    }

    // Source address validation: ports with a host behind them, and its address. A host may send in its own name only,
    // outside and inside. Ports without an entry lead to switches, which have done it.
    table sources {
        key = { std.ingress_port : exact; }
        actions = { expect_source; } // the only one, so that no switch has to look which it is
        const default_action = expect_source(0);
        size = 512;
    }

    // End with the NEXT-C-SID flavour (RFC 9800): this switch's uSID leaves, the next one moves up.
    action shift_usid() {
        hdr.ipv6.dst = hdr.ipv6.dst[127:96] ++ hdr.ipv6.dst[79:0] ++ 16w0;
    }

    table my_usid {
        key = { hdr.ipv6.dst[127:80] : exact @name("locator_usid"); }
        actions = { shift_usid; NoAction; }
        default_action = NoAction();
        size = 16;
    }

    table usid_fib {
        key = { hdr.ipv6.dst[127:80] : exact @name("locator_usid"); }
        actions = { forward; drop; }
        default_action = drop(DROP_USID_MISS);
        size = 1024;
    }

    @name("ecmp") action_selector(HashAlgorithm.crc16, 1024, 16) ecmp;

    table ipv6_fib {
        key = {
            hdr.ipv6.dst         : lpm;
            hdr.ipv6.src         : selector;
            hdr.ipv6.dst         : selector;
            hdr.ipv6.flow_label  : selector;
            hdr.ipv6.next_header : selector;
            hdr.udp.src_port     : selector;
            hdr.udp.dst_port     : selector;
        }
        actions = { forward; drop; }
        implementation = ecmp;
        size = 1024;
    }

    action set_class(bit<3> traffic_class, bit<3> queue, bit<1> trimmable) {
        meta.traffic_class = traffic_class;
        meta.trimmable = trimmable;
        std.priority = queue;
    }

    table classes {
        key = { hdr.ipv6.dscp : exact; }
        actions = { set_class; }
        const default_action = set_class(CLASS_OTHER, QUEUE_DATA, 0);
        const entries = {
            DSCP_NO_TRIM         : set_class(CLASS_NO_TRIM, QUEUE_DATA, 0);
            DSCP_TRIMMABLE       : set_class(CLASS_TRIMMABLE, QUEUE_DATA, 1);
            DSCP_TRIMMABLE_RETX  : set_class(CLASS_TRIMMABLE_RETX, QUEUE_DATA, 1);
            DSCP_TRIMMED         : set_class(CLASS_TRIMMED, QUEUE_CONTROL, 0);
            DSCP_TRIMMED_LASTHOP : set_class(CLASS_TRIMMED_LASTHOP, QUEUE_CONTROL, 0);
            DSCP_CONTROL         : set_class(CLASS_CONTROL, QUEUE_CONTROL, 0);
        }
    }

    action set_trim(bit<19> threshold, bit<1> last_hop) {
        meta.trim_threshold = threshold;
        meta.last_hop = last_hop;
    }

    // Each packet meets a threshold drawn anew, up to a quarter above or below the configured one: with a fixed one,
    // flows of equal packets at equal rates lock in phase with the queue, and some lose what others never do. (NDP
    // breaks the same lock by trimming the arriving packet or the last one of the queue, at random.)
    bit<19> dither = 0;

    // Ports without an entry never trim.
    table trim_policy {
        key = { std.egress_spec : exact; }
        actions = { set_trim; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    // Lengths stay as sent: the receiver recognises a trimmed packet by its DSCP.
    action trim() {
        bit<6> dscp = meta.last_hop == 1 ? DSCP_TRIMMED_LASTHOP : DSCP_TRIMMED;
        hdr.ipv6.dscp = dscp;
        hdr.inner_ipv6.dscp = dscp;
        meta.traffic_class = meta.last_hop == 1 ? CLASS_TRIMMED_LASTHOP : CLASS_TRIMMED;
        std.priority = QUEUE_CONTROL;
        trims.count((bit<32>)std.egress_spec);
        truncate(TRIM_BYTES);
    }

    action send_by_controller() {
        std.egress_spec = hdr.packet_out.egress_port;
        std.priority = QUEUE_CONTROL;
        meta.traffic_class = CLASS_CPU;
        hdr.packet_out.setInvalid();
    }

    action send_to_controller() {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = std.ingress_port;
        hdr.packet_in._pad = 0;
        std.egress_spec = CPU_PORT;
        std.priority = QUEUE_CONTROL;
        meta.traffic_class = CLASS_CPU;
    }

    apply {
        rx.count((bit<32>)std.ingress_port);
        if (std.parser_error != error.NoError) {
            drop(DROP_MALFORMED);
        } else if (hdr.packet_out.isValid()) {
            send_by_controller();
        } else if (hdr.ethernet.ether_type == ETHERTYPE_LINK_CHECK) {
            send_to_controller();
        } else if (!hdr.ipv6.isValid()) {
            drop(DROP_FOREIGN);
        } else if (hdr.ipv6.hop_limit <= 1) {
            drop(DROP_HOP_LIMIT);
        } else {
            if (sources.apply().hit) {
                if (hdr.ipv6.src != meta.source || (hdr.inner_ipv6.isValid() && hdr.inner_ipv6.src != hdr.ipv6.src)) {
                    drop(DROP_WRONG_SOURCE);
                    exit;
                }
            }
            if (my_usid.apply().hit) {
                usid_fib.apply();
            } else if (hdr.ipv6.dst[127:96] == LOCATOR) {
                drop(DROP_UNKNOWN_USID);
            } else if (!ipv6_fib.apply().hit) {
                drop(DROP_IPV6_MISS);
            }
            if (meta.dropped == 0) {
                classes.apply();
                if (meta.trimmable == 1 && hdr.inner_ipv6.isValid() && hdr.bth.isValid()) {
                    if (trim_policy.apply().hit) {
                        queue_depths.read(meta.queue_depth, (bit<32>)std.egress_spec);
                        meta.queue_depth = meta.queue_depth + (meta.trim_threshold >> 2);
                        if (meta.queue_depth >= meta.trim_threshold) {
                            random(dither, 0, meta.trim_threshold >> 1);
                            if (meta.queue_depth >= meta.trim_threshold + dither) {
                                trim();
                            }
                        }
                    }
                }
            }
        }
    }
}
