"""Command line: `softswitch [flags] [program.json]`, with the common flags of simple_switch_grpc."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from mrclab.softswitch.objects.runtime_api import RuntimeApiError
from mrclab.softswitch.p4runtime.messages.address import ServerError, default_address
from mrclab.softswitch.process.ports import PortError
from mrclab.softswitch.process.ring import ring_bytes
from mrclab.softswitch.switch import SoftSwitch

SWITCH_INTERVAL_SECONDS = 0.0005
"""Longest wait of the forwarding thread for a P4Runtime thread that holds the interpreter lock."""

GRPC_EXPERIMENTS = ("GRPC_EXPERIMENTS", "-event_engine_listener")
"""Variable that gRPC's core reads when it is imported: no event engine, which passes socket events between threads.

Without it the thread that waits for requests polls the sockets itself: half the thread switches per RPC.
"""
LARGE_BYTES = 1 << 16
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h of glibc


class UsageError(Exception):
    """A command line that cannot be carried out; the text names the problem and the remedy."""


@functools.cache  # a megabyte of small objects, which forks need not make again
def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="softswitch", description="A P4 v1model switch for BMv2 JSON.")
    add = parser.add_argument
    add("json", nargs="?", type=Path, help="p4c's BMv2 JSON; without it (or with --no-p4) a controller sets it")
    add("--device-id", type=int, default=0, metavar="N")
    add("-i", "--interface", action="append", default=[], metavar="PORT@INTERFACE", dest="interfaces")
    add("--no-p4", action="store_true", help="start without a program")
    add(
        "--grpc-server-addr",
        metavar="ADDRESS",
        help="unix:/path or host:port (default: a Unix socket that only this user may open)",
    )
    add("--no-grpc", action="store_true", help="serve no P4Runtime")
    add("--cpu-port", type=int, metavar="N")
    add("--drop-port", type=int, default=511, metavar="N")
    add("--priority-queues", type=int, default=1, metavar="N")
    add("-L", "--log-level", default="info", metavar="LEVEL")
    add("--log-console", action="store_true", help="log to standard error")
    add("--log-file", type=Path, metavar="FILE")
    add("--log-flush", action="store_true", help="accepted; log lines are always written at once")
    add("--pcap", type=Path, metavar="DIRECTORY", help="record every port's packets there")
    add("--queue-rate-pps", action="append", default=[], metavar="N[:PRIORITY]")
    add("--queue-depth", action="append", default=[], metavar="N[:PRIORITY]")
    add("--control-socket", type=Path, metavar="PATH")
    add("--realtime", action="store_true", help="forward with real-time priority, as hardware never waits for a CPU")
    add("--thrift-port", type=int, metavar="N", help="serve simple_switch_CLI's queue commands on 127.0.0.1:N")
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the command line. Target flags may follow `--`, as in simple_switch_grpc."""
    args = _parser().parse_args([word for word in argv if word != "--"])
    if args.json is None and not args.no_p4:
        args.no_p4 = True
    return args


def number_and_priority(text: str, flag: str) -> tuple[int, int | None]:
    """Return N and PRIORITY of `N[:PRIORITY]`."""
    value, _, priority = text.partition(":")
    try:
        return int(value), int(priority) if priority else None
    except ValueError as error:
        raise UsageError(f"{flag} {text}: give N or N:PRIORITY") from error


def build(args: argparse.Namespace) -> SoftSwitch:
    """Return a switch with the options of the command line."""
    if not 1 <= args.priority_queues <= 32:
        raise UsageError(f"--priority-queues {args.priority_queues}: give 1 to 32")
    switch = SoftSwitch(args.cpu_port, args.drop_port, args.priority_queues)
    for text in args.queue_rate_pps:
        value, priority = number_and_priority(text, "--queue-rate-pps")
        switch.set_queue_rate(value, None, priority)
    for text in args.queue_depth:
        value, priority = number_and_priority(text, "--queue-depth")
        switch.set_queue_depth(value, None, priority)
    for text in args.interfaces:
        port, _, interface = text.partition("@")
        if not port.isdigit() or not interface:
            raise UsageError(f"-i {text}: give PORT@INTERFACE")
        switch.add_port(int(port), interface, ring_bytes(len(args.interfaces)))
    if args.json is not None and not args.no_p4:
        try:
            config = args.json.read_bytes()
        except OSError as error:
            raise UsageError(f"{args.json}: {error.strerror}") from error
        switch.commit(switch.compile(config))
    return switch


