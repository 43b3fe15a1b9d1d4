"""Why CreateStateMachine refuses a definition: what moto's parser sees, and what AWS sees beyond it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import UnionType
from typing import Final

from jsonata import Jsonata
from jsonpath_ng.exceptions import JSONPathError
from jsonpath_ng.ext.parser import parse as parse_path
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser

from loadproof.localcloud.controlplane.jobs.states import named_twice, state_problems
from loadproof.localcloud.controlplane.jobs.tasks import is_provided
from loadproof.wire.documents import Document, Json

State = Document
_MOST_NAME: Final = 80  # characters of a state's name
_RESULT: Final = "Next End Parameters Arguments ResultSelector ResultPath Retry Catch"
# By type, beside what most states have. Which of them a query language has, moto's parser knows.
_FIELDS: Final = {
    "Choice": "Choices Default",
    "Fail": "Error ErrorPath Cause CausePath",
    "Map": f"{_RESULT} Items ItemsPath ItemProcessor Iterator ItemSelector ItemReader MaxConcurrency "
    "MaxConcurrencyPath Label",
    "Parallel": f"{_RESULT} Branches",
    "Pass": "Next End Parameters Result ResultPath",
    "Succeed": "",
    "Task": f"{_RESULT} Resource TimeoutSeconds TimeoutSecondsPath HeartbeatSeconds HeartbeatSecondsPath",
    "Wait": "Next End Seconds SecondsPath Timestamp TimestampPath",
}
_OF_JSONPATH: Final = {"InputPath", "OutputPath", "Parameters", "ResultPath", "ResultSelector", "ItemsPath"}
_COMPARED: Final[dict[str, type | UnionType]] = {
    "Numeric": int | float,
    "String": str,
    "Boolean": bool,
    "Timestamp": str,
}
_TEMPLATES: Final = ("Parameters", "ResultSelector", "ItemSelector", "Assign")
_COMMON: Final = {"Type", "Comment", "QueryLanguage", "InputPath", "OutputPath", "Output", "Assign"}


def problems_of(text: str, *, express: bool) -> Iterator[str]:
    """Each as AWS words it, or as what this local cloud lacks."""
    try:
        definition = json.loads(text)
    except ValueError as error:
        yield f"INVALID_JSON_DESCRIPTION: {error}"
        return
    found = list(_machine_problems(definition, "", express))
    found += [f"DUPLICATE_STATE_NAME: Duplicate state name: {name}" for name in named_twice(definition)]
    yield from found
    if not found:
        try:
            AmazonStateLanguageParser.parse(text)
        except Exception as error:
            yield f"SCHEMA_VALIDATION_FAILED: {error}"


def _machine_problems(machine: Json, at: str, express: bool, outer: str = "JSONPath") -> Iterator[str]:
    missing = [name for name in ("States", "StartAt") if not isinstance(machine, dict) or name not in machine]
    if missing:
        yield f"SCHEMA_VALIDATION_FAILED: These fields are required: [{', '.join(missing)}] at {at or '/'}"
        return
    states: dict[str, State] = machine["States"]
    reached, waiting = set[str](), {(f"{at}/StartAt", machine["StartAt"])}
    while waiting:
        place, name = waiting.pop()
        if name not in states:
            yield f"MISSING_TRANSITION_TARGET: Missing 'Next' target: {name} at {place}"
        elif name not in reached:
            reached.add(name)
            waiting.update(_targets(states[name], f"{at}/States/{name}"))
    for name, state in states.items():
        place = f"{at}/States/{name}"
        if len(name) > _MOST_NAME:
            yield f"SCHEMA_VALIDATION_FAILED: State name is longer than {_MOST_NAME} characters at {place}"
        if name not in reached:
            yield f'MISSING_TRANSITION_TARGET: State "{name}" is not reachable. at {place}'
        waits = _awaited(state) if express else None
        if waits:
            told = f"Express state machine does not support '.{waits}' service integration"
            yield f"SCHEMA_VALIDATION_FAILED: {told} at {place}/Resource"
            continue
        around = machine.get("QueryLanguage", outer)
        language = state.get("QueryLanguage", around)
        if (around, language) == ("JSONata", "JSONPath"):
            told = "'QueryLanguage' can not be 'JSONPath' if set to 'JSONata' for whole state machine"
            yield f"SCHEMA_VALIDATION_FAILED: {told} at {place}"
        yield from (f"SCHEMA_VALIDATION_FAILED: {why} at {place}" for why in _state_problems(state, language))
        inside = [state["Iterator"]] if "Iterator" in state else []
        inside += [state["ItemProcessor"]] if "ItemProcessor" in state else []
        for number, one in enumerate([*inside, *state.get("Branches", ())]):
            yield from _machine_problems(one, f"{place}[{number}]", express, language)


def _targets(state: State, place: str) -> Iterator[tuple[str, Json]]:
    for name in ("Next", "Default"):
        if name in state:
            yield f"{place}/{name}", state[name]
    for name in ("Choices", "Catch"):
        for number, way in enumerate(state.get(name, ())):
            yield f"{place}/{name}[{number}]/Next", way.get("Next")


def _awaited(state: State) -> str | None:
    """What a task waits for, as its resource says it."""
    waits = str(state.get("Resource")).rpartition(".")[2].partition(":")[0]
    return waits if waits in ("sync", "waitForTaskToken") else None


def _state_problems(state: State, language: str) -> Iterator[str]:
    kind, resource = str(state.get("Type")), str(state.get("Resource"))
    fields = _FIELDS.get(kind)
    if fields is None:
        yield f"{kind} is no type of state"
        return
    unknown = sorted(state.keys() - _COMMON - set(fields.split()))
    if unknown:
        yield f"{kind} has no {', '.join(unknown)}, or not here,"
    if "End" in fields and ("Next" in state) == bool(state.get("End")):
        yield f"{kind} needs either Next or End"
    if kind == "Task" and not is_provided(resource):
        yield f"AWS does not know the resource {resource}, or the local cloud does not provide it,"
    yield from state_problems(state, language)
    yield from _retry_problems(state.get("Retry", ()))
    yield from (why for choice in state.get("Choices", ()) for why in _comparison_problems(choice))
    if language == "JSONata":
        paths = sorted(state.keys() & _OF_JSONPATH)
        yield from (f"{name} is not supported with JSONata" for name in paths)
        yield from (f"{text!r} is no JSONata expression" for text in _expressions(state) if not _is_expression(text))
        return
    result = state.get("ResultPath")
    if isinstance(result, str) and re.search(r"\*|\?|\.\.|,|:", result):
        yield f"{result!r} of ResultPath is not a valid reference path"
    yield from (f"{value!r} of {name} is not a valid JSONPath" for name, value in _paths(state) if not _is_path(value))


def _retry_problems(retriers: Json) -> Iterator[str]:
    for number, retrier in enumerate(retriers):
        names = retrier.get("ErrorEquals", ()) if isinstance(retrier, dict) else ()
        if "States.ALL" in names and (len(names) > 1 or number < len(retriers) - 1):
            yield "States.ALL can only appear alone, in the last retrier"


def _comparison_problems(choice: Json) -> Iterator[str]:
    """A value of another kind than its comparison's."""
    for name, value in choice.items() if isinstance(choice, dict) else ():
        kind = next((kind for kind in _COMPARED if name.startswith(kind) and not name.endswith("Path")), None)
        if kind is not None and (not isinstance(value, _COMPARED[kind]) or (kind == "Numeric" and value is True)):
            yield f"{name} compares a {kind.lower()}, found {value!r}"
        inner = value if isinstance(value, list) else [value] if name == "Not" else ()
        for one in inner if name in ("And", "Or", "Not") else ():
            yield from _comparison_problems(one)


