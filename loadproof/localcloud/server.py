"""The process of one local cloud: `python -m loadproof.localcloud.server OPTIONS`, which `local` starts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import psutil
from aiohttp import web

from loadproof.localcloud.account.objects import StoredObjects
from loadproof.localcloud.bedrock import BedrockRuntime
from loadproof.localcloud.bedrock.faults import ParameterFaults
from loadproof.localcloud.bedrock.metrics import Metrics
from loadproof.localcloud.clock import CloudClock
from loadproof.localcloud.controlplane.sagemaker import Timing
from loadproof.localcloud.front import MAX_BODY_BYTES, Front
from loadproof.localcloud.moto_host import start_moto
from loadproof.localcloud.plane import ControlPlane, parameter_value
from loadproof.localcloud.queue import QueuePoller
from loadproof.localcloud.queue.poller import cloud_environment
from loadproof.localcloud.runtime import Runtime
from loadproof.localcloud.runtime.outside import Aws
from loadproof.localcloud.seal.gate import Gate
from loadproof.localcloud.seal.keys import CloudKeys
from loadproof.localcloud.seal.signature import Verifier
from loadproof.localcloud.state import CloudOptions, CloudState
from loadproof.walls.sandbox import sandbox_kind

log = logging.getLogger("loadproof.localcloud")
_PARENT_POLL_S = 0.5


def main() -> None:
    """Serve until SIGTERM, SIGINT, or the death of the process named by `parent_pid`."""
    options = CloudOptions(**json.loads(sys.argv[1]))
    access_key, secret_key = os.environ.pop("LOADPROOF_ACCESS_KEY"), os.environ.pop("LOADPROOF_SECRET_KEY")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    # Whatever this process calls as a client is itself: no proxy, no real credentials.
    os.environ.update({"NO_PROXY": "localhost,127.0.0.1,::1", "AWS_EC2_METADATA_DISABLED": "true"})
    try:
        sockets = _listen(options.port)
    except OSError as error:
        sys.exit(f"port {options.port} is taken or not allowed: {error.strerror}")
    asyncio.run(serve(options, access_key, secret_key, sockets))


async def serve(options: CloudOptions, access_key: str, secret_key: str, sockets: list[socket.socket]) -> None:
    """Bring everything up, publish the state file, wait for the end, take everything down."""
    port = sockets[0].getsockname()[1]
    clock, keys = CloudClock(options.speed), CloudKeys(access_key, secret_key)
    state = _state(options, port, clock, access_key, secret_key)
    environment = cloud_environment(state.endpoint_url, access_key, secret_key)
    moto = start_moto()
    plane, runtime = _services(options, clock, keys, environment)
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    front = Front(plane, moto.socket_path)
    Gate(Verifier(keys), port, front.handle).setup(app)
    runtime.setup(app)
    metrics, faults = Metrics(plane.record_bedrock), ParameterFaults(parameter_value)
    BedrockRuntime(plane.bedrock_store, metrics, region=options.region, fault_of=faults).setup(app)
    front.setup(app)
    # Signatures cover bodies as they were sent.
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0, auto_decompress=False)
    await runner.setup()
    for sock in sockets:
        await web.SockSite(runner, sock).start()
    poller = QueuePoller(
        plane.sqs,
        account=options.account,
        region=options.region,
        environment=environment,
        ran=plane.function_ran,
        put_metric=plane.function_published,
    )
    poller.start()
    pulse = asyncio.create_task(_beat(plane, runtime))
    state.write(Path(options.state))
    log.info("local cloud %s serves at %s (pid %d)", options.name, state.endpoint_url, os.getpid())
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


def _services(
    options: CloudOptions, clock: CloudClock, keys: CloudKeys, environment: Mapping[str, str]
) -> tuple[ControlPlane, Runtime]:
    """The control plane and the runtime, which know each other; `environment` is what points a process at them."""
    timing = Timing(options.transition_s, options.transition_s, options.transition_s / 2)
    plane = ControlPlane(account=options.account, region=options.region, timing=timing, keys=keys, clock=clock)
    plane.clients.endpoint_url = environment["AWS_ENDPOINT_URL"]
    plane.jobs.environment = {**environment, "LOADPROOF_LOCAL_CLOUD": "http" if options.backend else "twin"}
    runtime = Runtime(
        plane.directory,
        account=options.account,
        region=options.region,
        backend_url=options.backend,
        outside=Aws(plane.client),
        stored=StoredObjects(options.account),
        now_s=clock.now_s,
    )
    plane.startable = runtime.check_startable
    return plane, runtime


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


def _state(options: CloudOptions, port: int, clock: CloudClock, access_key: str, secret_key: str) -> CloudState:
    return CloudState(
        name=options.name,
        pid=os.getpid(),
        port=port,
        endpoint_url=f"http://localhost:{port}",
        region=options.region,
        account=options.account,
        access_key=access_key,
        secret_key=secret_key,
        log_file=options.log_file,
        started_s=psutil.Process().create_time(),
        backend_url=options.backend,
        speed=clock.speed,
        clock_epoch_s=clock.epoch_s,
        sandbox=sandbox_kind(),
    )


if __name__ == "__main__":
    main()
