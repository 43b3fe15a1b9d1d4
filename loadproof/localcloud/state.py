"""Which local clouds run: one JSON file a name, written when the cloud serves, removed when it stops."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

from loadproof.errors import CouldNotRunError, InputError
from loadproof.invocation import local_cloud

NEEDS_EXTRA = "the local cloud needs an extra; install it: pip install 'loadproof[local]'"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


@dataclass(frozen=True, slots=True)
class CloudOptions:
    """What a local cloud is started with: its process gets it as JSON. `transition_s` is on its clock.

    The keys are not here: arguments are visible to every user of the machine.
    """

    name: str
    state: str  # the file that is written once it serves
    log_file: str
    port: int
    account: str
    region: str
    backend: str | None  # base URL of a real model server
    transition_s: float  # Creating to InService
    speed: float
    parent_pid: int | None  # stop when this process is gone


@dataclass(frozen=True, slots=True)
class CloudState:
    """One running local cloud. `started_s` is the process's start time: a reused pid is not taken for it."""

    name: str
    pid: int
    port: int
    endpoint_url: str
    region: str
    account: str
    access_key: str
    secret_key: str
    log_file: str
    started_s: float
    backend_url: str | None = None
    speed: float = 1.0  # of its clock, in seconds to one of the wall's
    clock_epoch_s: float = 0.0  # when that clock left the wall's time
    sandbox: str = "none"  # what confines functions: landlock, bubblewrap, none

    def now(self) -> datetime:
        """What the cloud's clock shows."""
        epoch_s = self.clock_epoch_s
        return datetime.fromtimestamp(epoch_s + (time.time() - epoch_s) * self.speed, UTC)

    def write(self, path: Path) -> None:
        """Write atomically, readable by this user only: it holds the (fake) keys."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            json.dump(asdict(self), handle, indent=2)
        temporary.replace(path)

    def alive(self) -> bool:
        """Whether that very process still runs."""
        psutil = processes()
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started_s) < 1.0 and process.status() != psutil.STATUS_ZOMBIE
            return bool(same)
        except psutil.NoSuchProcess:
            return False


def processes() -> ModuleType:
    """psutil. Raises CouldNotRunError without the extra that brings it."""
    try:
        import psutil  # noqa: PLC0415  an extra: the commands that need no local cloud load without it
    except ImportError:
        raise CouldNotRunError(NEEDS_EXTRA) from None
    module: ModuleType = psutil
    return module


def state_folder() -> Path:
    """Where local clouds are noted. Made when missing."""
    folder = local_cloud.state_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CouldNotRunError(
            f"state folder {folder}: {error.strerror}; set LOADPROOF_STATE_DIR to a folder you can write"
        ) from None
    return folder


def state_path(name: str) -> Path:
    """The state file of a local cloud. Raises InputError for a name that is no plain word."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"local cloud name: found {name!r}, allowed are letters, digits, '.', '_' and '-' (at most 63, "
            "starting with a letter or digit); choose another name"
        )
    return state_folder() / f"{name}.json"


def read_state(path: Path) -> CloudState | None:
    """The state in a file; None when there is none or it cannot be read."""
    try:
        return CloudState(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def known_states() -> list[CloudState]:
    """All local clouds with a state file, by name, running or not."""
    found = (read_state(path) for path in sorted(state_folder().glob("*.json")))
    return [state for state in found if state is not None]
