"""moto's state-machine interpreter in this cloud: under its clock, and with its own services behind every task.

moto's modules take time, threads and clients from names of their own; `_install` puts ours there. A thread that they
start works for the execution of the thread that started it, so it finds that execution's cloud, and ends with it.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timezone
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

from botocore.client import BaseClient
from jsonata import Jsonata
from moto.stepfunctions.parser.api import ExecutionStatus, HistoryEventType
from moto.stepfunctions.parser.asl.component.intrinsic import jsonata as jsonata_functions
from moto.stepfunctions.parser.asl.component.state import state as states
from moto.stepfunctions.parser.asl.component.state.exec.execute_state import ExecutionState
from moto.stepfunctions.parser.asl.component.state.wait.wait_function import timestamp
from moto.stepfunctions.parser.asl.eval.event.event_manager import EventHistoryContext, EventManager
from moto.stepfunctions.parser.asl.jsonata import jsonata
from moto.stepfunctions.parser.asl.parse.preprocessor import Preprocessor
from moto.stepfunctions.parser.asl.utils.encoding import to_json_str
from moto.stepfunctions.parser.backend.execution import BaseExecutionWorkerCommunication, Execution
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker
from moto.stepfunctions.parser.backend.state_machine import StateMachineInstance

from loadproof.localcloud.clients import Clients
from loadproof.localcloud.clock import CloudClock
from loadproof.localcloud.controlplane.jobs import tasks
from loadproof.localcloud.wire import Caller
from loadproof.wire.documents import Document, Json

_LAST = (
    HistoryEventType.ExecutionSucceeded,
    HistoryEventType.ExecutionFailed,
    HistoryEventType.ExecutionAborted,
    HistoryEventType.ExecutionTimedOut,
)


class Run(Execution):
    """One execution. What its threads still do once it is over counts for nothing: they end at their next step."""

    def __init__(
        self,
        clients: Clients,
        clock: CloudClock,
        caller: Caller,
        machine: StateMachineInstance,
        *,
        name: str,
        arn: str,
        given: str,
    ) -> None:
        self.clients, self.clock, self.caller = clients, clock, caller
        self.over = threading.Event()
        self.env: Any = None  # moto's environment of the program, from the start on
        self._acts: list[Callable[[], object]] = []
        self._lock = threading.RLock()
        self._waits: WeakSet[threading.Event] = WeakSet()
        self._threads: WeakSet[threading.Thread] = WeakSet()
        super().__init__(
            name=name,
            sm_type=machine.sm_type,
            role_arn=machine.role_arn,
            exec_arn=arn,
            account_id=caller.account,
            region_name=caller.region,
            state_machine=copy.copy(machine),  # an update is for later executions
            start_date=datetime.now(UTC),
            cloud_watch_logging_session=None,
            activity_store={},
            input_data=given,
        )

    def start(self) -> None:
        _here.run = self
        try:
            super().start()
        finally:
            _here.run = None

    def abort(self, error: str | None, cause: str | None) -> None:
        """ABORTED at once, whatever it waits for; nothing where it is over."""
        if self._finish(ExecutionStatus.ABORTED, HistoryEventType.ExecutionAborted, error, cause):
            for act in self._acts:
                with suppress(Exception):  # a job that has ended meanwhile
                    act()

    def if_aborted(self, act: Callable[[], object]) -> None:
        """Do this when it is aborted; at once, where it has been."""
        with self._lock:
            if not self.over.is_set():
                self._acts.append(act)
                return
        act()

    def ended(self, reflect: Callable[[], None]) -> None:
        """The program has ended; `reflect` takes its outcome over."""
        with self._lock:
            if not self.over.is_set():
                reflect()
                if self.exec_status == ExecutionStatus.TIMED_OUT:
                    self._finish(self.exec_status, HistoryEventType.ExecutionTimedOut, None, None)
                self._end()

    def described(self) -> Document:
        with self._lock:
            return {**self.to_describe_output(), "input": self.execution_input}

    def events(self) -> list[Document]:
        history = self.env.event_manager.get_event_history()
        return [event | {"timestamp": datetime.fromisoformat(event["timestamp"])} for event in history]

    def wakes(self, wait: threading.Event) -> None:
        """Set `wait` when the execution is over."""
        with self._lock:
            self._waits.add(wait)
            if self.over.is_set():
                wait.set()

    def has(self, thread: threading.Thread) -> None:
        with self._lock:
            self._threads.add(thread)

    def join(self, until_s: float) -> None:
        """Wait for its threads and those that they still start, until then by the monotonic clock."""
        while (left_s := until_s - time.monotonic()) > 0:
            with self._lock:
                living = [thread for thread in self._threads if thread.is_alive()]
            if not living:
                return
            threading.Thread.join(living[0], left_s)

    def get_start_execution_details(self) -> Any:
        details: Any = super().get_start_execution_details()
        details.start_time = _now(UTC, self).isoformat()  # for the program, by the clock that it waits by
        return details

    def _get_start_aws_execution_details(self) -> Any:
        details: Any = super()._get_start_aws_execution_details()
        details.run = self  # where a task finds it
        return details

    def _get_start_execution_worker_comm(self) -> BaseExecutionWorkerCommunication:
        return _Ending(self)

    def _get_start_execution_worker(self) -> ExecutionWorker:
        usual = super()._get_start_execution_worker()
        worker = _Worker(usual._evaluation_details, usual._execution_communication, None, {})
        self.env = worker.env
        return worker

    def _finish(self, status: ExecutionStatus, kind: HistoryEventType, error: str | None, cause: str | None) -> bool:
        said = {name: text for name, text in (("error", error), ("cause", cause)) if text is not None}
        details = {f"{kind.value[0].lower()}{kind.value[1:]}EventDetails": said}
        with self._lock, suppress(SystemExit):  # its own thread may have been faster
            self.env.event_manager.add_event(EventHistoryContext.of_program_start(), kind, details)
            self.exec_status, self.stop_date = status, datetime.now(UTC)
            self.error, self.cause = error, cause
            self._end()
            return True
        return False

    def _end(self) -> None:
        self.over.set()
        for wait in self._waits:
            wait.set()


class _Ending(BaseExecutionWorkerCommunication):
    execution: Run

    def terminated(self) -> None:
        self.execution.ended(self._reflect_execution_status)


class _Worker(ExecutionWorker):
    """Has its environment from the start, so that it can be stopped from the start."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._get_evaluation_environment()

    def _get_evaluation_environment(self) -> Any:
        if self.env is None:
            self.env = super()._get_evaluation_environment()
            self.env.event_manager = _History()
        return self.env


