"""The lines of a run's stream as a JSON Schema, and back from JSON."""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import Field, TypeAdapter

from loadproof.bench.live.lines import Line
from loadproof.bench.schema import DIALECT, schema_of

_FRAME = {
    "seq": {"description": "number of the line, from 0; one is left out where the reader was slow", "type": "integer"},
    "unix_s": {"description": "when it was published, in seconds of Unix time", "type": "number"},
}
_lines: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="type")])


def parsed(row: object) -> Line:
    """A line as another process told it."""
    return _lines.validate_python(row)


def live_schema() -> dict[str, object]:
    """JSON Schema of one line of `--live`."""
    kinds: dict[str, object] = {}
    shared: dict[str, object] = {}
    for kind in get_args(Line):
        whole, parts = schema_of(kind)
        whole["properties"] = _FRAME | whole["properties"]
        whole["required"] = [*_FRAME, *whole.get("required", ()), "type"]
        kinds[kind.__name__] = whole
        shared |= parts
    return {
        "$schema": DIALECT,
        "title": "Loadproof run: a line of --live",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in kinds],
        "$defs": kinds | shared,
    }
