"""AWS::SageMaker::Model, EndpointConfig, Endpoint, InferenceComponent."""

from __future__ import annotations

from loadproof.localcloud.account.images import missing_images
from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    ResourceFailedError,
    ResourceType,
    Work,
    names,
    picked,
    tag_rows,
    tagged,
)
from loadproof.localcloud.controlplane.sagemaker.existing import missing_weights
from loadproof.localcloud.wire import AwsError
from loadproof.wire.documents import Document


class _SageMakerType(ResourceType):
    """Ref is the ARN; the operations carry the type's noun. A type that `waits` stands when it is InService."""

    noun: str
    waits = False
    only_for_updates: frozenset[str] = frozenset()

    def create(self, work: Work, properties: Properties) -> Made:
        left_out = self.only_for_updates | {"Tags"}
        request = {name: value for name, value in properties.items() if name not in left_out}
        name = request.setdefault(f"{self.noun}Name", work.generated_name(63))
        arn = work.call_sagemaker(f"Create{self.noun}", **request, **tagged(work, properties))[f"{self.noun}Arn"]
        if self.waits:
            self._wait(work, arn, name, "Creating")
        return Made(arn, self._attributes(work, arn, name), self._doubts(work, properties))

    def _doubts(self, work: Work, properties: Properties) -> str | None:
        """What AWS would refuse of it and this cloud takes."""
        said = (missing_images(work.caller, properties), missing_weights(work.caller, properties))
        return " ".join(one for one in said if one is not None) or None

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        name = self._exact_name(work, physical_id)
        self._retag(work, physical_id, new)
        self._change(work, physical_id, name, old, new)
        return self._attributes(work, physical_id, name)

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        name = self._exact_name(work, physical_id)
        self._call(work, "Delete", name)
        if self.waits:
            work.wait_gone(lambda: self._call(work, "Describe", name))

    def _change(self, work: Work, arn: str, name: str, old: Properties, new: Properties) -> None:
        """Everything but tags; by default that is create-only."""

    def _attributes(self, work: Work, arn: str, name: str) -> Document:
        return {f"{self.noun}Arn": arn, f"{self.noun}Name": name}

    def _call(self, work: Work, verb: str, name: str, **more: object) -> Document:
        return work.call_sagemaker(f"{verb}{self.noun}", **{f"{self.noun}Name": name}, **more)

    def _wait(self, work: Work, arn: str, name: str, moving: str) -> None:
        def status() -> tuple[str, str | None]:
            found = self._call(work, "Describe", name)
            return found[f"{self.noun}Status"], found.get("FailureReason")

        work.wait(arn, status, "InService", (moving,))

    def _exact_name(self, work: Work, arn: str) -> str:
        """The name behind an ARN, which SageMaker writes in lower case."""
        token: dict[str, str] = {}
        while True:
            page = work.call_sagemaker(f"List{self.noun}s", MaxResults=100, **token)
            for row in page[f"{self.noun}s"]:
                if row[f"{self.noun}Arn"] == arn:
                    return str(row[f"{self.noun}Name"])
            if "NextToken" not in page:
                raise AwsError("ValidationException", f'Could not find "{arn}".')
            token = {"NextToken": page["NextToken"]}

    def _retag(self, work: Work, arn: str, new: Properties) -> None:
        """Tags as they are to be: set the new ones, drop the others."""
        wanted = tag_rows(work, new)
        present = work.call_sagemaker("ListTags", ResourceArn=arn)["Tags"]
        stale = {tag["Key"] for tag in present} - {tag["Key"] for tag in wanted}
        if stale:
            work.call_sagemaker("DeleteTags", ResourceArn=arn, TagKeys=sorted(stale))
        if wanted:
            work.call_sagemaker("AddTags", ResourceArn=arn, Tags=wanted)


class Model(_SageMakerType):
    """Everything but tags is create-only, so an edit is a replacement."""

    type_name = "AWS::SageMaker::Model"
    noun = "Model"
    name_property = "ModelName"
    supported = names("Containers EnableNetworkIsolation ExecutionRoleArn ModelName PrimaryContainer Tags VpcConfig")


class EndpointConfig(_SageMakerType):
    """Everything but tags is create-only."""

    type_name = "AWS::SageMaker::EndpointConfig"
    noun = "EndpointConfig"
    name_property = "EndpointConfigName"
    supported = names(
        "AsyncInferenceConfig DataCaptureConfig EnableNetworkIsolation EndpointConfigName ExecutionRoleArn KmsKeyId "
        "MetricsConfig ProductionVariants Tags VpcConfig"
    )


class Endpoint(_SageMakerType):
    """Waits for InService; a new configuration is an update in place."""

    type_name = "AWS::SageMaker::Endpoint"
    noun = "Endpoint"
    name_property = "EndpointName"
    waits = True
    only_for_updates = names("ExcludeRetainedVariantProperties RetainAllVariantProperties RetainDeploymentConfig")
    supported = names("DeploymentConfig EndpointConfigName EndpointName Tags") | only_for_updates

    def _change(self, work: Work, arn: str, name: str, old: Properties, new: Properties) -> None:
        if new["EndpointConfigName"] == old["EndpointConfigName"]:
            return
        request = picked(new, "EndpointConfigName", "DeploymentConfig", *self.only_for_updates)
        self._call(work, "Update", name, **request)
        self._wait(work, arn, name, "Updating")
        found = self._call(work, "Describe", name)
        if found["EndpointConfigName"] != new["EndpointConfigName"]:  # SageMaker has gone back by itself
            reason = found.get("FailureReason", "no reason given")
            raise ResourceFailedError(f"Endpoint {name} was rolled back: {reason}")


class InferenceComponent(_SageMakerType):
    """Waits for InService. EndpointName and VariantName cannot change: a component never moves."""

    type_name = "AWS::SageMaker::InferenceComponent"
    noun = "InferenceComponent"
    name_property = "InferenceComponentName"
    waits = True
    only_for_updates = names("DeploymentConfig EndpointArn")
    _fixed = ("EndpointName", "VariantName", "InferenceComponentName")
    _changeable = ("Specification", "Specifications", "RuntimeConfig")
    supported = frozenset({*_fixed, *_changeable, "Tags"}) | only_for_updates

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        for fixed in self._fixed:
            if old.get(fixed) != new.get(fixed):
                raise AwsError(
                    "NotUpdatable", f"{fixed} of an inference component cannot change; give it another logical id."
                )
        return super().update(work, physical_id, old, new)

    def _change(self, work: Work, arn: str, name: str, old: Properties, new: Properties) -> None:
        request = picked(new, *self._changeable, "DeploymentConfig")
        if all(old.get(part) == value for part, value in request.items()):
            return
        self._call(work, "Update", name, **request)
        self._wait(work, arn, name, "Updating")
        found = self._call(work, "Describe", name)
        if found.get("FailureReason"):  # SageMaker has gone back by itself
            raise ResourceFailedError(f"Inference component {name} was rolled back: {found['FailureReason']}")

    def _attributes(self, work: Work, arn: str, name: str) -> Document:
        found = self._call(work, "Describe", name)
        copies = ("CurrentCopyCount", "DesiredCopyCount")
        return {
            **picked(found, "InferenceComponentArn", "InferenceComponentStatus"),
            "LastModifiedTime": found["LastModifiedTime"].isoformat(),
            **{f"RuntimeConfig.{count}": found["RuntimeConfig"][count] for count in copies},
        }
