// What all programs here share: Ethernet, nothing to verify or update, and a packet that goes back where it came from.

#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}