class _History(EventManager):
    """Nothing comes after an execution's last event: whoever would add something ends."""

    def __init__(self) -> None:
        super().__init__()
        self._closing, self._closed = threading.Lock(), False

    def add_event(self, context: Any, event_type: Any, *args: Any, **more: Any) -> int:
        with self._closing:
            if self._closed:
                raise SystemExit
            self._closed = event_type in _LAST
            return int(super().add_event(context, event_type, *args, **more))


class _Here(threading.local):
    """The execution that a thread works for; `working` while it starts what takes the wall's time."""

    run: Run | None = None
    working: bool = False


_here = _Here()


def _speed() -> float:
    return 1.0 if _here.run is None or _here.working else _here.run.clock.speed


def _now(tz: timezone | None = None, run: Run | None = None) -> datetime:
    """The date on the cloud's calendar; without a zone it is UTC's."""
    run = run or _here.run
    now = datetime.now(UTC) if run is None else run.clock.calendar(run.clock.now_s())
    return now if tz else now.replace(tzinfo=None)


class _Thread(threading.Thread):
    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._run, self._speed = _here.run, _speed()
        if self._run is not None:
            self._run.has(self)

    def run(self) -> None:
        _here.run = self._run
        with suppress(SystemExit):  # its execution is over
            super().run()

    def join(self, timeout: float | None = None) -> None:
        super().join(timeout if timeout is None else timeout / self._speed)


