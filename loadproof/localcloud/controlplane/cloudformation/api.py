"""CloudFormation's operations, joined into what the wire calls."""

from __future__ import annotations

from loadproof.localcloud.controlplane.cloudformation.change_set_operations import ChangeSetOperations
from loadproof.localcloud.controlplane.cloudformation.stack_operations import StackOperations


class CloudFormationApi(StackOperations, ChangeSetOperations):
    """All operations; what they share is in `Registry`."""
