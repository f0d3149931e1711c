"""The MRC transport of one host, without I/O: packets and the time go in, packets, events and the next deadline come
out."""
