"""Reads the tables of facts about AWS, and the ledger of those that the local cloud does not match.

`recorded/*.yaml` are distilled from answers recorded from AWS (LocalStack's test suite, @8b9a79f, Apache License 2.0):
`of` names the test behind each. `refused/*.yaml` are refusals that AWS documents: `why` names the constraint. A file is
one service. README.md says how a fact is written.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Fact:
    """One thing asked of AWS and what it answered; `table` is the file that tells it."""

    table: str
    name: str
    said: dict[str, Any]

    @property
    def service(self) -> str:
        """boto3's name of the service."""
        return str(self.said["service"])

    @property
    def key(self) -> str:
        """As the ledger names it."""
        return f"{self.table}/{self.name}"


class _Loader(yaml.CSafeLoader):
    """Tags for what is long or binary: `!long [a, 65]`, `!list [value, 20]`, `!json`, `!now seconds`, `!bytes`..."""


def _value(loader: _Loader, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    assert isinstance(node, yaml.MappingNode)
    return loader.construct_mapping(node, deep=True)


def _items(value: Any, count: int) -> list[Any]:
    """`count` copies; `$i` in them is the place in the list."""
    text = json.dumps(value)
    return [json.loads(text.replace("$i", str(index))) for index in range(count)]


def _zip(source: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("index.py", source)
    return file.getvalue()


_TAGS: dict[str, Any] = {
    "!long": lambda value: value[0] * value[1],
    "!list": lambda value: _items(*value),
    "!keys": lambda value: dict.fromkeys(_items(value[0], value[2]), value[1]),
    "!json": json.dumps,
    "!now": lambda value: datetime.now(UTC) + timedelta(seconds=float(value)),
    "!nan": lambda value: float("nan"),
    "!zip": _zip,
    "!bytes": lambda value: value.encode("latin-1"),
}


def _made(make: Any, loader: _Loader, node: yaml.Node) -> Any:
    return make(_value(loader, node))


for _tag, _make in _TAGS.items():
    _Loader.add_constructor(_tag, partial(_made, _make))


def read_table(path: Path) -> Iterator[Fact]:
    """The facts of one file, those told row by row among them."""
    told = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    common = {"service": told.get("service", path.stem)}
    for row in told.get("facts", []):
        yield Fact(path.stem, row["is"], {**common, **row})
    lists = {"intrinsics": _intrinsics, "choices": _choices, "definitions": _definitions}
    for said in (said for name, read in lists.items() for said in read(told.get(name, []))):
        yield Fact(path.stem, said["is"], {**common, **said})
    bases = told.get("bases", {})
    for base, change, code, why in told.get("rows", []):
        yield _row(path.stem, common, base, bases[base], change, code, why)


def _intrinsics(rows: list[list[Any]]) -> Iterator[dict[str, Any]]:
    """[expression, input, its value, the test]: a Pass state that asks for it."""
    for expression, given, value, test in rows:
        state = {"Type": "Pass", "Parameters": {"r.$": expression}, "End": True}
        gets = {"status": "SUCCEEDED", "output.r": value}
        yield {
            "is": f"{expression} of {_short(given)}",
            "of": test,
            "run": _machine(state),
            "input": given,
            "gets": gets,
        }


def _choices(rows: list[list[Any]]) -> Iterator[dict[str, Any]]:
    """[comparison, input, whether it holds, the test]: a Choice that asks for it."""
    for comparison, given, holds, test in rows:
        choice = {"Type": "Choice", "Choices": [{**comparison, "Next": "Yes"}], "Default": "No"}
        ends = {name: {"Type": "Pass", "Result": name == "Yes", "End": True} for name in ("Yes", "No")}
        gets = {"status": "SUCCEEDED", "output": holds}
        words = f"{_short(comparison)} of {_short(given)}"
        yield {"is": words, "of": test, "run": _machine(choice, **ends), "input": given, "gets": gets}


def _definitions(rows: list[list[Any]]) -> Iterator[dict[str, Any]]:
    """[state, why]: a machine of this state, and of a state `E` after a Choice, that is not taken."""
    for state, why in rows:
        others = {"E": {"Type": "Succeed"}} if state["Type"] == "Choice" else {}
        asked = {"name": "$name", "roleArn": "$role", "definition": json.dumps(_machine(state, **others))}
        call = ["create_state_machine", asked]
        yield {"is": f"a {state['Type']}: {why}", "why": why, "call": call, "error": "InvalidDefinition"}


def _machine(first: dict[str, Any], **others: dict[str, Any]) -> dict[str, Any]:
    return {"StartAt": "S", "States": {"S": first, **others}}


def _row(
    table: str, common: dict[str, Any], base: str, said: dict[str, Any], change: dict[str, Any], code: str, why: str
) -> Fact:
    """A valid request with something changed in it."""
    asked = deepcopy(said)
    params = asked["call"][1] if "call" in asked else _properties(asked["stack"])
    for path, value in change.items():
        _put(params, path.split("."), value)
    words = ", ".join(f"{path} {_short(value)}" for path, value in change.items())
    if "…" in words:
        words += f" [{why}]"
    outcome = {"error": code} if code else {}
    return Fact(table, f"{base}: {words}", {**common, **asked, **outcome, "why": why})


def _properties(template: dict[str, Any]) -> dict[str, Any]:
    """What a row changes: the properties of the template's resource `R`."""
    properties: dict[str, Any] = template["Resources"]["R"]["Properties"]
    return properties


def _put(params: Any, path: list[str], value: Any) -> None:
    for part in path[:-1]:
        params = params[int(part)] if isinstance(params, list) else params.setdefault(part, {})
    last: Any = int(path[-1]) if isinstance(params, list) else path[-1]
    if value is None:
        params.pop(last, None)
    else:
        params[last] = value


def _short(value: Any) -> str:
    if value is None:
        return "missing"
    text = value if isinstance(value, str) else json.dumps(value, default=lambda other: "…", ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:16]}… ({len(text)})"


def recorded() -> list[Fact]:
    """Facts recorded from AWS, in the order of their files."""
    return _tables("recorded")


def refused() -> list[Fact]:
    """Refusals that AWS documents."""
    return _tables("refused")


def bases() -> list[Fact]:
    """The requests that rows change something in, as they are; those that are wrong as they are say so in `error`."""
    found = []
    for path in sorted((HERE / "refused").glob("*.yaml")):
        told = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
        common = {"service": told.get("service", path.stem)}
        found += [Fact(path.stem, name, {**common, **said}) for name, said in told.get("bases", {}).items()]
    return found


def _tables(folder: str) -> list[Fact]:
    facts = [fact for path in sorted((HERE / folder).glob("*.yaml")) for fact in read_table(path)]
    keys = [fact.key for fact in facts]
    twice = {key for key in keys if keys.count(key) > 1}
    assert not twice, f"told twice: {sorted(twice)}"
    return facts


def ledger(folder: str) -> dict[str, tuple[str, str]]:
    """Fact's key -> ("by design" or "open", reason)."""
    told = yaml.safe_load((HERE / f"{folder}_ledger.yaml").read_text(encoding="utf-8")) or {}
    return {
        f"{table}/{name}": (kind, reason)
        for table, rows in told.items()
        for kind, names in rows.items()
        for name, reason in names.items()
    }
