"""Runs one state machine: Task, Choice, Pass, Map, Wait, Succeed and Fail with JSONPath; the rest is refused.

https://states-language.net/spec.html
"""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from emulator.controlplane.jobs.paths import NotProvidedError, StateError, computed, filled, is_there, read, written

State = Mapping[str, Any]
Tell = Callable[[str, str, dict[str, Any]], None]  # event type, state, details
_COMMON = {"Type", "Comment", "InputPath", "OutputPath", "Next", "End", "QueryLanguage"}
_RESULT = {"Parameters", "ResultSelector", "ResultPath", "Retry", "Catch"}
_FIELDS = {
    "Task": {"Resource", "TimeoutSeconds", "TimeoutSecondsPath", *_RESULT},
    "Map": {"ItemsPath", "ItemSelector", "ItemProcessor", "MaxConcurrency", *_RESULT},
    "Pass": {"Result", "Parameters", "ResultPath"},
    "Choice": {"Choices", "Default"},
    "Wait": {"Seconds"},
    "Succeed": set[str](),
    "Fail": {"Error", "Cause"},
}
_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "StringEquals": lambda found, wanted: isinstance(found, str) and found == wanted,
    "BooleanEquals": lambda found, wanted: isinstance(found, bool) and found == wanted,
    "NumericEquals": lambda found, wanted: _is_number(found) and found == wanted,
    "NumericGreaterThan": lambda found, wanted: _is_number(found) and found > wanted,
    "NumericLessThan": lambda found, wanted: _is_number(found) and found < wanted,
}
_UNCAUGHT = ("States.Runtime", "States.DataLimitExceeded")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class StoppedError(Exception):
    """Somebody stopped the execution."""


class Tasks(ABC):
    """What Task states may ask for. `knows` says why a resource is not to be had, None when it is."""

    @abstractmethod
    def knows(self, resource: str) -> str | None: ...

    @abstractmethod
    def run(self, resource: str, request: Any, until_s: float | None, stopped: threading.Event) -> Any:
        """The result. Raises StateError by AWS's name of the failure."""


def problems_of(definition: Any, tasks: Tasks) -> Iterator[str]:
    """Why CreateStateMachine refuses a definition; also everything that only this local cloud refuses."""
    if not isinstance(definition, dict) or not isinstance(definition.get("States"), dict):
        yield "SCHEMA_VALIDATION_FAILED: no States"
        return
    if definition.get("QueryLanguage", "JSONPath") != "JSONPath":
        yield "the local cloud does not provide JSONata"
    states: Mapping[str, State] = definition["States"]
    if definition.get("StartAt") not in states:
        yield f"MISSING_TRANSITION_TARGET: StartAt {definition.get('StartAt')!r} is no state"
    for name, state in states.items():
        kind = state.get("Type")
        if kind not in _FIELDS:
            yield f"the local cloud does not provide states of type {kind} ({name})"
            continue
        unknown = sorted(state.keys() - _COMMON - _FIELDS[kind])
        if unknown:
            yield f"the local cloud does not provide {', '.join(unknown)} of {kind} ({name})"
        for target in _targets(state):
            if target not in states:
                yield f"MISSING_TRANSITION_TARGET: {name} goes on to {target!r}, which is no state"
        if kind in ("Task", "Pass", "Map", "Wait") and ("Next" in state) == bool(state.get("End")):
            yield f"SCHEMA_VALIDATION_FAILED: {name} needs either Next or End"
        if kind == "Task" and (refused := tasks.knows(str(state.get("Resource")))):
            yield f"{refused} ({name})"
        if kind == "Map":
            if state.get("ItemProcessor", {}).get("ProcessorConfig", {}).get("Mode", "INLINE") != "INLINE":
                yield f"the local cloud does not provide distributed maps ({name})"
            yield from problems_of(state.get("ItemProcessor"), tasks)


def _targets(state: State) -> Iterator[str]:
    if "Next" in state:
        yield state["Next"]
    if "Default" in state:
        yield state["Default"]
    for way in (*state.get("Choices", ()), *state.get("Catch", ())):
        yield way["Next"]


