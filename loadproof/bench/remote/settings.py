"""What every host of a run reads before the plan: who takes part, and on what terms."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from loadproof.bench.plan import FILE_NAME as PLAN_FILE
from loadproof.bench.plan import RunPlan, read_plan
from loadproof.bench.s3_store import Store
from loadproof.errors import CouldNotRunError, InputError

KEY = "remote.json"
ML_FOLDER = Path(os.environ.get("LOADPROOF_ML_FOLDER", "/opt/ml"))  # of a SageMaker Processing container
RESOURCES = ML_FOLDER / "config" / "resourceconfig.json"  # who is who
EXIT_MESSAGE = ML_FOLDER / "output" / "message"  # becomes the job's ExitMessage


@dataclass(frozen=True, slots=True)
class Terms:
    """What the hosts of a run agree on.

    Seconds: `poll_s` between two looks at the store; `lost_s`, silence after which a host counts as lost; `start_s`,
    how long the leader waits for hosts to come up, and hosts for their leader. `observe`: the leader notes the
    endpoint's copies and metrics beside the load.
    """

    poll_s: float = 1.0
    lost_s: float = 45.0
    start_s: float = 900.0
    observe: bool = True


LOCAL_TERMS = Terms(poll_s=0.25, lost_s=20.0, start_s=120.0)  # hosts of one machine hear each other at once


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of a job and which one this is. The first by name leads."""

    current: str
    names: tuple[str, ...]

    @property
    def number(self) -> int:
        return self.names.index(self.current)

    @property
    def leads(self) -> bool:
        return self.number == 0


def read_hosts(path: Path = RESOURCES) -> Hosts:
    """From the job's own host list, `{"current_host": "algo-1", "hosts": ["algo-1", "algo-2"]}`. Raises InputError."""
    try:
        row = orjson.loads(path.read_bytes())
        names = tuple(sorted(row["hosts"], key=_by_number))
        hosts = Hosts(row["current_host"], names)
    except OSError as error:
        raise InputError(f"{path}: no list of hosts ({error.strerror}); name another with --resources") from None
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a list of hosts ({error!r}); expected current_host and hosts") from None
    if hosts.current not in hosts.names:
        raise InputError(f"{path}: current_host {hosts.current!r} is none of hosts {', '.join(hosts.names)}")
    return hosts


def _by_number(name: str) -> tuple[str, int]:
    """algo-2 before algo-10."""
    head, _, tail = name.rpartition("-")
    return (head, int(tail)) if tail.isdigit() else (name, 0)


def fetch_plan(store: Store, folder: Path) -> RunPlan:
    """The run's plan, put into a folder and read. Raises CouldNotRunError where there is none, InputError."""
    body = store.get(PLAN_FILE)
    if body is None:
        raise CouldNotRunError(f"no {PLAN_FILE} under the run's prefix")
    (folder / PLAN_FILE).write_bytes(body)
    return read_plan(folder)


def write_terms(store: Store, terms: Terms) -> None:
    store.put(KEY, orjson.dumps(asdict(terms)))


def read_terms(store: Store) -> Terms:
    """Raises CouldNotRunError where there is no such run."""
    body = store.get(KEY)
    if body is None:
        raise CouldNotRunError(f"no {KEY} under the run's prefix: is the prefix right, and was the run uploaded?")
    return Terms(**orjson.loads(body))
