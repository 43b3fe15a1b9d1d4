"""The buffer's queue, bucket and function, as CloudFormation gets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stacks_support import ENVIRONMENT, KEY_ARN, NETWORK, Synthesized, profile, synthesize

from loadproof.simulation.targets import buffer_concurrency

QUEUE = "AWS::SQS::Queue"
FUNCTION = "AWS::Lambda::Function"


def buffered(folder: Path, settings: dict[str, Any] | None = None, **environment: Any) -> Synthesized:
    chosen = profile(folder, {"buffer": {"max_concurrency": 4} | (settings or {})})
    return synthesize(chosen, ENVIRONMENT.model_copy(update=environment))


def consumer_policy(stack: Synthesized) -> list[dict[str, Any]]:
    (role,) = [
        body["Properties"]
        for body in stack.all("AWS::IAM::Role").values()
        if "lambda.amazonaws.com" in str(body["Properties"]["AssumeRolePolicyDocument"])
    ]
    (policy,) = role["Policies"]
    statements: list[dict[str, Any]] = policy["PolicyDocument"]["Statement"]
    return statements


def consumer_logs(stack: Synthesized) -> str:
    """The logical id of the log group that is the consumer's, not the endpoint's."""
    (name,) = [name for name in stack.all("AWS::Logs::LogGroup") if name.startswith("Buffer")]
    return name


def test_queue_and_dead_letters(tmp_path: Path) -> None:
    """Visibility is six times the function's timeout (300 + 55 + 120 + 30 s); five receives, then dead letters."""
    stack = buffered(tmp_path)
    queue = stack.named(QUEUE, QueueName="loadproof-test-chat-requests")["Properties"]
    assert queue["VisibilityTimeout"] == 6 * 505
    assert queue["MessageRetentionPeriod"] == 1209600
    assert queue["MaximumMessageSize"] == 1048576
    assert queue["SqsManagedSseEnabled"] is True
    (dead,) = [
        name
        for name, body in stack.all(QUEUE).items()
        if body["Properties"]["QueueName"] == "loadproof-test-chat-dead-letters"
    ]
    assert queue["RedrivePolicy"] == {
        "deadLetterTargetArn": {"Fn::GetAtt": [dead, "Arn"]},
        "maxReceiveCount": 5,
    }


def test_sqs_keeps_messages_a_day_longer_than_the_consumer(tmp_path: Path) -> None:
    """What is too old becomes a dead letter before SQS deletes it; the queue's limit is the consumer's too."""
    stack = buffered(tmp_path, {"retention_s": 86400, "max_message_bytes": 262144})
    queue = stack.named(QUEUE, QueueName="loadproof-test-chat-requests")["Properties"]
    variables = stack.only(FUNCTION)["Environment"]["Variables"]
    assert (queue["MessageRetentionPeriod"], variables["RETENTION_S"]) == (172800, "86400")
    assert (queue["MaximumMessageSize"], variables["MAX_MESSAGE_BYTES"]) == (262144, "262144")


