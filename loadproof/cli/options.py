"""Options that go together: a frozen dataclass a group, each field an option, as Typer's `Annotated` says it.

A group with a `HEADING` is shown under it in the verb's help; what a group inherits is shown where it was first said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, get_annotations, signature
from typing import Annotated, Any, Literal, get_args, get_type_hints

import typer

from loadproof.cli.profile_names import complete_environment

Format = Literal["text", "json"]


TextOrJson = Annotated[Format, typer.Option("--format", help="text for people, json for programs")]
OneDocument = Annotated[Format, typer.Option("--format", help="text for people; json prints one document")]
EndpointUrl = Annotated[
    str | None, typer.Option(help="AWS endpoint URL, for example a local cloud's; default: AWS_ENDPOINT_URL")
]
Env = Annotated[
    str | None,
    typer.Option(help="environment; default: the folder the profile lies in", autocompletion=complete_environment),
]


def grouped(verb: Callable[..., int]) -> Callable[..., int]:
    """The verb as Typer needs it: a parameter that is a group of options stands there as the options themselves."""
    hints = get_type_hints(verb, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    shown: list[Parameter] = []
    for name, parameter in signature(verb).parameters.items():
        shown += _options(groups[name]) if name in groups else [_option(name, parameter.default, hints[name])]

    @wraps(verb)
    def spelled_out(**given: object) -> int:
        made = {name: _made(group, given) for name, group in groups.items()}
        return verb(**made, **{name: value for name, value in given.items() if name in hints})

    spelled_out.__signature__ = Signature(shown)  # type: ignore[attr-defined]
    spelled_out.__annotations__ = {one.name: one.annotation for one in shown}
    return spelled_out


def _option(name: str, default: object, hint: object) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _options(group: Any) -> Iterator[Parameter]:
    """The options of a group, and of the groups in it."""
    hints = get_type_hints(group, include_extras=True)
    for one in fields(group):
        hint = hints[one.name]
        if is_dataclass(hint):
            yield from _options(hint)
        else:
            yield _option(one.name, one.default, _under(_heading(group, one.name), hint))


def _heading(group: Any, name: str) -> str | None:
    """Of the class that said the option first: a group inherits options together with their place."""
    first = next(above for above in reversed(group.__mro__) if name in get_annotations(above))
    return getattr(first, "HEADING", None)


def _under(heading: str | None, hint: object) -> object:
    """The same option, shown under a heading."""
    kind, *said = get_args(hint)
    option = copy(said[0])
    option.rich_help_panel = heading
    return Annotated[(kind, option, *said[1:])]


def _made(group: Any, given: Mapping[str, Any]) -> Any:
    hints = get_type_hints(group)
    return group(
        **{
            one.name: _made(hints[one.name], given) if is_dataclass(hints[one.name]) else given[one.name]
            for one in fields(group)
        }
    )
