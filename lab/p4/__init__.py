"""The lab's P4 program in this process, one packet at a time: for lessons, and for pages that show them."""
