"""The stack of a profile with backend bedrock: reads as a table of contents."""

from __future__ import annotations

from constructs import Construct

from loadproof.errors import InputError
from stacks.bedrock.alarms import BedrockAlarms
from stacks.bedrock.dashboard import BedrockDashboard
from stacks.bedrock.model import HostedModel
from stacks.context import Deployment
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
        self._put_in_front(self.model.target())
        alarms = BedrockAlarms(self, "Alarms", model=self.model, buffer=self.buffer)
        BedrockDashboard(self, "Dashboard", model=self.model, buffer=self.buffer, alarm_names=alarms.names)
        self._outputs()
        self._output("ModelArn", self.model.arn, "What Converse and InvokeModel are called with")
        if alarms.quota is not None:
            self._output("TokensPerMinute", alarms.quota.tokens_per_minute, "The account's quota for the model")
