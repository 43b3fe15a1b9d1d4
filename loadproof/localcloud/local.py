"""Starting and stopping local clouds. `running(...)` is the one way in for code; `loadproof local` for people."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from loadproof.errors import CouldNotRunError, InputError
from loadproof.localcloud.clock import MOST_SPEED
from loadproof.localcloud.state import (
    NEEDS_EXTRA,
    CloudOptions,
    CloudState,
    known_states,
    processes,
    read_state,
    state_folder,
    state_path,
)

START_TIMEOUT_S = 120.0  # one that ends is seen at once; a first start compiles all of it, beside whatever else runs
STOP_TIMEOUT_S = 8.0
DEFAULT_NAME = "default"
SPEED_VARIABLE = "LOADPROOF_LOCAL_SPEED"
# moto reads them when its modules load: AWS's own managed policies, no isolated regions, no answers to pages.
_MOTO_SETTINGS = {
    "MOTO_IAM_LOAD_MANAGED_POLICIES": "true",
    "MOTO_ENABLE_ISO_REGIONS": "false",
    "MOTO_DISABLE_GLOBAL_CORS": "true",
}


@dataclass(frozen=True, slots=True)
class LocalCloud:
    """A running local cloud. `fresh` is False when `start` found it running already."""

    state: CloudState
    fresh: bool = True

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def endpoint_url(self) -> str:
        return self.state.endpoint_url

    @property
    def account(self) -> str:
        return self.state.account

    @property
    def region(self) -> str:
        return self.state.region

    @property
    def log_file(self) -> Path:
        return Path(self.state.log_file)

    def environment(self) -> dict[str, str]:
        """What a child process needs to mean this cloud, and only this one, when it says AWS."""
        return environment_of(self.state)


def environment_of(state: CloudState) -> dict[str, str]:
    """Environment variables for the AWS CLI, SDKs and the CDK CLI. Where the caller goes without a proxy is kept."""
    direct = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    no_proxy = ",".join(dict.fromkeys([*filter(None, direct.split(",")), "127.0.0.1", "localhost"]))
    return {
        "AWS_ENDPOINT_URL": state.endpoint_url,
        "AWS_ENDPOINT_URL_S3": state.endpoint_url,
        "AWS_ACCESS_KEY_ID": state.access_key,
        "AWS_SECRET_ACCESS_KEY": state.secret_key,
        "AWS_SESSION_TOKEN": "",  # of real credentials, perhaps: never sent here
        "AWS_REGION": state.region,
        "AWS_DEFAULT_REGION": state.region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_DEFAULT_ACCOUNT": state.account,
        "CDK_DEFAULT_REGION": state.region,
    }


def find(name: str) -> CloudState | None:
    """The running local cloud of that name; a state file left by a killed one is removed."""
    path = state_path(name)
    state = read_state(path)
    if state is not None and state.alive():
        return state
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    return None


def start(
    name: str = DEFAULT_NAME,
    *,
    port: int = 0,
    backend: str | None = None,
    account: str = "123456789012",
    region: str = "us-east-1",
    transition_s: float = 0.4,
    speed: float | None = None,
    stop_with_parent: bool = False,
) -> LocalCloud:
    """Start a local cloud and wait until it serves (about 2 s); a running one of that name is handed back.

    `speed`: seconds of its clock in one of the wall's, 1 to 100; None takes $LOADPROOF_LOCAL_SPEED, else 1.
    `transition_s` is on that clock.
    `port` 0 takes a free one. `stop_with_parent` ties its life to this process, however it ends.
    Raises CouldNotRunError with the log's last lines when it does not come up.
    """
    if importlib.util.find_spec("moto") is None:
        raise CouldNotRunError(NEEDS_EXTRA)
    with _only_one(name):
        known = find(name)
        if known is not None:
            return LocalCloud(known, fresh=False)
        options = CloudOptions(
            name=name,
            state=str(state_path(name)),
            log_file=str(state_path(name).with_suffix(".log")),
            port=port,
            account=account,
            region=region,
            backend=backend,
            transition_s=transition_s,
            speed=_speed(speed),
            parent_pid=os.getpid() if stop_with_parent else None,
        )
        return _start(options)


def _speed(given: float | None) -> float:
    """The clock's speed as given, else by the environment. Raises InputError outside of what the clock can do."""
    source, text = ("speed", str(given)) if given is not None else (SPEED_VARIABLE, os.environ.get(SPEED_VARIABLE, "1"))
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 1 <= speed <= MOST_SPEED:
        raise InputError(f"{source}: found {text}, allowed are 1 to {MOST_SPEED:g}; 30 shows scaling within a minute")
    return speed


