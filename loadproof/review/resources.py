"""What a deployment does to each resource: add, update, replace, remove. By logical id, from two sets of templates.

A replacement goes on to whatever refers to the replaced resource in a create-only property, also through exports from
one stack to another; elsewhere a reference to it is an update. Parameters and conditions are taken as changed values
where their definition changed. `Metadata` and `DependsOn` change nothing that runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from loadproof.review.definitions import part, with_definitions
from loadproof.review.leaves import ABSENT, Path, differing
from loadproof.review.model import PropertyChange, ResourceChange
from loadproof.review.references import EXPORT, is_function, references
from loadproof.review.schemas import BY_DESIGN, Replaces, is_known, replacement
from loadproof.review.values import shown_pair

Template = Mapping[str, object]
Bodies = Mapping[str, Template]  # resources by logical id
Changes = dict[tuple[str, str], ResourceChange]  # by stack and logical id
_IGNORED: Final = frozenset({"AWS::CDK::Metadata"})  # says which libraries made the template
_ATTRIBUTES: Final = ("Condition", "DeletionPolicy", "UpdateReplacePolicy", "UpdatePolicy", "CreationPolicy")
_KEPT: Final = ("Retain", "RetainExceptOnCreate")
TYPE: Final = "Type"  # the path of a changed type: CloudFormation refuses it under one logical id


@dataclass(frozen=True, slots=True)
class _Gone:
    """Why references to a logical id (or export) change: its resource is replaced, or only may be."""

    cause: str
    possible: bool


def resource_changes(before: Mapping[str, Template], after: Mapping[str, Template]) -> tuple[ResourceChange, ...]:
    """Every resource that is not the same, by stack and logical id. Templates by stack name; none for no stack."""
    sides = {
        stack: with_definitions(before.get(stack, {}), after.get(stack, {}))
        for stack in sorted(before.keys() | after.keys())
    }
    changes = {
        (stack, change.logical_id): change
        for stack, (old, new) in sides.items()
        for change in _own_changes(stack, _resources(old), _resources(new))
    }
    _propagate(changes, sides)
    return tuple(changes[key] for key in sorted(changes))


def macros(templates: Mapping[str, Template]) -> tuple[str, ...]:
    """Stacks whose templates AWS itself rewrites (`Transform`, `Fn::ForEach`): what comes out is not seen here."""
    return tuple(
        stack
        for stack in sorted(templates)
        if templates[stack].get("Transform")
        or any(name.startswith("Fn::") for name in part(templates[stack], "Resources"))
    )


def unknown_types(changes: Iterable[ResourceChange]) -> tuple[str, ...]:
    """Types among the updates of which nobody here knows what replaces them."""
    return tuple(sorted({change.type for change in changes if change.action == "update" and not is_known(change.type)}))


def _own_changes(stack: str, before: Bodies, after: Bodies) -> Iterator[ResourceChange]:
    for logical_id in sorted(before.keys() | after.keys()):
        old, new = before.get(logical_id), after.get(logical_id)
        if new is None and old is not None:
            kept = old.get("DeletionPolicy") in _KEPT
            yield ResourceChange(stack, logical_id, str(old["Type"]), "remove", kept=kept)
        elif old is None and new is not None:
            yield ResourceChange(stack, logical_id, str(new["Type"]), "add")
        elif old is not None and new is not None:
            yield from _changed(stack, logical_id, old, new)


def _changed(stack: str, logical_id: str, old: Template, new: Template) -> Iterator[ResourceChange]:
    """At most one change of a resource that both sides have."""
    kind = str(new["Type"])
    if old["Type"] != new["Type"]:
        typed = PropertyChange(TYPE, old["Type"], new["Type"], replaces=True)
        yield ResourceChange(stack, logical_id, kind, "replace", (typed,), kept=_outlives(old, new))
        return
    properties, possible = [], True
    for path, one, other in differing(part(old, "Properties"), part(new, "Properties")):
        effect = replacement(kind, path)
        possible = possible and effect != "will"
        properties.append(_property_change(path, one, other, replaces=effect != "no"))
    for name in _ATTRIBUTES:
        for path, one, other in differing(old.get(name, ABSENT), new.get(name, ABSENT), (name,)):
            properties.append(_property_change(path, one, other, replaces=False))
    if not properties:
        return
    change = ResourceChange(stack, logical_id, kind, "update", tuple(properties))
    replaced = any(found.replaces for found in properties)
    yield _as_replaced(change, old, new, "", possible=possible) if replaced else change


def _property_change(path: Path, before: object, after: object, *, replaces: bool) -> PropertyChange:
    old, new = (None if value is ABSENT else value for value in (before, after))
    shown_old, shown_new = shown_pair(old, new, path)
    return PropertyChange("/".join(path), shown_old, shown_new, replaces)


def _as_replaced(change: ResourceChange, old: Template, new: Template, cause: str, *, possible: bool) -> ResourceChange:
    return replace(
        change,
        action="replace",
        cause=cause,
        expected=change.type in BY_DESIGN,
        kept=_outlives(old, new),
        possible=possible,
    )


def _outlives(old: Template, new: Template) -> bool:
    """Both sides must say so: which one counts, AWS does not write."""
    return all(side.get("UpdateReplacePolicy") in _KEPT for side in (old, new))


def _propagate(changes: Changes, sides: Mapping[str, tuple[Template, Template]]) -> None:
    """Replacements go on until nothing new is replaced; then what merely refers to one of them is updated."""
    while True:
        gone = {stack: _gone(stack, changes, sides) for stack in sides}
        found = [
            (stack, logical_id, changed)
            for stack, (old, new) in sides.items()
            for logical_id, changed in _caused(stack, changes, _resources(old), _resources(new), gone[stack])
        ]
        for stack, logical_id, changed in found:
            changes[stack, logical_id] = changed
        if not any(changed.action == "replace" for _, _, changed in found):
            return


def _gone(stack: str, changes: Changes, sides: Mapping[str, tuple[Template, Template]]) -> dict[str, _Gone]:
    """What a stack's references may find replaced: its own logical ids, and exports of every stack."""
    replaced = {key: change for key, change in changes.items() if change.action == "replace"}
    found = {
        logical_id: _Gone(logical_id, change.possible) for (at, logical_id), change in replaced.items() if at == stack
    }
    for other, (_, template) in sides.items():
        for output in part(template, "Outputs").values():
            exported = isinstance(output, Mapping) and part(output, "Export").get("Name")
            name, value = (exported, output.get("Value")) if isinstance(exported, str) else ("", None)
            for target in references(value):
                if (other, target) in replaced:
                    found[EXPORT + name] = _Gone(f"{other}.{target}", replaced[other, target].possible)
    return found


