// Lesson 2: the uN shift. hdr.ipv6.dst is bit<128>: x[high:low] is a slice, x ++ y joins, 16w0 is a zero of 16 bits.
action shift_usid() {
    hdr.ipv6.dst = hdr.ipv6.dst[127:96] ++ hdr.ipv6.dst[79:0] ++ 16w0;
}
