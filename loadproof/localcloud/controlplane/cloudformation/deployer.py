"""Applying a template: create, update with replacement, roll back, clean up, delete.

The order is CloudFormation's: dependencies first; a replacement is made before the old resource goes; what an update
no longer needs is removed last; a failure restores what was there and says why in the stack's events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from loadproof.localcloud.controlplane.cloudformation.faults import StoppedError, reason_of
from loadproof.localcloud.controlplane.cloudformation.removal import Remover, WorkOf, removal_order
from loadproof.localcloud.controlplane.cloudformation.resources.base import ResourceFailedError, ResourceType
from loadproof.localcloud.controlplane.cloudformation.schemas import schema_of
from loadproof.localcloud.controlplane.cloudformation.stack import (
    Output,
    Resource,
    Stack,
    attribute_of,
    needs_replacement,
)
from loadproof.localcloud.controlplane.cloudformation.template import Resolver, Template
from loadproof.localcloud.wire import AwsError
from loadproof.wire.documents import Document, Json

_DYNAMIC = re.compile(r"\{\{resolve:[^}]*\}\}")


@dataclass(frozen=True, slots=True)
class Goal:
    """What a stack is to become."""

    template: Template
    parameters: dict[str, str]
    resolved: Document
    tags: dict[str, str]


class Deployer:
    """Runs one operation on one stack at a time; `types` are the resource types provided here."""

    def __init__(
        self,
        types: dict[str, ResourceType],
        work_of: WorkOf,
        imports: Callable[[Stack, str], str],
        check_exports: Callable[[Stack, list[Output]], None],
    ) -> None:
        self._types = types
        self._work_of = work_of
        self._remover = Remover(types, work_of)
        self._imports = imports
        self._check_exports = check_exports

    def create(self, stack: Stack, goal: Goal) -> None:
        """CREATE_COMPLETE, or ROLLBACK_COMPLETE with nothing left behind."""
        self._adopt(stack, goal)
        try:
            for name in self._wanted(stack, goal):
                self._create_one(stack, goal, name)
            stack.outputs = self._outputs(stack, goal)
            stack.move("CREATE_COMPLETE")
        except (StoppedError, AwsError) as stopped:
            self._roll_back_creation(stack, stopped.reason if isinstance(stopped, StoppedError) else stopped.message)

    def update(self, stack: Stack, goal: Goal) -> None:
        """UPDATE_COMPLETE, or UPDATE_ROLLBACK_COMPLETE with everything as it was."""
        assert stack.template is not None
        before = Goal(stack.template, stack.parameters, stack.resolved, stack.tags)
        journal = _Journal()
        self._adopt(stack, goal)
        try:
            wanted = self._wanted(stack, goal)
            for name in wanted:
                self._apply_one(stack, goal, name, journal)
            outputs = self._outputs(stack, goal)
        except (StoppedError, AwsError) as stopped:
            reason = stopped.reason if isinstance(stopped, StoppedError) else stopped.message
            self._roll_back_update(stack, before, journal, reason)
            return
        stack.outputs = outputs
        stack.move("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        removed = [stack.resources[name] for name in removal_order(stack, before.template) if name not in wanted]
        self._remover.clean_up(stack, journal.replaced, "UpdateReplacePolicy")
        self._remover.clean_up(stack, removed, "DeletionPolicy")
        for resource in removed:
            stack.resources.pop(resource.logical_id, None)
        stack.move("UPDATE_COMPLETE")

    def delete(self, stack: Stack, retained: Sequence[str]) -> None:
        """DELETE_COMPLETE, or DELETE_FAILED naming what would not go; `retained` stay, whatever becomes of the rest."""
        failed = self._remover.delete_all(stack, retained=retained)
        if failed:
            stack.move("DELETE_FAILED", f"The following resource(s) failed to delete: [{', '.join(failed)}].")
        else:
            stack.move("DELETE_COMPLETE")

    def _adopt(self, stack: Stack, goal: Goal) -> None:
        stack.template, stack.parameters = goal.template, goal.parameters
        stack.resolved, stack.tags = goal.resolved, goal.tags

    def resolver(self, stack: Stack, goal: Goal) -> Resolver:
        """Evaluates functions against what the stack holds now."""

        def lookup(name: str, attribute: str | None) -> Json:
            resource = stack.resources.get(name)
            if resource is None:
                raise AwsError("ValidationError", f"Template error: resource {name} does not exist in this stack")
            return attribute_of(resource, attribute)

        return Resolver(goal.template, goal.resolved, lookup, lambda name: self._imports(stack, name))

    def _wanted(self, stack: Stack, goal: Goal) -> list[str]:
        """Logical ids to exist afterwards, dependencies first; a false condition leaves a resource out."""
        resolver = self.resolver(stack, goal)
        resources = goal.template.resources
        return [
            name
            for name in goal.template.order
            if "Condition" not in resources[name] or resolver.condition(resources[name]["Condition"])
        ]

    def _outputs(self, stack: Stack, goal: Goal) -> list[Output]:
        resolver = self.resolver(stack, goal)
        outputs = []
        for name, entry in goal.template.section("Outputs").items():
            if "Condition" in entry and not resolver.condition(entry["Condition"]):
                continue
            value = resolver.resolve(entry.get("Value"))
            export = resolver.resolve(entry["Export"]["Name"]) if "Export" in entry else None
            outputs.append(Output(name, str(value), entry.get("Description"), export))
        self._check_exports(stack, outputs)
        return outputs

    def _create_one(self, stack: Stack, goal: Goal, name: str, verb: str = "CREATE") -> Resource:
        """Create one resource and put it in the stack's place for it; `verb` is UPDATE for a replacement.

        Raises StoppedError.
        """
        definition = goal.template.resources[name]
        fresh = Resource(name, definition["Type"], "", {}, {}, definition, stack_tags=goal.tags)
        if verb == "CREATE":
            stack.tell(fresh, "CREATE_IN_PROGRESS")
        previous = stack.resources.get(name)
        try:
            fresh.properties = self._checked(stack, goal, name)
            kind = self._types[definition["Type"]]
            fresh.physical_id, fresh.attributes, said = kind.create(self._work_of(stack, name), fresh.properties)
        except Exception as error:
            fresh.physical_id = getattr(error, "physical_id", "")
            stack.tell(fresh, f"{verb}_FAILED", reason_of(error))
            if previous is None:
                stack.resources[name] = fresh
            raise StoppedError(fresh, f"The following resource(s) failed to {verb.lower()}: [{name}]. ") from error
        stack.resources[name] = fresh
        stack.tell(fresh, f"{verb}_IN_PROGRESS", "Resource creation Initiated")
        stack.tell(fresh, f"{verb}_COMPLETE", said)
        return fresh

    def _checked(self, stack: Stack, goal: Goal, name: str) -> Document:
        """Resolved properties, after AWS's schema and our own list of what has an effect here."""
        definition = goal.template.resources[name]
        type_name = definition["Type"]
        try:
            kind = self._types[type_name]
        except KeyError:
            raise ResourceFailedError(f"The local cloud does not provide resource type {type_name}.") from None
        properties: Document = self.resolver(stack, goal).resolve(definition.get("Properties", {}))
        schema = schema_of(type_name, stack.caller.region)
        problems = schema.problems(properties) if schema else []
        if problems:
            raise ResourceFailedError(
                "Properties validation failed for resource " + name + ": " + "; ".join(problems[:5])
            )
        dynamic = _DYNAMIC.search(json.dumps(properties))
        if dynamic:
            raise ResourceFailedError(f"The local cloud does not provide dynamic references: {dynamic.group()}.")
        unsupported = sorted(properties.keys() - kind.supported) if kind.supported is not None else []
        if unsupported:
            raise ResourceFailedError(
                f"The local cloud does not provide {', '.join(unsupported)} of {type_name} (AWS does)."
            )
        tags = properties.get("Tags", [])
        names = list(tags) if isinstance(tags, dict) else [tag["Key"] for tag in tags]
        if len(set(names)) != len(names):
            raise ResourceFailedError(f"Duplicate tag keys found: {', '.join(names)}.")
        if any(name.lower().startswith("aws:") for name in names):
            raise ResourceFailedError("aws: prefixed tag key names are not allowed for external use.")
        return properties

    def _apply_one(self, stack: Stack, goal: Goal, name: str, journal: _Journal) -> None:
        """Bring one resource to the goal: create, leave, update in place, or replace."""
        old = stack.resources.get(name)
        if old is None:
            journal.created.append(self._create_one(stack, goal, name))
            return
        try:
            new = self._checked(stack, goal, name)
        except Exception as error:
            stack.tell(old, "UPDATE_FAILED", reason_of(error))
            raise StoppedError(old, f"The following resource(s) failed to update: [{name}]. ") from error
        definition = goal.template.resources[name]
        if new == old.properties and not self._retagged(old, goal):
            old.definition = definition
            return
        if needs_replacement(old, new, stack.caller.region):
            self._replace(stack, goal, old, new, journal)
        else:
            self._update_in_place(stack, goal, old, new, journal)

    def _retagged(self, old: Resource, goal: Goal) -> bool:
        return old.stack_tags != goal.tags and "Tags" in (self._types[old.type_name].supported or ())

    def _update_in_place(self, stack: Stack, goal: Goal, old: Resource, new: Document, journal: _Journal) -> None:
        kind = self._types[old.type_name]
        stack.tell(old, "UPDATE_IN_PROGRESS")
        try:
            attributes = kind.update(self._work_of(stack, old.logical_id), old.physical_id, old.properties, new)
        except Exception as error:
            if getattr(error, "physical_id", ""):  # accepted, then failed: the service must be told the old ones again
                journal.updated.append((replace(old), new))
            stack.tell(old, "UPDATE_FAILED", reason_of(error))
            raise StoppedError(old, f"The following resource(s) failed to update: [{old.logical_id}]. ") from error
        if attributes is None:
            self._replace(stack, goal, old, new, journal)
            return
        journal.updated.append((replace(old), new))
        definition = goal.template.resources[old.logical_id]
        updated = replace(old, properties=new, attributes=attributes, definition=definition, stack_tags=goal.tags)
        stack.resources[old.logical_id] = updated
        stack.tell(updated, "UPDATE_COMPLETE")

    def _replace(self, stack: Stack, goal: Goal, old: Resource, new: Document, journal: _Journal) -> None:
        kind = self._types[goal.template.resources[old.logical_id]["Type"]]
        stack.tell(
            old,
            "UPDATE_IN_PROGRESS",
            "Requested update requires the creation of a new physical resource; hence creating one.",
        )
        name_property = kind.name_property
        same_type = goal.template.resources[old.logical_id]["Type"] == old.type_name
        if (
            same_type
            and name_property
            and name_property in new
            and new[name_property] == old.properties.get(name_property)
        ):
            reason = (
                "CloudFormation cannot update a stack when a custom-named resource requires replacing. "
                f"Rename {new[name_property]} and update the stack again."
            )
            stack.tell(old, "UPDATE_FAILED", reason)
            raise StoppedError(old, f"The following resource(s) failed to update: [{old.logical_id}]. ")
        journal.replaced.append(replace(old))
        try:
            fresh = self._create_one(stack, goal, old.logical_id, "UPDATE")
        except StoppedError as stopped:
            journal.replaced.pop()
            if stopped.resource.physical_id:
                journal.replacements.append(stopped.resource)
            raise
        journal.replacements.append(fresh)

    def _roll_back_creation(self, stack: Stack, reason: str) -> None:
        if stack.disable_rollback:
            stack.move("CREATE_FAILED", reason)
            return
        stack.move("ROLLBACK_IN_PROGRESS", reason + "Rollback requested by user.")
        failed = self._remover.delete_all(stack, creating=True)
        if failed:
            stack.move("ROLLBACK_FAILED", f"The following resource(s) failed to delete: [{', '.join(failed)}].")
        else:
            stack.move("ROLLBACK_COMPLETE")

    def _roll_back_update(self, stack: Stack, before: Goal, journal: _Journal, reason: str) -> None:
        """Old properties back in place, old resources back in the stack, new ones removed."""
        if stack.disable_rollback:
            stack.move("UPDATE_FAILED", reason)
            return
        stack.move("UPDATE_ROLLBACK_IN_PROGRESS", reason)
        self._adopt(stack, before)
        failed = []
        for old, tried in reversed(journal.updated):
            current = stack.resources[old.logical_id]
            stack.tell(current, "UPDATE_IN_PROGRESS")
            try:
                work = self._work_of(stack, old.logical_id)
                self._types[old.type_name].update(work, old.physical_id, tried, old.properties)
            except Exception as error:
                stack.tell(current, "UPDATE_FAILED", reason_of(error))
                failed.append(old.logical_id)
                continue
            stack.resources[old.logical_id] = old
            stack.tell(old, "UPDATE_COMPLETE")
        for old in journal.replaced:
            stack.resources[old.logical_id] = old
            stack.tell(old, "UPDATE_COMPLETE")
        for name in stack.resources.keys() & before.template.resources.keys():
            stack.resources[name].definition = before.template.resources[name]
        if failed:
            stack.move("UPDATE_ROLLBACK_FAILED", f"The following resource(s) failed to update: [{', '.join(failed)}].")
            return
        stack.move("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")
        failures = [one for one in stack.resources.values() if one.status == "CREATE_FAILED"]
        half_made = [one for one in failures if one.physical_id]
        self._remover.clean_up(stack, [*half_made, *journal.replacements, *reversed(journal.created)], "")
        for resource in [*journal.created, *failures]:
            stack.resources.pop(resource.logical_id, None)
        stack.move("UPDATE_ROLLBACK_COMPLETE")


@dataclass(slots=True)
class _Journal:
    """What an update has done so far, in order, so that it can be undone."""

    created: list[Resource] = field(default_factory=list)
    updated: list[tuple[Resource, Document]] = field(default_factory=list)  # as it was, and the properties it was given
    replaced: list[Resource] = field(default_factory=list)
    replacements: list[Resource] = field(default_factory=list)
