// The data plane of the lab: SRv6 uN micro-SID forwarding (RFC 8986, RFC 9800) with packet trimming and ECN, and plain
// IPv6 with ECMP beside it. One v1model program for every switch; what differs is in the tables.

#include <core.p4>
#include <v1model.p4>

#include "headers.p4"
#include "classes.p4"
#include "parser.p4"
#include "ingress.p4"
#include "egress.p4"

V1Switch(MrcParser(), MrcVerifyChecksum(), MrcIngress(), MrcEgress(), MrcComputeChecksum(), MrcDeparser()) main;
