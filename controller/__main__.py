"""`python -m mrclab.controller --run-dir DIR`: run the controller of one lab until SIGTERM or SIGINT."""

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from mrclab import HOME
from mrclab.controller.errors import ControllerError
from mrclab.controller.health.policy import POLICIES
from mrclab.controller.history import ControllerHistory
from mrclab.controller.metrics.server import MetricsServer
from mrclab.controller.operations import by_name
from mrclab.controller.p4runtime.session import SwitchSession
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.controller.wire.agents import AsyncClient
from mrclab.controller.wire.app import Controller
from mrclab.events.controller import ControllerDown, ControllerUp
from mrclab.rpc.aserver import AsyncServer
from mrclab.rpc.errors import RpcError
from mrclab.topo import fabricfile
from mrclab.topo.config import transport
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.errors import TopoError
from mrclab.topo.model import Fabric
from mrclab.topo.process.realtime import CONTROL_PLANE, use_realtime
from mrclab.topo.spec import SpecError

BUILD = HOME / "p4src" / "build"
ELECTION_ID = 100  # lower ids are left for clients that attach as backup


class _TaskName(logging.Filter):
    """Puts the name of the running task, which is the switch's, into each log line."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        record.task = task.get_name() if task else "-"
        return True


def _between(least: float, most: float, kind: type[int] | type[float] = float) -> Callable[[str], float]:
    """Return the reader of an option that is a number within bounds."""

    def read(text: str) -> float:
        with contextlib.suppress(ValueError):
            if least <= (number := kind(text)) <= most:
                return number
        what = "a whole number" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"invalid value {text!r}: expected {what} from {least} to {most}")

    return read


_SECONDS = _between(0, 86400)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line; argparse exits with a sentence where it is wrong."""
    parser = argparse.ArgumentParser(
        prog="controller", description="Provision, verify and watch the fabric's switches."
    )
    parser.add_argument("--run-dir", type=Path, required=True, help="sockets, node configs and history are in here")
    parser.add_argument("--fabric", type=Path, help="fabric description in YAML (default: RUN_DIR/fabric.yaml)")
    parser.add_argument(
        "--transport", type=Path, help=f"hosts' transport, JSON (default: RUN_DIR/{transport.FILE_NAME})"
    )
    parser.add_argument("--p4info", type=Path, default=BUILD / "mrc.p4info.txtpb", help="P4Info text of the program")
    parser.add_argument("--p4json", type=Path, default=BUILD / "mrc.json", help="BMv2 JSON of the program")
    parser.add_argument(
        "--election-id",
        type=_between(1, (1 << 127) - 1, int),
        default=ELECTION_ID,
        help="the highest of all is primary",
    )
    parser.add_argument("--socket", type=Path, help="API socket (default: RUN_DIR/controller.sock)")
    parser.add_argument("--history", type=Path, help="event file (default: RUN_DIR/history/controller.jsonl)")
    parser.add_argument(
        "--mapper-cycle", type=_SECONDS, default=0.0, help="seconds between Clustermapper's probes; 0: off"
    )
    parser.add_argument(
        "--mapper-policy", default="default", choices=list(POLICIES), help="what Clustermapper may deny"
    )
    parser.add_argument("--audit", type=_SECONDS, default=10.0, help="seconds between audits of all entries; 0: none")
    parser.add_argument("--telemetry", type=_SECONDS, default=1.0, help="seconds between counter records; 0: none")
    parser.add_argument(
        "--metrics-port",
        type=_between(0, 65535, int),
        default=0,
        help="on 127.0.0.1; 0 (default): any, see the operation `metrics`, which also returns the token",
    )
    parser.add_argument(
        "--stretch",
        type=_between(0.01, 1000),
        default=1.0,
        help="times longer to wait for switches and agents, on a slow machine",
    )
    parser.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    return parser.parse_args(arguments)


def load_fabric(path: Path) -> Fabric:
    """Read the fabric's description; SpecError in one sentence where that fails."""
    try:
        return fabricfile.load(path)
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}; give the fabric with --fabric") from None


def load_transport(given: Path | None, run_dir: Path) -> TransportSpec:
    """Read the hosts' transport; MRC with its defaults where none is given. TransportError names the mistake."""
    default = run_dir / transport.FILE_NAME
    if given is None and not default.exists():
        return transport.DEFAULT_TRANSPORT
    return transport.load(given or default)


def _controller(
    options: argparse.Namespace, fabric: Fabric, program: PipelineConfig, history: ControllerHistory
) -> Controller:
    return Controller(
        fabric,
        options.run_dir,
        program,
        history,
        options.election_id,
        mapper_cycle=options.mapper_cycle,
        telemetry=options.telemetry,
        audit=options.audit,
        policy=POLICIES[options.mapper_policy],
        transport=load_transport(options.transport, options.run_dir),
    )


async def serve(options: argparse.Namespace) -> None:
    """Run until a signal comes; ControllerError, SpecError or RpcError where it cannot start."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    SwitchSession.stretch = AsyncClient.stretch = options.stretch
    fabric = load_fabric(options.fabric or options.run_dir / "fabric.yaml")
    program = PipelineConfig(options.p4info, options.p4json)
    history = ControllerHistory(options.history or options.run_dir / "history" / "controller.jsonl")
    controller = _controller(options, fabric, program, history)
    use_realtime(CONTROL_PLANE, inherited=True)  # by the threads of gRPC, which hand it every message
    loop = asyncio.get_running_loop()
    metrics = MetricsServer(
        options.metrics_port, lambda: asyncio.run_coroutine_threadsafe(controller.metrics(), loop).result()
    )
    api = {**by_name(controller.core, asynchronous=True), "metrics": lambda: {"url": metrics.url}}
    socket = options.socket or options.run_dir / "controller.sock"
    with contextlib.closing(metrics):
        async with AsyncServer(socket, api) as server:
            history.listen(server.publish)
            history.record(
                ControllerUp(election_id=options.election_id, switches=len(fabric.switches), metrics_port=metrics.port)
            )
            running = asyncio.create_task(controller.run(), name="controller")
            stopping = asyncio.create_task(stop.wait(), name="signals")
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            running.cancel()
            await asyncio.gather(running, return_exceptions=stop.is_set())
            history.record(ControllerDown())
    history.close()


def main(arguments: list[str] | None = None) -> int:
    """Entry point: exit status 0 after a signal, 1 with one sentence where it cannot run."""
    options = parse_arguments(arguments)
    handler = logging.StreamHandler()
    handler.addFilter(_TaskName())
    logging.basicConfig(
        level=options.log_level, format="%(asctime)s %(levelname)s [%(task)s] %(message)s", handlers=[handler]
    )
    try:
        asyncio.run(serve(options))
    except (ControllerError, TopoError, RpcError, OSError) as error:
        print(f"controller: {error}", file=sys.stderr)  # noqa: T201 - the reason, on standard error
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