class Executor:
    """One run of one definition."""

    def __init__(self, tasks: Tasks, context: dict[str, Any], tell: Tell, stopped: threading.Event) -> None:
        self._tasks, self._context, self._tell, self._stopped = tasks, context, tell, stopped

    def run(self, definition: Mapping[str, Any], data: Any) -> Any:
        """The output. Raises StateError for the failure that nothing caught, StoppedError."""
        return self._run(definition, data, self._context)

    def _run(self, definition: Mapping[str, Any], data: Any, context: dict[str, Any]) -> Any:
        states: Mapping[str, State] = definition["States"]
        name = definition["StartAt"]
        while True:
            if self._stopped.is_set():
                raise StoppedError
            state = states[name]
            entered = {**context, "State": {"Name": name, "EnteredTime": _utc_now()}}
            self._tell(f"{state['Type']}StateEntered", name, {"name": name, "input": json.dumps(data)})
            data, following = self._step(state, data, entered)
            self._tell(f"{state['Type']}StateExited", name, {"name": name, "output": json.dumps(data)})
            if following is None:
                return data
            name = following

    def _step(self, state: State, data: Any, context: dict[str, Any]) -> tuple[Any, str | None]:
        """(output, next state or None at the end)."""
        try:
            seen = _at(state.get("InputPath", "$"), data, context)
            match state["Type"]:
                case "Choice":
                    return seen, self._chosen(state, seen, context)
                case "Succeed":
                    return seen, None
                case "Fail":
                    raise StateError(str(state.get("Error", "")), str(state.get("Cause", "")))
                case "Wait":
                    self._sleep(float(state["Seconds"]))
                    output = seen
                case "Pass":
                    given = filled(state["Parameters"], seen, context) if "Parameters" in state else seen
                    output = written(state.get("ResultPath", "$"), seen, state.get("Result", given))
                case _:
                    caught = self._worked(state, seen, context)
                    if isinstance(caught, _Caught):
                        return caught.output, caught.following
                    output = caught
        except NotProvidedError as error:
            raise StateError("States.Runtime", f"the local cloud does not provide {error}") from None
        return _at(state.get("OutputPath", "$"), output, context), state.get("Next")

    def _worked(self, state: State, data: Any, context: dict[str, Any]) -> Any:
        """A Task or Map with its retries; _Caught where a catcher took the error."""
        tried: dict[int, int] = {}
        while True:
            try:
                result = self._result(state, data, context)
                if "ResultSelector" in state:
                    result = filled(state["ResultSelector"], result, context)
                return written(state.get("ResultPath", "$"), data, result)
            except StateError as error:
                if self._retries(state, error, tried):
                    continue
                for catcher in state.get("Catch", ()):
                    if _matches(catcher["ErrorEquals"], error):
                        told = {"Error": error.name, "Cause": error.cause}
                        return _Caught(written(catcher.get("ResultPath", "$"), data, told), catcher["Next"])
                raise

    def _result(self, state: State, data: Any, context: dict[str, Any]) -> Any:
        if state["Type"] == "Map":
            return self._mapped(state, data, context)
        given = filled(state["Parameters"], data, context) if "Parameters" in state else data
        limit_s = state.get("TimeoutSeconds")
        if "TimeoutSecondsPath" in state:
            limit_s = read(state["TimeoutSecondsPath"], data, context)
        until_s = None if limit_s is None else time.monotonic() + float(limit_s)
        result = self._tasks.run(state["Resource"], given, until_s, self._stopped)
        if self._stopped.is_set():
            raise StoppedError
        return result

    def _mapped(self, state: State, data: Any, context: dict[str, Any]) -> list[Any]:
        items = read(state.get("ItemsPath", "$"), data, context)
        if not isinstance(items, list):
            raise StateError("States.Runtime", "ItemsPath points at no list")
        selector = state.get("ItemSelector", state.get("Parameters"))

        def one(index: int) -> Any:
            within = {**context, "Map": {"Item": {"Index": index, "Value": items[index]}}}
            given = items[index] if selector is None else filled(selector, data, within)
            return self._run(state["ItemProcessor"], given, within)

        with ThreadPoolExecutor(int(state.get("MaxConcurrency") or 16), thread_name_prefix="map") as pool:
            return list(pool.map(one, range(len(items))))

    def _retries(self, state: State, error: StateError, tried: dict[int, int]) -> bool:
        """Wait for the next attempt, if a retrier allows one."""
        for place, retrier in enumerate(state.get("Retry", ())):
            if not _matches(retrier["ErrorEquals"], error):
                continue
            done = tried.get(place, 0)
            if done >= int(retrier.get("MaxAttempts", 3)):
                return False
            tried[place] = done + 1
            pause_s = float(retrier.get("IntervalSeconds", 1)) * float(retrier.get("BackoffRate", 2.0)) ** done
            self._sleep(min(pause_s, float(retrier.get("MaxDelaySeconds", pause_s))))
            return True
        return False

    def _sleep(self, seconds: float) -> None:
        if self._stopped.wait(seconds):
            raise StoppedError

    def _chosen(self, state: State, data: Any, context: dict[str, Any]) -> str:
        for choice in state["Choices"]:
            if _holds(choice, data, context):
                return str(choice["Next"])
        if "Default" not in state:
            raise StateError("States.NoChoiceMatched", "no choice matched and there is no Default")
        return str(state["Default"])


class _Caught:
    def __init__(self, output: Any, following: str) -> None:
        self.output, self.following = output, following


def _at(path: str | None, data: Any, context: Mapping[str, Any]) -> Any:
    return {} if path is None else computed(path, data, context)


def _holds(choice: Mapping[str, Any], data: Any, context: Mapping[str, Any]) -> bool:
    if "And" in choice:
        return all(_holds(one, data, context) for one in choice["And"])
    if "Or" in choice:
        return any(_holds(one, data, context) for one in choice["Or"])
    if "Not" in choice:
        return not _holds(choice["Not"], data, context)
    (test,) = choice.keys() - {"Variable", "Next", "Comment"}
    if test == "IsPresent":
        return is_there(choice["Variable"], data, context) == bool(choice[test])
    if test not in _COMPARED:
        raise NotProvidedError(f"the comparison {test}")
    return _COMPARED[test](read(choice["Variable"], data, context), choice[test])


def _matches(names: list[str], error: StateError) -> bool:
    if error.name in _UNCAUGHT:
        return error.name in names
    return (
        error.name in names
        or "States.ALL" in names
        or ("States.TaskFailed" in names and error.name != "States.Timeout")
    )


def _utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
