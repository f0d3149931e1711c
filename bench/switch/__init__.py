"""Cost of a P4 switch: softswitch, BMv2 and the kernel's SRv6 forwarding side by side (`mrclab bench switch`)."""
