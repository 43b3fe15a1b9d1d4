"""Taking resources away: after an update, in a rollback, with the stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from loadproof.localcloud.controlplane.cloudformation.faults import already_gone, reason_of
from loadproof.localcloud.controlplane.cloudformation.resources.base import ResourceType, Work
from loadproof.localcloud.controlplane.cloudformation.stack import Resource, Stack
from loadproof.localcloud.controlplane.cloudformation.template import Template, invalid

WorkOf = Callable[[Stack, str], Work]


def check_retained(stack: Stack, names: Sequence[str]) -> None:
    """Raises AwsError unless `names` are left of a deletion that failed."""
    if stack.status != "DELETE_FAILED":
        raise invalid(
            f"Invalid operation on stack [{stack.arn}]. You can specify which resources to retain only when the stack "
            "is in the DELETE_FAILED state."
        )
    if not set(names) <= stack.resources.keys():
        raise invalid(
            "The specified resources to retain must be in a valid state. Do not specify resources that are in the "
            "DELETE_COMPLETE state."
        )


def removal_order(stack: Stack, template: Template) -> list[str]:
    """What the stack holds, dependents first."""
    order = [name for name in reversed(template.order) if name in stack.resources]
    return order + [name for name in stack.resources if name not in order]


class Remover:
    """Removes resources one by one, each with its events."""

    def __init__(self, types: dict[str, ResourceType], work_of: WorkOf) -> None:
        self._types = types
        self._work_of = work_of

    def clean_up(self, stack: Stack, resources: Iterable[Resource], policy: str) -> None:
        """Remove what is no longer needed; as on AWS, a failure here is told but does not fail the update."""
        for resource in resources:
            if policy and resource.retained(policy):
                stack.tell(resource, "DELETE_SKIPPED")
                continue
            self.delete_one(stack, resource)

    def delete_all(self, stack: Stack, *, creating: bool = False, retained: Sequence[str] = ()) -> list[str]:
        """Remove every resource but the `retained`, dependents first; returns the names of those that would not go."""
        assert stack.template is not None
        failed = []
        for name in removal_order(stack, stack.template):
            resource = stack.resources[name]
            if not resource.physical_id:
                stack.resources.pop(name)
            elif name in retained or resource.retained("DeletionPolicy", creating=creating):
                stack.tell(resource, "DELETE_SKIPPED")
                stack.resources.pop(name)
            elif self.delete_one(stack, resource):
                stack.resources.pop(name)
            else:
                failed.append(name)
        return failed

    def delete_one(self, stack: Stack, resource: Resource) -> bool:
        stack.tell(resource, "DELETE_IN_PROGRESS")
        try:
            work = self._work_of(stack, resource.logical_id)
            self._types[resource.type_name].delete(work, resource.physical_id, resource.properties)
        except Exception as error:
            if not already_gone(error):
                stack.tell(resource, "DELETE_FAILED", reason_of(error))
                return False
        stack.tell(resource, "DELETE_COMPLETE")
        return True
