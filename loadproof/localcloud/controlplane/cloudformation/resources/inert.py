"""Types that do nothing on AWS either: they exist in the stack and that is all."""

from __future__ import annotations

from loadproof.localcloud.controlplane.cloudformation.resources.base import Made, Properties, Work
from loadproof.localcloud.documents import Document


class CdkMetadata:
    """Construct versions, read by AWS's usage reports only."""

    type_name = "AWS::CDK::Metadata"
    supported = frozenset({"Analytics"})
    name_property = None

    def create(self, work: Work, properties: Properties) -> Made:
        return Made(work.generated_name(64))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        return {}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        return None


class WaitConditionHandle(CdkMetadata):
    """An empty handle: CDK uses it to keep a stack without resources alive."""

    type_name = "AWS::CloudFormation::WaitConditionHandle"
    supported = frozenset()
