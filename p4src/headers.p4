// Headers of the fabric: Ethernet, IPv6 (RFC 8200) twice for SRv6's IPv6-in-IPv6, UDP, and the first
// transport header (BTH) that RoCEv2 and MRC share.

const bit<16> ETHERTYPE_IPV6       = 0x86DD;
const bit<16> ETHERTYPE_LINK_CHECK = 0x88B5; // IEEE 802 local experimental EtherType 1

const bit<8> NEXT_HEADER_UDP  = 17;
const bit<8> NEXT_HEADER_IPV6 = 41;

const bit<16> UDP_PORT_ROCE = 4791;

const bit<9> CPU_PORT = 510;

// The 32-bit uSID locator block, format F3216 (RFC 9800).
const bit<32> LOCATOR = 0xfcbbbb00;

const bit<2> ECN_NOT_ECT = 0;
const bit<2> ECN_CE      = 3;

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> _pad;
}

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> _pad;
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header ipv6_t {
    bit<4>   version;
    bit<6>   dscp;
    bit<2>   ecn;
    bit<20>  flow_label;
    bit<16>  payload_length;
    bit<8>   next_header;
    bit<8>   hop_limit;
    bit<128> src;
    bit<128> dst;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

// InfiniBand base transport header; `flags` is the byte that MRC uses for ack request, retransmission and timestamp.
header bth_t {
    bit<8>  opcode;
    bit<8>  se_m_pad_tver;
    bit<16> pkey;
    bit<8>  reserved;
    bit<24> dest_qp;
    bit<8>  flags;
    bit<24> psn;
}

struct headers_t {
    packet_out_t packet_out;
    packet_in_t  packet_in;
    ethernet_t   ethernet;
    ipv6_t       ipv6;
    ipv6_t       inner_ipv6;
    udp_t        udp;
    bth_t        bth;
}

struct metadata_t {
    bit<3>  traffic_class; // one of CLASS_*
    bit<1>  trimmable;
    bit<1>  last_hop;      // the egress port leads to a NIC
    bit<19> trim_threshold;
    bit<19> queue_depth;
    bit<1>  dropped;
    bit<128> source;       // the address of the host at the ingress port
}
