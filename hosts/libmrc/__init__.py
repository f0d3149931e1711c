"""lib_mrc.so, the MRC interface that OCP published on this lab's hosts (C), and the same in Python (`mrc`)."""
