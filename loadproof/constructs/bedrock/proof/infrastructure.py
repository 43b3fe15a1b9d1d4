"""The model answers: asked once after every deployment that changes the profile."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from constructs import Construct

from loadproof.constructs.bedrock.model import HostedModel
from loadproof.constructs.cdk.custom_resource import custom_resource
from loadproof.constructs.cdk.python_function import Program, PythonFunction
from loadproof.constructs.cdk.statements import allow
from loadproof.profiles import profile_hash

CODE: Final = Path(__file__).parent / "runtime" / "index.py"
_TIMEOUT_S: Final = 300
_ANSWER_TOKENS: Final = 32


class AnswerProof(Construct):
    """Fails the deployment, in Bedrock's words, where the account has no access, no quota, or the model no answer."""

    def __init__(self, scope: Construct, construct_id: str, *, model: HostedModel) -> None:
        super().__init__(scope, construct_id)
        deployment = model.deployment
        stack = deployment.arn("cloudformation", f"stack/{deployment.stack_name}/*")
        function = PythonFunction(
            self,
            "Function",
            environment=deployment.environment,
            description=f"Asks {model.name} once after a deployment",
            program=Program(CODE, timeout_s=_TIMEOUT_S),
            statements=[*model.invoke_statements(), allow("cloudformation:DescribeStacks", on=stack)],
        )
        asked = {
            "ModelArn": model.arn,
            "Prompt": "Count from one to ten.",
            "Tokens": str(_ANSWER_TOKENS),
            "ProfileSha256": profile_hash(deployment.profile),
        }
        custom_resource(self, "Resource", function_arn=function.arn, timeout_s=_TIMEOUT_S + 60, properties=asked)
