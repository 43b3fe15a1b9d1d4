"""Provisioned throughput: CloudFormation has no resource for it, so a function of ours makes it and waits for it.

Nothing of it can change in place. Its logical id names what it is made of: a change makes the new one first, moves
everything over to it, and deletes the old one, where AWS lets it go.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from constructs import Construct

from loadproof.constructs.cdk.custom_resource import custom_resource
from loadproof.constructs.cdk.python_function import LAMBDA_LIMIT_S, Program, PythonFunction
from loadproof.constructs.cdk.statements import allow
from loadproof.constructs.deployment import Deployment
from loadproof.profiles.on_bedrock import deployed_name
from loadproof.profiles.schema import ProvisionedThroughput

CODE: Final = Path(__file__).parent / "runtime"
_COMMITMENTS: Final = {"none": None, "one_month": "OneMonth", "six_months": "SixMonths"}
# Three runs of the function (Lambda's own two retries): making one takes minutes, sometimes many.
_TIMEOUT_S: Final = 3 * LAMBDA_LIMIT_S
_GENERATED: Final = "Bedrock generates the ids of provisioned models; names are no part of their ARNs"


class Throughput(Construct):
    """Model units of the profile's own."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        settings: ProvisionedThroughput,
        tags: dict[str, str],
    ) -> None:
        super().__init__(scope, construct_id)
        model_id = deployment.profile.model.id
        function = PythonFunction(
            self,
            "Function",
            environment=deployment.environment,
            description="Makes and deletes provisioned throughput",
            program=Program(CODE),
            statements=[
                allow(
                    "bedrock:CreateProvisionedModelThroughput",
                    "bedrock:DeleteProvisionedModelThroughput",
                    "bedrock:GetProvisionedModelThroughput",
                    "bedrock:ListTagsForResource",
                    "bedrock:TagResource",
                    "bedrock:UntagResource",
                    on=[
                        deployment.arn("bedrock", "provisioned-model/*"),
                        deployment.arn("bedrock", f"foundation-model/{model_id}", account=""),
                    ],
                )
            ],
        )
        function.role.add_metadata("loadproof", {"acknowledged": {"LS012": _GENERATED}})
        name = deployed_name(deployment.environment_name, deployment.profile)
        asked = {
            "Name": name,
            "ModelId": model_id,
            "ModelUnits": settings.model_units,
            "Tags": dict(sorted(tags.items())),
        }
        commitment = _COMMITMENTS[settings.commitment]
        if commitment is not None:
            asked["Commitment"] = commitment
        made_of = hashlib.sha256(name.encode()).hexdigest()[:8]
        self.resource = custom_resource(
            self, f"Resource{made_of}", function_arn=function.arn, timeout_s=_TIMEOUT_S, properties=asked
        )

    @property
    def arn(self) -> str:
        return self.resource.get_att("Arn").to_string()
