"""A model's tokens per minute, as the account has them.

Synthesis asks nobody, and quota codes differ by model and account: so the quota is found by its name when the stack is
deployed. It is read again when the profile changes; after an increase, deploy any change of the profile.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aws_cdk import Token
from constructs import Construct

from loadproof.catalog.bedrock import BedrockModel, quota_names
from loadproof.constructs.cdk.custom_resource import custom_resource
from loadproof.constructs.cdk.python_function import Program, PythonFunction
from loadproof.constructs.cdk.statements import allow
from loadproof.constructs.deployment import Deployment
from loadproof.profiles import profile_hash
from loadproof.profiles.on_bedrock import bedrock_settings

CODE: Final = Path(__file__).parent / "runtime" / "index.py"
_TIMEOUT_S: Final = 120  # new rights are waited for a minute


class TokenQuota(Construct):
    """The quota that a profile's requests count against, on demand or across regions."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, model: BedrockModel, share: float
    ) -> None:
        super().__init__(scope, construct_id)
        function = PythonFunction(
            self,
            "Function",
            environment=deployment.environment,
            description="Finds a model's quota by its name",
            program=Program(CODE, timeout_s=_TIMEOUT_S),
            # Service Quotas' lists know no resources.
            statements=[allow("servicequotas:ListAWSDefaultServiceQuotas", "servicequotas:ListServiceQuotas", on="*")],
        )
        prefix = bedrock_settings(deployment.profile).inference_profile
        asked = {
            "Names": list(quota_names(prefix, "tokens", model.title)),
            "Share": str(share),
            "ProfileSha256": profile_hash(deployment.profile),
        }
        self._resource = custom_resource(
            self, "Resource", function_arn=function.arn, timeout_s=_TIMEOUT_S + 30, properties=asked
        )

    @property
    def tokens_per_minute(self) -> str:
        """Known when it is deployed."""
        return self._resource.get_att("PerMinute").to_string()

    @property
    def alarm_at(self) -> float:
        """The share of it that an alarm is to tell of."""
        return Token.as_number(self._resource.get_att("AlarmAt"))
