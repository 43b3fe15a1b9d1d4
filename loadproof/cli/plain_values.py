"""Values of options read by ourselves where they are plain: Typer makes a pydantic model for each, a sixth of a start.

Whatever is not plain, or wrong, is for Typer: it says what is wrong, and reads what else there is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

import typer
from typer import _coercion

if TYPE_CHECKING:
    from typer._click import Context
    from typer._click.core import Parameter
    from typer.models import ParameterInfo

_FORMS: Final[dict[Any, re.Pattern[str]]] = {
    int: re.compile(r"-?(0|[1-9][0-9]{0,14})", re.ASCII),
    float: re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII),
}


@dataclass(frozen=True)
class _Plain(_coercion.RuntimeParam):
    """Typer's own is made only for a value that is not plain."""

    descriptor: _coercion.TypeDescriptor

    def _coerce_value(self, value: Any, param: Any, ctx: Context) -> Any:
        found = plain_value(value, self.annotation, self.parameter_info)
        if found is not None:
            return found
        if value == "" and self.annotation is Path:
            raise typer.BadParameter("expected a path, found none; `.` is the folder you are in", ctx=ctx, param=param)
        try:
            return _coercion.build_runtime_param(self.descriptor)._coerce_value(value, param=param, ctx=ctx)
        except typer.BadParameter as error:
            raise typer.BadParameter(_in_words(error.message, value), ctx=ctx, param=param) from None


def _in_words(said: str, value: object) -> str:
    """Pydantic's words, which Typer shows as they are, as those of every other message."""
    if said.startswith("Input should be "):
        wanted = said.removeprefix("Input should be ").partition(", unable to")[0]
        return f"expected {'a number ' if wanted.startswith(('greater', 'less')) else ''}{wanted}, found {value!r}"
    return said.removeprefix("Value error, ")


def read_plainly(params: Iterable[Parameter]) -> None:
    """Have the values of these options and arguments read so."""
    for param in params:
        descriptor = getattr(param, "type_descriptor", None)
        if descriptor is not None and getattr(param, "_runtime_param", descriptor) is None:
            own = _Plain(descriptor.parameter_info, descriptor.annotation, descriptor)
            param._runtime_param = own  # type: ignore[attr-defined]


def plain_value(value: Any, annotation: Any, info: ParameterInfo) -> Any:
    """What a value means, as Typer takes it; None: ask Typer."""
    if info.parser is not None or info.clamp or info.path_type is not None:
        return None
    if get_origin(annotation) is list:
        found = [plain_value(one, get_args(annotation)[0], info) for one in value]
        return None if None in found else found
    if get_origin(annotation) is Literal:
        return value if value in get_args(annotation) else None
    if annotation is str:
        return value if type(value) is str else None
    if annotation is Path:
        return Path(value) if _is_plain_path(value, info) else None
    form = _FORMS.get(annotation)
    if form is None:
        return None
    if type(value) is str and form.fullmatch(value):
        value = annotation(value)
    inside = type(value) is annotation and (info.min is None or value >= info.min)
    return value if inside and (info.max is None or value <= info.max) else None


def _is_plain_path(value: Any, info: ParameterInfo) -> bool:
    """Of a file or folder that need not be there, and may be read where it is."""
    if value == "":
        return False
    unusual = info.exists or info.writable or info.resolve_path or info.allow_dash
    if unusual or not (info.file_okay and info.dir_okay) or not isinstance(value, str | Path):
        return False
    return os.access(value, os.R_OK) or not os.path.lexists(value)
