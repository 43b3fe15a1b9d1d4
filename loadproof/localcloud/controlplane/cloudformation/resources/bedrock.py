"""AWS::Bedrock::ApplicationInferenceProfile."""

from __future__ import annotations

from loadproof.localcloud.controlplane.cloudformation.resources.base import Made, Properties, Work, tag_list
from loadproof.localcloud.documents import Document


class ApplicationInferenceProfile:
    """Everything but tags is create-only."""

    type_name = "AWS::Bedrock::ApplicationInferenceProfile"
    supported = frozenset({"Description", "InferenceProfileName", "ModelSource", "Tags"})
    name_property = "InferenceProfileName"

    def create(self, work: Work, properties: Properties) -> Made:
        asked: Document = {
            "inferenceProfileName": properties["InferenceProfileName"],
            "modelSource": {"copyFrom": properties["ModelSource"]["CopyFrom"]},
        }
        if "Description" in properties:
            asked["description"] = properties["Description"]
        tags = [{"key": tag["Key"], "value": tag["Value"]} for tag in tag_list(work, properties)]
        arn = work.client("bedrock").create_inference_profile(**asked, tags=tags)["inferenceProfileArn"]
        return Made(arn, self._attributes(work, arn))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        client = work.client("bedrock")
        wanted = {tag["Key"]: tag["Value"] for tag in tag_list(work, new)}
        present = client.list_tags_for_resource(resourceARN=physical_id)["tags"]
        stale = [tag["key"] for tag in present if tag["key"] not in wanted]
        if stale:
            client.untag_resource(resourceARN=physical_id, tagKeys=stale)
        if wanted:
            rows = [{"key": name, "value": value} for name, value in wanted.items()]
            client.tag_resource(resourceARN=physical_id, tags=rows)
        return self._attributes(work, physical_id)

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("bedrock").delete_inference_profile(inferenceProfileIdentifier=physical_id)

    def _attributes(self, work: Work, arn: str) -> Document:
        found = work.client("bedrock").get_inference_profile(inferenceProfileIdentifier=arn)
        return {
            "InferenceProfileArn": arn,
            "InferenceProfileId": found["inferenceProfileId"],
            "InferenceProfileIdentifier": arn,
            "Status": found["status"],
            "Type": found["type"],
        }
