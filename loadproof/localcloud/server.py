"""The process of one local cloud: `python -m loadproof.localcloud.server --state FILE ...`. `local` starts it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from functools import partial
from pathlib import Path

import psutil
from aiohttp import web

from loadproof.localcloud.bedrock import BedrockRuntime
from loadproof.localcloud.bedrock.faults import ParameterFaults
from loadproof.localcloud.bedrock.metrics import Metrics
from loadproof.localcloud.clock import CloudClock
from loadproof.localcloud.controlplane.moto_host import start_moto
from loadproof.localcloud.controlplane.plane import ControlPlane, parameter_value
from loadproof.localcloud.controlplane.sagemaker import Timing
from loadproof.localcloud.front import MAX_BODY_BYTES, Front
from loadproof.localcloud.queue import QueuePoller
from loadproof.localcloud.queue.poller import cloud_environment
from loadproof.localcloud.runtime import Runtime
from loadproof.localcloud.runtime.outside import Aws
from loadproof.localcloud.seal.gate import Gate
from loadproof.localcloud.seal.keys import CloudKeys
from loadproof.localcloud.seal.sandbox import sandbox_kind
from loadproof.localcloud.seal.signature import Verifier
from loadproof.localcloud.state import CloudState

log = logging.getLogger("loadproof.localcloud")
_PARENT_POLL_S = 0.5


def main() -> None:
    """Serve until SIGTERM, SIGINT, or the death of the process named by --parent-pid."""
    options = _options()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    # Whatever this process calls as a client is itself: no proxy, no real credentials.
    os.environ.update({"NO_PROXY": "localhost,127.0.0.1,::1", "AWS_EC2_METADATA_DISABLED": "true"})
    try:
        sockets = _listen(options.port)
    except OSError as error:
        sys.exit(f"port {options.port} is taken or not allowed: {error.strerror}")
    asyncio.run(serve(options, sockets))


async def serve(options: argparse.Namespace, sockets: list[socket.socket]) -> None:
    """Bring everything up, publish the state file, wait for the end, take everything down."""
    port = sockets[0].getsockname()[1]
    endpoint_url = f"http://localhost:{port}"
    clock = CloudClock(options.speed)
    timing = Timing(options.transition_s, options.transition_s, options.transition_s / 2)
    keys = CloudKeys(options.access_key, options.secret_key)
    moto = start_moto()
    plane = ControlPlane(account=options.account, region=options.region, timing=timing, keys=keys, clock=clock)
    plane.clients.endpoint_url = endpoint_url
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    Gate(Verifier(keys), port).setup(app)
    runtime = Runtime(
        plane.directory,
        account=options.account,
        region=options.region,
        backend_url=options.backend,
        outside=Aws(plane.client),
        now_s=plane.clock.now_s,
    )
    runtime.setup(app)
    BedrockRuntime(
        plane.bedrock_store,
        Metrics(plane.record_bedrock),
        region=options.region,
        fault_of=ParameterFaults(parameter_value),
    ).setup(app)
    plane.startable = runtime.check_startable
    plane.jobs.environment = {
        **cloud_environment(endpoint_url, options.access_key, options.secret_key),
        "LOADPROOF_LOCAL_CLOUD": "http" if options.backend else "twin",
    }
    Front(plane, moto.socket_path).setup(app)
    # Signatures cover bodies as they were sent.
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0, auto_decompress=False)
    await runner.setup()
    for sock in sockets:
        await web.SockSite(runner, sock).start()
    poller = QueuePoller(
        plane.sqs,
        account=options.account,
        region=options.region,
        environment=cloud_environment(endpoint_url, options.access_key, options.secret_key),
        ran=plane.function_ran,
        put_metric=plane.function_published,
    )
    poller.start()
    pulse = asyncio.create_task(_beat(plane, runtime))
    state = _state(options, port, endpoint_url, clock)
    state.write(Path(options.state))
    log.info("local cloud %s serves at %s (pid %d)", options.name, endpoint_url, os.getpid())
    if state.sandbox == "none":
        log.warning("no sandbox on this machine: functions of deployed templates can read what this user can")
    try:
        await _end(options.parent_pid)
    finally:
        log.info("local cloud %s stops", options.name)
        with contextlib.suppress(FileNotFoundError):
            Path(options.state).unlink()
        pulse.cancel()
        await asyncio.gather(pulse, return_exceptions=True)
        await asyncio.to_thread(plane.close)
        await asyncio.to_thread(poller.stop)
        await runner.cleanup()
        moto.stop()


async def _beat(plane: ControlPlane, runtime: Runtime) -> None:
    """Turn after turn of what happens by itself; a turn that fails is told and the next one comes."""
    while True:
        await asyncio.sleep(plane.pulse.pause_s())
        publish = partial(runtime.publish_metrics, runtime.take_metrics())
        try:
            await asyncio.to_thread(plane.pulse.turn, publish)
        except Exception:
            log.exception("a turn of alarms and scaling failed; it goes on")


def _listen(port: int) -> list[socket.socket]:
    """Sockets on 127.0.0.1 and, where there is IPv6, on ::1 with the same port: `localhost` may mean either."""
    first = _bound(socket.AF_INET, "127.0.0.1", port)
    sockets = [first]
    with contextlib.suppress(OSError):
        sockets.append(_bound(socket.AF_INET6, "::1", first.getsockname()[1]))
    return sockets


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port))
        sock.listen(1024)
    except OSError:
        sock.close()
        raise
    return sock


async def _end(parent_pid: int | None) -> None:
    """Return on a signal, or when the parent is gone (a killed parent can tell nobody)."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    parent = _process(parent_pid)
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _PARENT_POLL_S)
        if parent_pid is not None and (parent is None or not parent.is_running()):
            log.warning("the process that started this local cloud is gone")
            return


def _process(pid: int | None) -> psutil.Process | None:
    if pid is None:
        return None
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def _state(options: argparse.Namespace, port: int, endpoint_url: str, clock: CloudClock) -> CloudState:
    return CloudState(
        name=options.name,
        pid=os.getpid(),
        port=port,
        endpoint_url=endpoint_url,
        region=options.region,
        account=options.account,
        access_key=options.access_key,
        secret_key=options.secret_key,
        log_file=options.log_file,
        started_s=psutil.Process().create_time(),
        backend_url=options.backend,
        speed=clock.speed,
        clock_epoch_s=clock.epoch_s,
        sandbox=sandbox_kind(),
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="loadproof.localcloud.server")
    parser.add_argument("--name", required=True)
    parser.add_argument("--state", required=True, help="written once the cloud serves")
    parser.add_argument("--log-file", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--account", default="123456789012")
    parser.add_argument("--region", default="us-east-1")
    parser.add_argument("--backend", default=None, help="base URL of a real model server")
    parser.add_argument("--transition-s", type=float, default=0.4, help="Creating to InService, on the cloud's clock")
    parser.add_argument("--speed", type=float, default=1.0, help="seconds of the cloud's clock in one of the wall's")
    parser.add_argument("--parent-pid", type=int, default=None, help="stop when this process is gone")
    options = parser.parse_args()
    # Through the environment, not the arguments: those are visible to every user of the machine.
    options.access_key = os.environ.pop("LOADPROOF_ACCESS_KEY")
    options.secret_key = os.environ.pop("LOADPROOF_SECRET_KEY")
    return options


if __name__ == "__main__":
    main()