class _Event(threading.Event):
    """Waits in the cloud's seconds, and no longer than its execution lasts."""

    def __init__(self) -> None:
        super().__init__()
        self._run, self._speed = _here.run, _speed()
        if self._run is not None:
            self._run.wakes(self)

    def wait(self, timeout: float | None = None) -> bool:
        answered = super().wait(timeout if timeout is None else timeout / self._speed)
        if self._run is not None and self._run.over.is_set():
            raise SystemExit
        return answered


class _Datetime(datetime):
    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return _now(tz)


class _Client:
    """A client of this cloud whose answers are JSON: times as text."""

    def __init__(self, client: BaseClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Callable[..., Json]:
        operation = getattr(self._client, name)
        return lambda **request: _plain(operation(**request))


def _plain(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _client_for(region: str, service: str, state_credentials: object = None) -> _Client:
    run = _here.run
    assert run is not None
    return _Client(run.clients.client(service, replace(run.caller, region=region)))


def _evaluated(expression: str) -> Json:
    """A JSONata expression's value; a function has none."""
    try:
        asked = Jsonata(expression)
        asked.register_lambda("uuid", lambda: str(uuid.uuid4()))
        asked.register_lambda("hash", _hashed)
        return json.loads(json.dumps(asked.evaluate(None), default=lambda one: ""))
    except Exception as error:
        raise jsonata.JSONataException("UNKNOWN", str(error)) from error


def _hashed(value: str, algorithm: str = "SHA-256") -> str:
    return hashlib.new(algorithm.replace("-", ""), value.encode()).hexdigest()


def _declared(bindings: Document) -> str:
    """moto leaves quotes in texts as they are."""
    return "".join(f"{name}:={to_json_str(value)};" for name, value in bindings.items())


def _install() -> None:
    tasks.install()
    logging.getLogger("moto.stepfunctions").setLevel(logging.CRITICAL)  # the histories say it
    instead = {
        "Event": _Event,
        "Thread": _Thread,
        "TMP_THREADS": deque(maxlen=0),  # moto would keep every one
        "boto_client_for": _client_for,
        "encode_jsonata_variable_declarations": _declared,
        "state_task_service_for": tasks.service_for,
        "threading": SimpleNamespace(**{**vars(threading), "Event": _Event, "Thread": _Thread}),
    }
    clock = SimpleNamespace(time=lambda: _now(UTC).timestamp(), sleep=lambda seconds: _Event().wait(seconds))
    for name, module in list(sys.modules.items()):
        if name.startswith("moto.stepfunctions.parser."):
            for taken in instead.keys() & vars(module).keys():
                setattr(module, taken, instead[taken])
            if vars(module).get("time") is time and not name.endswith("_callback"):  # that one asks for jobs' statuses
                module.time = clock  # type: ignore[attr-defined]
    dated: Any
    for dated in (states, timestamp):
        dated.datetime = SimpleNamespace(datetime=_Datetime, timezone=timezone)
    jsonata._eval_jsonata = _evaluated
    for name in ("$hash", "$uuid"):  # moto's only say that they are not supported
        jsonata_functions._DECLARATION_BY_VARIABLE_REFERENCE.pop(name)

    preprocessor: Any = Preprocessor
    # moto keeps the scopes of all parsers in one list: a refused definition would leave its own to every later one
    preprocessor.__init__ = lambda self: setattr(self, "_query_language_per_scope", [])

    state_class: Any = ExecutionState
    evaluate = state_class._evaluate_with_timeout

    def evaluate_at_its_pace(self: Any, env: Any) -> None:
        """Functions and jobs take the wall's time, so their time-outs count it."""
        _here.working = isinstance(self, tasks.AT_WORK)
        try:
            evaluate(self, env)
        finally:
            _here.working = False

    state_class._evaluate_with_timeout = evaluate_at_its_pace


_install()
