"""AWS::StepFunctions::StateMachine."""

from __future__ import annotations

import json
import re

from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    ResourceFailedError,
    ResourceType,
    Work,
    names,
    picked,
    tag_rows,
)
from loadproof.wire.documents import Document, Json

_PLACE = re.compile(r"\$\{([A-Za-z0-9_]+)\}")


class StateMachine(ResourceType):
    type_name = "AWS::StepFunctions::StateMachine"
    supported = names(
        "Definition DefinitionString DefinitionSubstitutions LoggingConfiguration RoleArn StateMachineName "
        "StateMachineType Tags TracingConfiguration"
    )
    name_property = "StateMachineName"
    longest_name = 80
    deletion = ("stepfunctions", "delete_state_machine", "stateMachineArn")

    def create(self, work: Work, properties: Properties) -> Made:
        name, kind = self.name(work, properties), properties.get("StateMachineType", "STANDARD")
        tags = tag_rows(work, properties, "key", "value")
        machines = work.client("stepfunctions")
        arn = machines.create_state_machine(name=name, type=kind, tags=tags, **_request(properties))["stateMachineArn"]
        return Made(arn, {"Arn": arn, "Name": name})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        machines = work.client("stepfunctions")
        machines.update_state_machine(stateMachineArn=physical_id, **_request(new))
        tags = tag_rows(work, new, "key", "value")
        if tags:
            machines.tag_resource(resourceArn=physical_id, tags=tags)
        return {"Arn": physical_id, "Name": physical_id.rpartition(":")[2]}


def _request(properties: Properties) -> Document:
    configurations = _small(picked(properties, "LoggingConfiguration", "TracingConfiguration"))
    return {"definition": _definition(properties), "roleArn": properties["RoleArn"], **configurations}


def _definition(properties: Properties) -> str:
    if ("Definition" in properties) == ("DefinitionString" in properties):
        raise ResourceFailedError("Exactly one of Definition and DefinitionString is needed.")
    text = properties.get("DefinitionString") or json.dumps(properties["Definition"])
    values = properties.get("DefinitionSubstitutions", {})

    def value(place: re.Match[str]) -> str:
        if place[1] not in values:
            raise ResourceFailedError(f"DefinitionSubstitutions has no {place[1]}.")
        # The text lies inside a JSON string.
        return json.dumps(str(values[place[1]]))[1:-1]

    return _PLACE.sub(value, text)


def _small(value: Json) -> Json:
    """CloudFormation says IncludeExecutionData as the API says includeExecutionData."""
    if isinstance(value, dict):
        return {name[:1].lower() + name[1:]: _small(one) for name, one in value.items()}
    return [_small(one) for one in value] if isinstance(value, list) else value
