// Expressions on unsigned and signed integers: the operands come in the packet, every result goes back in it.

#include "common.p4"

header operands_t {
    bit<8>  b;
    bit<7>  odd;
    bit<1>  flag;
    bit<32> x;
    bit<32> y;
    int<16> s;
    int<16> t;
    bit<8>  shift;
    bit<96> wide;
}

header results_t {
    bit<32> sum;
    bit<32> difference;
    bit<32> product;
    bit<32> saturated_sum;
    bit<32> saturated_difference;
    bit<32> negated;
    bit<32> complement;
    bit<32> ands;
    bit<32> ors;
    bit<32> xors;
    bit<32> left;
    bit<32> right;
    bit<32> quotient;
    bit<32> remainder;
    int<16> signed_sum;
    int<16> signed_difference;
    int<16> signed_product;
    int<16> signed_saturated_sum;
    int<16> signed_saturated_difference;
    int<16> signed_right;
    int<16> signed_left;
    int<16> signed_negated;
    int<32> widened;
    int<8>  narrowed;
    bit<64> joined;
    bit<12> sliced;
    bit<4>  pad;
    bit<96> wide_sum;
    bit<96> wide_shift;
    bit<96> wide_set;
    bit<8>  comparisons;
    bit<8>  signed_comparisons;
    bit<32> picked;
    bit<8>  kind;
    bit<7>  odd_sum;
    bit<1>  both;
}

enum bit<8> kind_t {
    small = 3,
    large = 200
}

struct headers_t {
    ethernet_t ethernet;
    operands_t in_;
    results_t  out_;
}

struct metadata_t { }

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.in_);
        transition accept;
    }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.parser_error != error.NoError) {
            mark_to_drop(std);
            return;
        }
        bit<32> x = hdr.in_.x;
        bit<32> y = hdr.in_.y;
        int<16> s = hdr.in_.s;
        int<16> t = hdr.in_.t;
        hdr.out_.setValid();
        hdr.out_.sum = x + y;
        hdr.out_.difference = x - y;
        hdr.out_.product = x * y;
        hdr.out_.saturated_sum = x |+| y;
        hdr.out_.saturated_difference = x |-| y;
        hdr.out_.negated = -x;
        hdr.out_.complement = ~x;
        hdr.out_.ands = x & y;
        hdr.out_.ors = x | y;
        hdr.out_.xors = x ^ y;
        hdr.out_.left = x << hdr.in_.shift;
        hdr.out_.right = x >> hdr.in_.shift;
        hdr.out_.quotient = x >> 3;
        hdr.out_.remainder = x & 7;
        hdr.out_.signed_sum = s + t;
        hdr.out_.signed_difference = s - t;
        hdr.out_.signed_product = s * t;
        hdr.out_.signed_saturated_sum = s |+| t;
        hdr.out_.signed_saturated_difference = s |-| t;
        hdr.out_.signed_right = s >> hdr.in_.shift;
        hdr.out_.signed_left = s << 3;
        hdr.out_.signed_negated = -s;
        hdr.out_.widened = (int<32>)s;
        hdr.out_.narrowed = (int<8>)s;
        hdr.out_.joined = y ++ x;
        hdr.out_.sliced = x[19:8];
        hdr.out_.pad = 0;
        hdr.out_.wide_sum = hdr.in_.wide + (bit<96>)x;
        hdr.out_.wide_shift = hdr.in_.wide << 40;
        hdr.out_.wide_set = hdr.in_.wide;
        hdr.out_.wide_set[47:16] = y;
        hdr.out_.comparisons = 0;
        hdr.out_.signed_comparisons = 0;
        if (x == y) { hdr.out_.comparisons = hdr.out_.comparisons | 1; }
        if (x != y) { hdr.out_.comparisons = hdr.out_.comparisons | 2; }
        if (x < y)  { hdr.out_.comparisons = hdr.out_.comparisons | 4; }
        if (x <= y) { hdr.out_.comparisons = hdr.out_.comparisons | 8; }
        if (x > y)  { hdr.out_.comparisons = hdr.out_.comparisons | 16; }
        if (x >= y) { hdr.out_.comparisons = hdr.out_.comparisons | 32; }
        if (x < y && !(s == t) || hdr.in_.flag == 1) { hdr.out_.comparisons[7:7] = 1; }
        if (s == t) { hdr.out_.signed_comparisons = hdr.out_.signed_comparisons | 1; }
        if (s < t)  { hdr.out_.signed_comparisons = hdr.out_.signed_comparisons | 4; }
        if (s >= t) { hdr.out_.signed_comparisons = hdr.out_.signed_comparisons | 32; }
        if (s < 0)  { hdr.out_.signed_comparisons = hdr.out_.signed_comparisons | 64; }
        hdr.out_.picked = s < t ? x : y;
        hdr.out_.kind = hdr.in_.b == kind_t.small ? (bit<8>)kind_t.large : hdr.in_.b;
        hdr.out_.odd_sum = hdr.in_.odd + hdr.in_.b[6:0];
        hdr.out_.both = hdr.in_.flag & hdr.in_.b[0:0];
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
        packet.emit(hdr.out_);
    }
}

V1Switch(TheParser(), NoChecksums(), TheIngress(), TheEgress(), NoChecksums(), TheDeparser()) main;
