"""What scanners find in our templates and stays, each with its reason: `make scan` fails on one that nothing needs."""

from __future__ import annotations

from typing import Final

Finding = tuple[str, str, str, str]
_WITHOUT_KEY: Final = r"loadproof-(dev|staging|prod|local-vllm)-.*"

# (check, template, resource, reason): patterns that match whole.
ACKNOWLEDGED: Final[tuple[Finding, ...]] = (
    (
        "CKV_AWS_109",
        r".*",
        r"AWS::IAM::(Role|Policy)\.(ExecutionRole|JobRole)\w+",
        "kms:CreateGrant, for AWS resources only (a condition)",
    ),
    (
        "CKV_AWS_111",
        r".*",
        r"AWS::IAM::(Role|Policy)\.(ExecutionRole|JobRole|BufferConsumerFunctionRole)\w+",
        "network interfaces have no name before they are made; LS012 refuses any other action on `*`",
    ),
    (
        "CKV_AWS_115",
        r".*",
        r"AWS::Lambda::Function\..*",
        "the consumer is bound by its event source's maximum concurrency; the others run once a deployment",
    ),
    (
        "CKV_AWS_116",
        r".*",
        r"AWS::Lambda::Function\..*",
        "for asynchronous events; the queue has a dead-letter queue, and custom resources answer their failures",
    ),
    (
        "CKV_AWS_117",
        r".*",
        r"AWS::Lambda::Function\..*",
        "functions that talk to AWS and CloudFormation only stay outside; the consumer is inside where there is a VPC",
    ),
    ("CKV_AWS_158", _WITHOUT_KEY, r"AWS::Logs::LogGroup\..*", "the environment has no key and says why (LS006)"),
    ("CKV_AWS_173", _WITHOUT_KEY, r"AWS::Lambda::Function\..*", "the environment has no key and says why (LS006)"),
    (
        "CKV_AWS_119",
        _WITHOUT_KEY,
        r"AWS::DynamoDB::Table\..*",
        "encrypted with DynamoDB's own key; the environment has none",
    ),
    ("CKV_AWS_27", _WITHOUT_KEY, r"AWS::SQS::Queue\..*", "encrypted with SQS's own key; the environment has none"),
    (
        "CKV_AWS_18",
        r".*",
        r"AWS::S3::Bucket\..*",
        "CloudTrail's data events tell who read; the account decides on them",
    ),
    (
        "CKV_AWS_21",
        r".*",
        r"AWS::S3::Bucket\..*",
        "results are written once under their key, and weights are known by their commit: there is no second version",
    ),
    (
        "CKV_AWS_370",
        r"loadproof-(dev-qwen3-32b|vllm-from-the-hub-chat)",
        r"AWS::SageMaker::Model\..*",
        "the server fetches open weights itself; the profile acknowledges it (LS005)",
    ),
    # AWS Control Tower's rules for cfn-guard
    (
        "CT.CLOUDWATCH.PR.1",
        r".*",
        r"AWS::CloudWatch::Alarm\..*",
        "who is told is the account's: an environment names its topic, and the examples have none",
    ),
    (
        "CT.CLOUDWATCH.PR.2",
        r".*",
        r"AWS::Logs::LogGroup\..*",
        "logs hold what users said: they are kept for as long as the environment says, and a year is not our default",
    ),
    ("CT.CLOUDWATCH.PR.3", _WITHOUT_KEY, r"AWS::Logs::LogGroup\..*", "the environment has no key and says why (LS006)"),
    (
        "CT.DYNAMODB.PR.2",
        _WITHOUT_KEY,
        r"AWS::DynamoDB::Table\..*",
        "encrypted with DynamoDB's own key; the environment has none",
    ),
    (
        "CT.LAMBDA.PR.3",
        r".*",
        r"AWS::Lambda::Function\..*",
        "functions that talk to AWS and CloudFormation only stay outside; the consumer is inside where there is a VPC",
    ),
    (
        "CT.S3.PR.2",
        r".*",
        r"AWS::S3::Bucket\..*",
        "CloudTrail's data events tell who read; the account decides on them",
    ),
    ("CT.S3.PR.4", r".*", r"AWS::S3::Bucket\..*", "nobody waits for an object: who asked polls, or has a callback"),
    (
        "CT.S3.PR.9",
        r".*",
        r"AWS::S3::Bucket\..*",
        "results and weights are deleted when their time is over, which a lock would forbid",
    ),
    ("CT.S3.PR.10", _WITHOUT_KEY, r"AWS::S3::Bucket\..*", "encrypted with S3's own key; the environment has none"),
    (
        "CT.S3.PR.11",
        r".*",
        r"AWS::S3::Bucket\..*",
        "results are written once under their key, and weights are known by their commit: there is no second version",
    ),
    ("CT.SQS.PR.1", r".*", r"AWS::SQS::Queue\.BufferDeadLetters\w+", "it is the dead-letter queue"),
    (
        "CT.STEPFUNCTIONS.PR.1",
        r".*",
        r"AWS::StepFunctions::StateMachine\.WeightsMachine\w+",
        "a standard machine keeps its history for 90 days; it runs once for each new model",
    ),
    (
        "CT.STEPFUNCTIONS.PR.2",
        r".*",
        r"AWS::StepFunctions::StateMachine\.WeightsMachine\w+",
        "its one step is a function with a log; there is nothing between to trace",
    ),
    # parliament, its community's auditors included
    (
        "CREDENTIALS_EXPOSURE",
        r".*",
        r"AWS::IAM::(Role|Policy)\.(ExecutionRole|JobRole)\w+",
        "ecr:GetAuthorizationToken has no resource; what it opens is bound to the image's repository",
    ),
    (
        "PERMISSIONS_MANAGEMENT_ACTIONS",
        r".*",
        r"AWS::IAM::(Role|Policy)\.(ExecutionRole|JobRole|MachineRole)\w*",
        "kms:CreateGrant for AWS resources only, network interfaces of a VPC, and the one role that the job takes",
    ),
    (
        "RESOURCE_STAR",
        r".*",
        r"AWS::IAM::(Role|Policy)\.(ExecutionRole|JobRole|BufferConsumerFunctionRole)\w+",
        "network interfaces have no name before they are made; LS012 refuses any other action on `*`",
    ),
    (
        "RESOURCE_MISMATCH",
        r".*",
        r"AWS::IAM::Role\.(BufferConsumerFunctionRole|ProofFunctionRole|ModelThroughputFunctionRole|WeightsBeginRole)\w+",
        "it wants every kind of resource that an action knows; these name the kinds that are used",
    ),
    (
        "MISMATCHED_TYPE_BUT_USABLE",
        r".*",
        r"AWS::IAM::Role\.(BufferConsumerFunctionRole|ProofFunctionRole)\w+",
        "StringEquals on one whole ARN, as Bedrock's guide writes bedrock:InferenceProfileArn",
    ),
)
