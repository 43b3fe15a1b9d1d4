"""Where pages' templates come from: a package's folder, escaping whatever they are given, compiled once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from jinja2 import BytecodeCache, Environment, FunctionLoader, StrictUndefined
from jinja2.bccache import Bucket


def page_environment(package: str, **filters: Callable[..., object]) -> Environment:
    """The templates of a package, with filters of its own."""
    folder = files(package)
    found = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        bytecode_cache=_BesideModules(Path(str(folder)) / "__pycache__"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= filters
    return found


class _BesideModules(BytecodeCache):
    """As Python keeps what it compiled of modules: where it may write, and of the same text alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError), self._place(bucket).open("rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        if sys.dont_write_bytecode:
            return
        place = self._place(bucket)
        unfinished = place.with_name(f"{place.name}.{id(bucket)}")
        with suppress(OSError):
            unfinished.write_bytes(bucket.bytecode_to_string())
            unfinished.replace(place)

    def _place(self, bucket: Bucket) -> Path:
        return self._folder / f"{bucket.key}.{sys.implementation.cache_tag}.j2c"
