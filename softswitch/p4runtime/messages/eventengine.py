"""Choice of gRPC's core for a switch: no event engine, which passes socket events between threads.

Without it the thread that waits for requests polls the sockets itself: half the thread switches per RPC.
"""

import os

EXPERIMENTS = ("GRPC_EXPERIMENTS", "-event_engine_listener")
"""Variable that gRPC's core reads when it is imported. A value that is already set stays."""


def leave_out() -> None:
    """Have a server's own threads poll its sockets; called before grpc is imported."""
    os.environ.setdefault(*EXPERIMENTS)