def _expressions(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name not in ("ItemProcessor", "Iterator", "Branches"):
                yield from _expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _expressions(inner)
    elif isinstance(value, str) and value.startswith("{%") and value.endswith("%}"):
        yield value


def _is_expression(text: str) -> bool:
    try:
        Jsonata(text[2:-2])
    except Exception:  # whatever the parser calls it
        return False
    return True


def _paths(value: Json, *, template: bool = False) -> Iterator[tuple[str, Json]]:
    """What must be a path, by its field. States inside of states have their own turn, intrinsic functions moto's."""
    if isinstance(value, list):
        for one in value:
            yield from _paths(one, template=template)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name.endswith(".$") or (not template and (name.endswith("Path") or name == "Variable")):
                if one is not None and not str(one).startswith("States."):
                    yield name, one
            elif name not in ("Result", "ItemProcessor", "Iterator", "Branches", "Arguments", "Output"):
                yield from _paths(one, template=template or name in _TEMPLATES)


def _is_path(value: Json) -> bool:
    if not isinstance(value, str) or not value.startswith("$"):
        return False
    path = value.replace("$$", "$", 1)
    try:
        parse_path(f"$.{path[1:]}" if path[1:2].isalpha() else path)  # $name is a variable
    except (JSONPathError, AttributeError, TypeError):
        return False
    return True