def _caused(
    stack: str, changes: Changes, before: Bodies, after: Bodies, gone: Mapping[str, _Gone]
) -> Iterator[tuple[str, ResourceChange]]:
    """Resources whose references lead to something replaced, and that do not say so yet."""
    for logical_id, new in after.items():
        old, own = before.get(logical_id), changes.get((stack, logical_id))
        if old is None or old["Type"] != new["Type"]:
            continue
        found = list(_referring(str(new["Type"]), part(new, "Properties"), gone))
        if not found:
            continue
        changed = _following(own or ResourceChange(stack, logical_id, str(new["Type"]), "update"), found, old, new)
        if changed != own:
            yield logical_id, changed


def _following(
    change: ResourceChange, found: Sequence[tuple[Path, _Gone, Replaces]], old: Template, new: Template
) -> ResourceChange:
    """The change with what its references bring about: a replacement, or an update it had no other reason for."""
    causes: dict[Replaces, str] = {}
    for _, target, effect in found:
        causes.setdefault(effect, target.cause)
    changed = _with(change, found)
    if "will" not in causes and "may" not in causes:
        return changed if change.properties else replace(changed, cause=causes["no"])
    surely = "will" in causes
    if change.action == "replace" and not (change.possible and surely):
        return changed
    return _as_replaced(changed, old, new, causes["will" if surely else "may"], possible=not surely)


def _referring(kind: str, properties: Template, gone: Mapping[str, _Gone]) -> Iterator[tuple[Path, _Gone, Replaces]]:
    """(path, what it refers to, `will`, `may` or `no`) of every value that refers to something replaced."""
    for path, value in _values(properties, ()):
        target = next((gone[name] for name in references(value) if name in gone), None)
        if target is not None:
            effect = replacement(kind, path)
            yield path, target, "may" if effect == "will" and target.possible else effect


def _values(value: object, path: Path) -> Iterator[tuple[Path, object]]:
    """Functions with their paths: only they refer to anything."""
    if is_function(value):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _values(item, (*path, str(key)))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _values(item, (*path, str(at)))


def _with(change: ResourceChange, found: Iterable[tuple[Path, _Gone, Replaces]]) -> ResourceChange:
    """The change with the properties whose value follows from a replacement, where they do not differ anyway."""
    listed = {one.path for one in change.properties}
    added = tuple(
        PropertyChange("/".join(path), f"the old {target.cause}", f"the new {target.cause}", effect != "no")
        for path, target, effect in found
        if "/".join(path) not in listed
    )
    return replace(change, properties=(*change.properties, *added))


def _resources(template: Template) -> Bodies:
    return {
        logical_id: body
        for logical_id, body in part(template, "Resources").items()
        if isinstance(body, Mapping) and isinstance(body.get("Type"), str) and body["Type"] not in _IGNORED
    }
