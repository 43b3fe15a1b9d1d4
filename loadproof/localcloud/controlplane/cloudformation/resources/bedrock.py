"""AWS::Bedrock::ApplicationInferenceProfile."""

from __future__ import annotations

from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    ResourceType,
    Work,
    names,
    tag_rows,
)
from loadproof.wire.documents import Document


class ApplicationInferenceProfile(ResourceType):
    """Everything but tags is create-only."""

    type_name = "AWS::Bedrock::ApplicationInferenceProfile"
    supported = names("Description InferenceProfileName ModelSource Tags")
    name_property = "InferenceProfileName"
    deletion = ("bedrock", "delete_inference_profile", "inferenceProfileIdentifier")

    def create(self, work: Work, properties: Properties) -> Made:
        arn = work.client("bedrock").create_inference_profile(
            inferenceProfileName=properties["InferenceProfileName"],
            modelSource={"copyFrom": properties["ModelSource"]["CopyFrom"]},
            tags=tag_rows(work, properties, "key", "value"),
            **({"description": properties["Description"]} if "Description" in properties else {}),
        )["inferenceProfileArn"]
        return Made(arn, self._attributes(work, arn))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        client = work.client("bedrock")
        wanted = tag_rows(work, new, "key", "value")
        present = client.list_tags_for_resource(resourceARN=physical_id)["tags"]
        stale = {tag["key"] for tag in present} - {tag["key"] for tag in wanted}
        if stale:
            client.untag_resource(resourceARN=physical_id, tagKeys=sorted(stale))
        if wanted:
            client.tag_resource(resourceARN=physical_id, tags=wanted)
        return self._attributes(work, physical_id)

    def _attributes(self, work: Work, arn: str) -> Document:
        found = work.client("bedrock").get_inference_profile(inferenceProfileIdentifier=arn)
        return {
            "InferenceProfileArn": arn,
            "InferenceProfileId": found["inferenceProfileId"],
            "InferenceProfileIdentifier": arn,
            "Status": found["status"],
            "Type": found["type"],
        }