@contextlib.contextmanager
def _only_one(name: str) -> Iterator[None]:
    """Two processes that start the same name at once: the second waits and finds the first one's cloud."""
    with state_path(name).with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _start(options: CloudOptions) -> LocalCloud:
    path, log_file = Path(options.state), Path(options.log_file)
    command = [sys.executable, "-m", "loadproof.localcloud.server", json.dumps(asdict(options))]
    # A new random key for every cloud: the CDK CLI remembers the account behind each key across runs.
    keys = {
        "LOADPROOF_ACCESS_KEY": "AKIA" + secrets.token_hex(8).upper(),
        "LOADPROOF_SECRET_KEY": secrets.token_urlsafe(30),
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    settings = {**_MOTO_SETTINGS, "MOTO_ACCOUNT_ID": options.account}
    descriptor = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**environment, **settings, **keys},
            cwd=state_folder(),
            start_new_session=True,  # Ctrl-C in the shell is not meant for it
        )
    try:
        return LocalCloud(_await_ready(process, path, log_file))
    except BaseException:
        _kill_tree(process.pid)
        process.wait()
        raise


def _await_ready(process: subprocess.Popen[bytes], path: Path, log_file: Path) -> CloudState:
    end_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end_s:
        state = read_state(path)
        if state is not None and state.pid == process.pid:
            return state
        if process.poll() is not None:
            raise CouldNotRunError(
                f"the local cloud ended while starting (exit {process.returncode}); its log {log_file} ends:\n"
                + _tail(log_file)
            )
        time.sleep(0.02)
    raise CouldNotRunError(
        f"the local cloud did not serve within {START_TIMEOUT_S:g} s; its log {log_file} ends:\n" + _tail(log_file)
    )


def stop(name: str = DEFAULT_NAME) -> bool:
    """Stop a local cloud and everything it started; True if there was one. Also cleans up after a killed one."""
    path = state_path(name)
    state = read_state(path)
    runs = state is not None and state.alive()
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    if state is None or not runs:
        return False
    _terminate_tree(state.pid)
    return True


def stop_all() -> list[str]:
    """Stop every local cloud of this user; returns the names of those that ran."""
    return [state.name for state in known_states() if stop(state.name)]


@contextlib.contextmanager
def running(name: str, **options: object) -> Iterator[LocalCloud]:
    """A local cloud for the length of a `with` block (see `start`); it also ends if this process is killed."""
    cloud = start(name, stop_with_parent=True, **options)  # type: ignore[arg-type]
    try:
        yield cloud
    finally:
        stop(name)


def _terminate_tree(pid: int) -> None:
    """SIGTERM to the server, which ends its children; whoever is left after a while is killed."""
    psutil = processes()
    try:
        server = psutil.Process(pid)
        family = [server, *server.children(recursive=True)]
        server.terminate()
    except psutil.NoSuchProcess:
        return
    _, left = psutil.wait_procs(family, timeout=STOP_TIMEOUT_S)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=2.0)


def _kill_tree(pid: int) -> None:
    psutil = processes()
    with contextlib.suppress(psutil.NoSuchProcess):
        server = psutil.Process(pid)
        for process in [*server.children(recursive=True), server]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _tail(path: Path, lines: int = 15) -> str:
    try:
        return "\n".join(path.read_text("utf-8", errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"
