// DSCP code points, the traffic classes counted per port, queue priorities and drop reasons.
// The controller and the hosts use the same DSCP values; drop reasons are the indices of the counter `drops`.

const bit<6> DSCP_NO_TRIM         = 0;
const bit<6> DSCP_TRIMMABLE       = 4;
const bit<6> DSCP_TRIMMABLE_RETX  = 8;
const bit<6> DSCP_TRIMMED         = 12;
const bit<6> DSCP_TRIMMED_LASTHOP = 16;
const bit<6> DSCP_CONTROL         = 46;

const bit<3> CLASS_NO_TRIM         = 0;
const bit<3> CLASS_TRIMMABLE       = 1;
const bit<3> CLASS_TRIMMABLE_RETX  = 2;
const bit<3> CLASS_TRIMMED         = 3;
const bit<3> CLASS_TRIMMED_LASTHOP = 4;
const bit<3> CLASS_CONTROL         = 5;
const bit<3> CLASS_OTHER           = 6;
const bit<3> CLASS_CPU             = 7;

const bit<3> QUEUE_DATA    = 0;
const bit<3> QUEUE_CONTROL = 7;

const bit<32> DROP_MALFORMED    = 1; // too short, or no IPv6 inside an IPv6 EtherType
const bit<32> DROP_FOREIGN      = 2; // an EtherType the fabric does not carry
const bit<32> DROP_HOP_LIMIT    = 3;
const bit<32> DROP_UNKNOWN_USID = 4; // inside the locator, but the leading uSID is not this switch
const bit<32> DROP_USID_MISS    = 5; // shifted, and the next uSID has no route
const bit<32> DROP_IPV6_MISS    = 6; // plain IPv6 without a route
const bit<32> DROP_WRONG_SOURCE = 7; // from a host, and its outer or inner source is not that host's address

// What a trimmed packet keeps: Ethernet 14, IPv6 40 + 40, UDP 8, BTH 12, METH 4, TSETH 4, RETH 16, rounded up to 4.
const bit<32> TRIM_BYTES = 140;
