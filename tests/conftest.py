"""What holds for every test."""

import signal

# Started in the background by a shell, pytest ignores SIGINT, and so would every process whose Ctrl-C is tested.
signal.signal(signal.SIGINT, signal.default_int_handler)
