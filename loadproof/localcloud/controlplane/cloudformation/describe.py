"""Stacks, resources and change sets as the API shows them."""

from __future__ import annotations

import json

from loadproof.localcloud.controlplane.cloudformation.changes import ChangeSet
from loadproof.localcloud.controlplane.cloudformation.stack import Resource, Stack
from loadproof.localcloud.controlplane.cloudformation.template import Template
from loadproof.localcloud.wire import known
from loadproof.wire.documents import Document

Shown = Document


def stack(one: Stack) -> Shown:
    return known(
        **summary(one),
        Description=one.template.document.get("Description") if one.template else None,
        Parameters=_parameters(one.template, one.parameters, one.resolved),
        DisableRollback=one.disable_rollback,
        Capabilities=one.capabilities,
        Outputs=[
            known(OutputKey=out.key, OutputValue=out.value, Description=out.description, ExportName=out.export)
            for out in one.outputs
        ],
        RoleARN=one.role_arn,
        Tags=[{"Key": name, "Value": value} for name, value in one.tags.items()],
        EnableTerminationProtection=one.termination_protection,
        NotificationARNs=[],
        RollbackConfiguration={},
        ChangeSetId=one.change_set_arn,
    )


_NOT_CHECKED = {"StackDriftStatus": "NOT_CHECKED"}


def summary(one: Stack) -> Shown:
    return known(
        StackId=one.arn,
        StackName=one.name,
        CreationTime=one.created,
        LastUpdatedTime=one.updated,
        DeletionTime=one.deleted,
        StackStatus=one.status,
        StackStatusReason=one.reason,
        DriftInformation=_NOT_CHECKED,
    )


def resource(owner: Stack, one: Resource) -> Shown:
    return known(
        StackName=owner.name,
        StackId=owner.arn,
        LogicalResourceId=one.logical_id,
        PhysicalResourceId=one.physical_id,
        ResourceType=one.type_name,
        Timestamp=one.updated,
        ResourceStatus=one.status,
        ResourceStatusReason=one.reason,
        DriftInformation={"StackResourceDriftStatus": "NOT_CHECKED"},
    )


def resource_detail(owner: Stack, one: Resource) -> Shown:
    shown = resource(owner, one)
    shown["LastUpdatedTimestamp"] = shown.pop("Timestamp")
    shown["Metadata"] = json.dumps(one.definition.get("Metadata", {}))
    return shown


def resource_summary(one: Resource) -> Shown:
    return known(
        LogicalResourceId=one.logical_id,
        PhysicalResourceId=one.physical_id,
        ResourceType=one.type_name,
        LastUpdatedTimestamp=one.updated,
        ResourceStatus=one.status,
        ResourceStatusReason=one.reason,
    )


def change_set(one: ChangeSet) -> Shown:
    return {
        **change_set_summary(one),
        "Parameters": _parameters(one.goal.template, one.goal.parameters, one.goal.resolved),
        "Capabilities": one.capabilities,
        "Tags": [{"Key": name, "Value": value} for name, value in one.goal.tags.items()],
        "Changes": one.changes,
        "NotificationARNs": [],
        "RollbackConfiguration": {},
    }


def change_set_summary(one: ChangeSet) -> Shown:
    return known(
        StackId=one.stack.arn,
        StackName=one.stack.name,
        ChangeSetId=one.arn,
        ChangeSetName=one.name,
        ExecutionStatus=one.execution_status,
        Status=one.status,
        StatusReason=one.reason,
        CreationTime=one.created,
        Description=one.description,
        IncludeNestedStacks=False,
    )


def template_summary(template: Template) -> Shown:
    return known(
        Parameters=[
            known(
                ParameterKey=name,
                DefaultValue=None if "Default" not in slot else str(slot["Default"]),
                ParameterType=slot.get("Type", "String"),
                NoEcho=bool(slot.get("NoEcho", False)),
                Description=slot.get("Description"),
            )
            for name, slot in template.section("Parameters").items()
        ],
        Description=template.document.get("Description"),
        ResourceTypes=sorted({one["Type"] for one in template.resources.values()}),
        ResourceIdentifierSummaries=[
            {
                "ResourceType": type_name,
                "LogicalResourceIds": [name for name, one in template.resources.items() if one["Type"] == type_name],
            }
            for type_name in sorted({one["Type"] for one in template.resources.values()})
        ],
        Version=template.document.get("AWSTemplateFormatVersion"),
        Metadata=None,
        DeclaredTransforms=[],
    )


def _parameters(template: Template | None, given: dict[str, str], resolved: Document) -> list[Shown]:
    slots = template.section("Parameters") if template else {}
    shown = []
    for name, raw in given.items():
        slot = slots.get(name, {})
        entry = {"ParameterKey": name, "ParameterValue": "****" if slot.get("NoEcho") else raw}
        if str(slot.get("Type", "")).startswith("AWS::SSM::Parameter::Value"):
            entry["ResolvedValue"] = str(resolved.get(name))
        shown.append(entry)
    return shown
