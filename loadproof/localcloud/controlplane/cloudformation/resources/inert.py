"""Types that do nothing on AWS either: they exist in the stack and that is all."""

from __future__ import annotations

from loadproof.localcloud.controlplane.cloudformation.resources.base import Properties, PutType, Work, names
from loadproof.localcloud.documents import Document


class CdkMetadata(PutType):
    """Construct versions, read by AWS's usage reports only."""

    type_name = "AWS::CDK::Metadata"
    supported = names("Analytics")

    def put(self, work: Work, name: str, old: Properties, new: Properties) -> Document:
        return {}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        return None


class WaitConditionHandle(CdkMetadata):
    """An empty handle: CDK uses it to keep a stack without resources alive."""

    type_name = "AWS::CloudFormation::WaitConditionHandle"
    supported = frozenset()
