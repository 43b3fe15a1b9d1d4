"""The stack of a profile with backend bedrock: reads as a table of contents."""

from __future__ import annotations

from constructs import Construct

from loadproof.constructs.bedrock.alarms import BedrockAlarms
from loadproof.constructs.bedrock.dashboard import BedrockDashboard
from loadproof.constructs.bedrock.model import HostedModel
from loadproof.constructs.bedrock.proof.infrastructure import AnswerProof
from loadproof.constructs.deployment import Deployment
from loadproof.errors import InputError
from stacks.profile_stack import ProfileStack


class BedrockStack(ProfileStack):
    """A model that Bedrock hosts, with its buffer, alarms and dashboard.

    Bedrock's log of requests and answers is a setting of the account, not of a profile: it stays as it is, which is off
    unless somebody turned it on.
    """

    def __init__(self, scope: Construct, *, deployment: Deployment) -> None:
        super().__init__(scope, deployment=deployment)
        if self.starts_benchmarks:
            raise InputError("benchmark: gate and schedule work for backend sagemaker only; run `loadproof bench`")
        self.model = HostedModel(self, "Model", deployment=deployment)
        self._add_buffer(self.model.target())
        alarms = BedrockAlarms(self, "Alarms", model=self.model, buffer=self.buffer)
        BedrockDashboard(self, "Dashboard", model=self.model, buffer=self.buffer, alarm_names=alarms.names)
        AnswerProof(self, "Proof", model=self.model)
        self._outputs()
        self._output("ModelArn", self.model.arn, "What Converse and InvokeModel are called with")
        if alarms.quota is not None:
            self._output("TokensPerMinute", alarms.quota.tokens_per_minute, "The account's quota for the model")
