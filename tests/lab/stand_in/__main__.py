"""`python -m stand_in SOCKET`."""

import signal
import socket
import sys


def main(argv):
    server = socket.socket(socket.AF_UNIX)
    server.bind(argv[0])
    server.listen()
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