def logging_setup(args: argparse.Namespace) -> None:
    """Set up logging as the command line says."""
    names = {"trace": "DEBUG", "debug": "DEBUG", "info": "INFO", "warn": "WARNING", "error": "ERROR", "off": "CRITICAL"}
    if args.log_level not in names:
        raise UsageError(f"--log-level {args.log_level}: give one of {', '.join(names)}")
    handler: logging.Handler = logging.NullHandler()
    if args.log_file is not None:
        handler = logging.FileHandler(args.log_file)
    elif args.log_console:
        handler = logging.StreamHandler()
    logging.basicConfig(
        level=names[args.log_level],
        handlers=[handler],
        format=f"%(asctime)s device {args.device_id} %(levelname)s %(name)s: %(message)s",
    )


def _server_module() -> ModuleType:
    """Import P4Runtime's server with a gRPC whose own threads poll the sockets, unless the variable says otherwise."""
    os.environ.setdefault(*GRPC_EXPERIMENTS)
    from mrclab.softswitch.p4runtime import server  # noqa: PLC0415 - grpc takes time and memory

    return server


def tune_malloc() -> None:
    """Have malloc return large blocks to the kernel: it would keep some 100 kB for each thread."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        for parameter in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            library.mallopt(parameter, LARGE_BYTES)


def prepare(program: str = "") -> None:
    """Import modules that a switch needs later, and compile a program (a path), before switches are forked."""
    from mrclab.softswitch.pipeline import compile_program  # noqa: PLC0415
    from mrclab.softswitch.process import control_socket, realtime  # noqa: F401, PLC0415

    _server_module().prepare()
    if program:
        compile_program(Path(program).read_bytes(), parse([]).drop_port)


def run(args: argparse.Namespace) -> None:
    """Run the switch until a signal ends it."""
    logging_setup(args)
    tune_malloc()
    switch = build(args)
    with contextlib.ExitStack() as stack:
        stack.callback(switch.close)
        if args.pcap is not None:
            from mrclab.softswitch.process.pcap import PcapRecorder  # noqa: PLC0415 - rarely used

            args.pcap.mkdir(parents=True, exist_ok=True)
            switch.record(PcapRecorder(args.pcap, switch.ports))
        if args.control_socket is not None:
            from mrclab.softswitch.process.control_socket import ControlSocket  # noqa: PLC0415 - rarely used

            stack.callback(ControlSocket(switch, args.control_socket).close)
        if args.thrift_port is not None:
            from mrclab.softswitch.process.thrift_server import ThriftServer  # noqa: PLC0415 - rarely used

            stack.callback(ThriftServer(switch, args.thrift_port).close)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: switch.stop())
        if args.realtime:
            from mrclab.softswitch.process.realtime import set_realtime_priority  # noqa: PLC0415 - only with the option

            set_realtime_priority()
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        if not args.no_grpc:
            address = args.grpc_server_addr or default_address(args.device_id)
            stack.callback(_server_module().P4RuntimeServer(switch, address, args.device_id).stop)
        gc.collect()
        gc.freeze()  # exclude all present objects from garbage collection
        switch.loop()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    args = parse(sys.argv[1:] if argv is None else argv)
    try:
        run(args)
    except (UsageError, RuntimeApiError, PortError, ServerError) as error:
        sys.stderr.write(f"softswitch: {error}\n")
        return 1
    except OSError as error:  # of --pcap or --log-file
        sys.stderr.write(f"softswitch: {error.filename}: {error.strerror}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
