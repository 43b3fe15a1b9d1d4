"""What cdk-nag's AwsSolutions pack finds in our stacks and stays as it is, each with its reason.

Beside the constructs and not on them: an acknowledgement on a construct costs every synthesis, and only the tests ask.
Every line must still be needed, and none covers a finding it does not name: the tests hold the table to both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Patterns over a construct's path below its stack, and over the finding; both must match whole."""

    construct: str
    finding: str
    reason: str

    def covers(self, construct: str, finding: str) -> bool:
        return re.fullmatch(self.construct, construct) is not None and re.fullmatch(self.finding, finding) is not None


def _wildcard(resource: str) -> str:
    return rf"AwsSolutions-IAM5\[Resource::{resource}\]"


ACKNOWLEDGED: Final = (
    Acknowledgement(
        r"ExecutionRole/Rights\w+",
        _wildcard(r"\*"),
        "ecr:GetAuthorizationToken, cloudwatch:PutMetricData (bound to a namespace) and the network interfaces of "
        "SageMaker know no narrower resource; LS012 refuses any other action on it",
    ),
    Acknowledgement(
        r"ExecutionRole/Rights\w+|Job/Role",
        _wildcard(r"arn:aws:ec2:[^*]*:network-interface/\*"),
        "SageMaker makes the interfaces before they have names; they lie in the environment's subnets (ec2:Subnet)",
    ),
    Acknowledgement(
        r"ExecutionRole/Rights\w+",
        _wildcard(r"arn:aws:logs:[^*]*:log-group:/aws/sagemaker/(Endpoints|InferenceComponents)/[^*]+(-\*)?:\*"),
        "`:*` is part of a log group's ARN in IAM; the groups are the endpoint's own",
    ),
    Acknowledgement(
        r"ExecutionRole/Rights\w+",
        _wildcard(r"arn:aws:s3:::[^*]+/\*"),
        "a model is every object below its prefix, and so are captured data and asynchronous answers",
    ),
    Acknowledgement(
        "Buffer/Consumer/Function/Role",
        _wildcard(r"\*"),
        "Lambda makes the network interfaces of a function in a VPC before they have names",
    ),
    Acknowledgement(
        "Buffer/Consumer/Function/Role",
        _wildcard(r"<BufferResults\w+\.Arn>/(results|requests)/\*"),
        "answers are stored below one prefix under their messages' keys, long requests below another",
    ),
    Acknowledgement(
        "(Buffer/)?Emptied/Function/Role",
        _wildcard(r"<(Buffer)?Results\w+\.Arn>/\*"),
        "it empties this bucket, and runs only where the environment lets results go with their stack",
    ),
    Acknowledgement(
        "Weights/(Fetch|Begin)/Role",
        _wildcard(r"<WeightsBucket\w+\.Arn>/models/\*"),
        "the hub says which files a commit has; they lie below one prefix of a bucket made for them",
    ),
    Acknowledgement(
        "Weights/Begin/Role",
        _wildcard(r"arn:aws:states:[^*]*:execution:[^*]+-weights:\*"),
        "an execution of this one machine is named after CloudFormation's request",
    ),
    Acknowledgement(
        "(Gate|Proof)/Function/Role",
        _wildcard(r"arn:aws:cloudformation:[^*]*:stack/[^*]+/\*"),
        "the end of a stack's ARN is a number that CloudFormation gives; the name before it is this stack's",
    ),
    Acknowledgement(
        "Proof/Function/Role",
        _wildcard(r"arn:aws:s3:::[^*]+/(loadproof-proof/)?\*"),
        "an asynchronous endpoint is asked by an object of its own name below the requests' prefix, and answers below "
        "another under a name that SageMaker gives",
    ),
    Acknowledgement(
        r"(.*/)?(Fetch|Begin|Function|Verdict)/Resource",
        "AwsSolutions-L1",
        "python3.13 is the newest runtime with a Powertools layer in the catalog; all functions share it",
    ),
    Acknowledgement(
        "((Buffer/)?Results|Weights/Bucket)/Resource",
        "AwsSolutions-S1",
        "who read an answer or a weight is told by CloudTrail's data events, which the account decides on; "
        "access logs would be a second bucket without an owner",
    ),
    Acknowledgement(
        "Job/Role",
        _wildcard(r"\*"),
        "the registry's login, the network interfaces, and metrics and scaling activities, which know no narrower "
        "resource; LS012 refuses any other action on it",
    ),
    Acknowledgement(
        "Job/Role|MachineRole|Verdict/Role",
        _wildcard(r"<Results\w+\.Arn>/runs/\*(/(input\.zip|done\.json))?"),
        "each run has a folder of its own below one prefix",
    ),
    Acknowledgement(
        "Job/Role",
        _wildcard(r"arn:aws:logs:[^*]*:log-group:/aws/sagemaker/ProcessingJobs:(log-stream:loadproof-[0-9a-f]{8}-)?\*"),
        "SageMaker writes every processing job of an account into this one group, each into streams of its name",
    ),
    Acknowledgement(
        "Job/Role",
        _wildcard(r"arn:aws:sagemaker:[^*]*:(endpoint-config/|(endpoint|inference-component)/loadproof-[^*]+-)\*"),
        "the environment's own endpoints, by their prefix; configurations have names that CloudFormation makes",
    ),
    Acknowledgement(
        "Alarms/Quota/Function/Role",
        _wildcard(r"\*"),
        "Service Quotas' lists know no resources; the function only reads them",
    ),
    Acknowledgement(
        "Model/Throughput/Function/Role",
        _wildcard(r"arn:aws:bedrock:[^*]*:provisioned-model/\*"),
        "Bedrock generates the ids of provisioned models; names are no part of their ARNs",
    ),
    Acknowledgement(
        "MachineRole",
        _wildcard(r"\*"),
        "deliveries of logs and traces know no narrower resource",
    ),
    Acknowledgement(
        "MachineRole",
        _wildcard(r"arn:aws:sagemaker:[^*]*:processing-job/loadproof-[0-9a-f]{8}-\*"),
        "a job is named after its execution",
    ),
    Acknowledgement(
        "MachineRole",
        _wildcard(r"arn:aws:s3:::cdk-[^*]+/bundle-loadproof-[0-9a-f]{8}-\*"),
        "a profile's files are an asset, which is named after its environment and its content",
    ),
    Acknowledgement(
        "Weights/Machine",
        "AwsSolutions-SF1",
        "the execution's own history says which file failed; a log would keep CloudFormation's answer address",
    ),
    Acknowledgement(
        "Weights/Machine",
        "AwsSolutions-SF2",
        "it runs once a commit, and its history has every step with its times",
    ),
)