def test_queues_and_bucket_refuse_plain_http(tmp_path: Path) -> None:
    """Both queues and the bucket deny everything without TLS."""
    stack = buffered(tmp_path)
    policies = [*stack.all("AWS::SQS::QueuePolicy").values(), *stack.all("AWS::S3::BucketPolicy").values()]
    assert len(policies) == 3
    for body in policies:
        first = body["Properties"]["PolicyDocument"]["Statement"][0]
        assert (first["Effect"], first["Principal"]) == ("Deny", {"AWS": "*"})
        assert first["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_results_bucket_is_private_and_forgets(tmp_path: Path) -> None:
    """No public access, encrypted, results expire after 30 days."""
    bucket = buffered(tmp_path).only("AWS::S3::Bucket")
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    (rule,) = bucket["LifecycleConfiguration"]["Rules"]
    assert (rule["ExpirationInDays"], rule["Status"]) == (30, "Enabled")
    (encryption,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}


def test_results_stay_when_their_stack_goes(tmp_path: Path) -> None:
    """By default the bucket outlives its stack with its policy; a creation that fails leaves none."""
    stack = buffered(tmp_path)
    for kind in ("AWS::S3::Bucket", "AWS::S3::BucketPolicy"):
        (body,) = stack.all(kind).values()
        assert (body["DeletionPolicy"], body["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    assert stack.all("AWS::CloudFormation::CustomResource") == {}


def test_results_go_with_their_stack_where_the_environment_says_so(tmp_path: Path) -> None:
    """The bucket is emptied after the consumer has lost its rights, by a function that may touch only this bucket."""
    stack = buffered(tmp_path, results_on_destroy="delete")
    ((bucket, body),) = stack.all("AWS::S3::Bucket").items()
    assert body["DeletionPolicy"] == "Delete"
    assert {"Key": "loadproof:on-destroy", "Value": "delete"} in body["Properties"]["Tags"]
    ((emptied, custom),) = stack.all("AWS::CloudFormation::CustomResource").items()
    assert custom["Properties"]["BucketName"] == {"Ref": bucket}
    roles = stack.all("AWS::IAM::Role")
    (consumer,) = [
        role for role in roles.values() if "Sends queued requests" in role["Properties"].get("Description", "")
    ]
    assert emptied in consumer["DependsOn"]
    (emptier,) = [role for role in roles.values() if "results bucket" in role["Properties"].get("Description", "")]
    (policy,) = emptier["Properties"]["Policies"]
    resources = [statement["Resource"] for statement in policy["PolicyDocument"]["Statement"]]
    assert resources[:2] == [
        {"Fn::GetAtt": [bucket, "Arn"]},
        {"Fn::Join": ["", [{"Fn::GetAtt": [bucket, "Arn"]}, "/*"]]},
    ]
    (inline,) = [one for one in stack.all(FUNCTION).values() if "ZipFile" in one["Properties"]["Code"]]
    assert "from loadproof" not in inline["Properties"]["Code"]["ZipFile"]


def test_function(tmp_path: Path) -> None:
    """Python 3.13 with the Powertools layer of the region, one answer's time whatever the batch, and what to do."""
    stack = buffered(tmp_path, {"batch_size": 2, "invocation_timeout_s": 120})
    function = stack.only(FUNCTION)
    assert function["Handler"] == "consumer.handler.handler"
    assert function["Runtime"] == "python3.13"
    assert function["Layers"] == [
        "arn:aws:lambda:us-east-1:017000801446:layer:AWSLambdaPowertoolsPythonV3-python313-arm64:27"
    ]
    assert function["Timeout"] == 120 + 55 + 120 + 30
    variables = function["Environment"]["Variables"]
    (bucket,) = stack.all("AWS::S3::Bucket")
    assert variables.pop("RESULTS_BUCKET") == {"Ref": bucket}
    assert variables.pop("QUEUE_URL")["Ref"].startswith("BufferQueue")
    assert variables.pop("DEAD_LETTER_URL")["Ref"].startswith("BufferDeadLetters")
    assert variables.pop("CLAIMS_TABLE") == {"Ref": stack.logical_id("AWS::DynamoDB::Table")}
    assert variables == {
        "BUFFER_NAME": "loadproof-test-chat",
        "ENDPOINT_NAME": "loadproof-test-chat",
        "COMPONENT_NAME": "loadproof-test-chat-main",
        "RESULTS_PREFIX": "results/",
        "PROTOCOL": "tgi",
        "MODEL_REVISION": "s3://example-models/llama/",
        "INVOCATION_TIMEOUT_S": "120",
        "IDLE_TIMEOUT_S": "55",
        "LEASE_S": "60",
        "MAX_ATTEMPTS": "8",
        "MAX_IN_FLIGHT": "8",
        "RETENTION_S": "1123200",
        "MAX_MESSAGE_BYTES": "1048576",
        "CONTEXT_TOKENS": "4096",
    }


def test_function_stays_within_lambdas_limit(tmp_path: Path) -> None:
    """480 + 55 + 120 + 30 s is fine; with 890 s, which Lambda would refuse, it is cut to 900 s."""
    assert buffered(tmp_path, {"invocation_timeout_s": 480}).only(FUNCTION)["Timeout"] == 685
    long = profile(tmp_path, {"buffer": {"max_concurrency": 4}})
    assert long.buffer is not None
    longest = long.buffer.model_copy(update={"invocation_timeout_s": 890})
    assert synthesize(long.model_copy(update={"buffer": longest})).only(FUNCTION)["Timeout"] == 900


def test_event_source(tmp_path: Path) -> None:
    """Failures are reported one by one, and no more consumers work at once than the profile allows."""
    stack = buffered(tmp_path)
    source = stack.only("AWS::Lambda::EventSourceMapping")
    assert source["FunctionName"] == {"Ref": stack.logical_id(FUNCTION)}
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert (source["BatchSize"], source["ScalingConfig"]) == (1, {"MaximumConcurrency": 4})


def test_without_a_number_the_most_copies_decide_how_many_consumers_work(tmp_path: Path) -> None:
    """`buffer: {}` is what the planner derives, and the consumers share it as the most in flight."""
    chosen = profile(tmp_path, {"buffer": {"batch_size": 2}})
    stack = synthesize(chosen)
    derived = buffer_concurrency(chosen).value
    assert derived is not None and derived > 2
    assert stack.only("AWS::Lambda::EventSourceMapping")["ScalingConfig"] == {"MaximumConcurrency": derived}
    assert stack.only(FUNCTION)["Environment"]["Variables"]["MAX_IN_FLIGHT"] == str(2 * int(derived))


def test_logs_are_kept_as_long_as_the_environment_says(tmp_path: Path) -> None:
    """One log group, made by the stack, with a retention."""
    stack = buffered(tmp_path, log_retention_days=90)
    logs = consumer_logs(stack)
    assert stack.all("AWS::Logs::LogGroup")[logs]["Properties"]["RetentionInDays"] == 90
    assert stack.only(FUNCTION)["LoggingConfig"]["LogGroup"] == {"Ref": logs}


def test_consumer_rights(tmp_path: Path) -> None:
    """One queue, its dead letters, one table, one endpoint with its component, two prefixes, one log group."""
    stack = buffered(tmp_path)
    dead, queue = sorted(stack.all(QUEUE))
    bucket = {"Fn::GetAtt": [stack.logical_id("AWS::S3::Bucket"), "Arn"]}
    assert [(entry["Action"], entry["Resource"]) for entry in consumer_policy(stack)] == [
        (
            [
                "sqs:ChangeMessageVisibility",
                "sqs:DeleteMessage",
                "sqs:GetQueueAttributes",
                "sqs:ReceiveMessage",
                "sqs:SendMessage",
            ],
            {"Fn::GetAtt": [queue, "Arn"]},
        ),
        ("sqs:SendMessage", {"Fn::GetAtt": [dead, "Arn"]}),
        (
            ["dynamodb:GetItem", "dynamodb:UpdateItem"],
            {"Fn::GetAtt": [stack.logical_id("AWS::DynamoDB::Table"), "Arn"]},
        ),
        (
            ["sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream"],
            [
                "arn:aws:sagemaker:us-east-1:123456789012:endpoint/loadproof-test-chat",
                "arn:aws:sagemaker:us-east-1:123456789012:inference-component/loadproof-test-chat-main",
            ],
        ),
        (
            ["s3:GetObject", "s3:PutObject"],
            [{"Fn::Join": ["", [bucket, "/results/*"]]}, {"Fn::Join": ["", [bucket, "/requests/*"]]}],
        ),
        ("s3:ListBucket", bucket),
        (
            ["logs:CreateLogStream", "logs:PutLogEvents"],
            {"Fn::GetAtt": [consumer_logs(stack), "Arn"]},
        ),
    ]


def test_claims_table(tmp_path: Path) -> None:
    """Paid by the request, restorable, its records forgotten by themselves, gone with its stack."""
    stack = buffered(tmp_path)
    ((_, table),) = stack.all("AWS::DynamoDB::Table").items()
    assert table["Properties"]["BillingMode"] == "PAY_PER_REQUEST"
    assert table["Properties"]["KeySchema"] == [{"AttributeName": "id", "KeyType": "HASH"}]
    assert table["Properties"]["TimeToLiveSpecification"] == {"AttributeName": "expires_s", "Enabled": True}
    assert table["Properties"]["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == ("Delete", "Delete")


def test_callbacks_are_rights_and_a_list(tmp_path: Path) -> None:
    """Only the queues and topics that the profile names may be told, each by its own action."""
    queue, topic = "arn:aws:sqs:us-east-1:123456789012:told", "arn:aws:sns:us-east-1:123456789012:told"
    stack = buffered(tmp_path, {"callbacks": [queue, topic]})
    assert stack.only(FUNCTION)["Environment"]["Variables"]["CALLBACKS"] == f"{queue} {topic}"
    rights = [(entry["Action"], entry["Resource"]) for entry in consumer_policy(stack)]
    assert ("sqs:SendMessage", queue) in rights
    assert ("sns:Publish", topic) in rights


def test_key_and_network_reach_every_part(tmp_path: Path) -> None:
    """The environment's key encrypts queues, table, bucket, logs and variables; the function runs in its network."""
    stack = buffered(tmp_path, kms_key_arn=KEY_ARN, network=NETWORK)
    assert {body["Properties"]["KmsMasterKeyId"] for body in stack.all(QUEUE).values()} == {KEY_ARN}
    (encryption,) = stack.only("AWS::S3::Bucket")["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption["ServerSideEncryptionByDefault"]["KMSMasterKeyID"] == KEY_ARN
    assert {body["Properties"]["KmsKeyId"] for body in stack.all("AWS::Logs::LogGroup").values()} == {KEY_ARN}
    encrypted = stack.only("AWS::DynamoDB::Table")["SSESpecification"]
    assert encrypted == {"KMSMasterKeyId": KEY_ARN, "SSEEnabled": True, "SSEType": "KMS"}
    function = stack.only(FUNCTION)
    assert function["KmsKeyArn"] == KEY_ARN
    assert function["VpcConfig"]["SecurityGroupIds"] == ["sg-0123456789abcdef0"]
    keyed, _, networked = consumer_policy(stack)[-3:]
    assert (keyed["Action"], keyed["Resource"]) == (["kms:Decrypt", "kms:GenerateDataKey"], KEY_ARN)
    services = [f"{name}.us-east-1.amazonaws.com" for name in ("dynamodb", "lambda", "s3", "sns", "sqs")]
    assert keyed["Condition"] == {"StringEquals": {"kms:ViaService": services}}
    assert "ec2:CreateNetworkInterface" in networked["Action"]


def test_no_buffer_unless_wanted(tmp_path: Path) -> None:
    """Without `buffer`, or with it off, there is no queue, no function and no output for them."""
    for chosen in (profile(tmp_path), profile(tmp_path, {"buffer": {"enabled": False}})):
        stack = synthesize(chosen)
        assert stack.all(QUEUE) == {} and stack.all(FUNCTION) == {}
        assert set(stack.template["Outputs"]) == {"EndpointName", "ComponentNames", "ProfileHash"}


def test_outputs_lead_to_queue_and_results(tmp_path: Path) -> None:
    """What people and tools need after a deployment is in the outputs."""
    assert set(buffered(tmp_path).template["Outputs"]) == {
        "EndpointName",
        "ComponentNames",
        "ProfileHash",
        "QueueUrl",
        "DeadLetterQueueUrl",
        "ClaimsTableName",
        "ResultsBucketName",
        "ModelRevision",
    }
