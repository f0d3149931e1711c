"""MRC on the wire: headers, packets, and the control packets that wait to be sent."""
