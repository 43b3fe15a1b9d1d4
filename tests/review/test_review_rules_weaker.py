"""LR041, LR042, LR043: protection that goes without its property going."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from review_rules_support import found, resource, reviewed, side

from loadproof.review.model import Side

TLS: dict[str, Any] = {
    "Effect": "Deny",
    "Principal": "*",
    "Action": "s3:*",
    "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"],
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}


def told(before: dict[str, Any], after: dict[str, Any], code: str) -> list[str]:
    """The messages of one code."""
    return [one.message for one in found(before, after, code)]


def queue(**properties: Any) -> dict[str, Any]:
    """One queue, `q`."""
    return {"Q": resource("SQS::Queue", QueueName="q", **properties)}


def bucket(*statements: dict[str, Any]) -> dict[str, Any]:
    """A bucket with a policy."""
    policy = resource("S3::BucketPolicy", Bucket={"Ref": "B"}, PolicyDocument={"Statement": list(statements)})
    return {"B": resource("S3::Bucket", BucketName="b"), "P": policy}


def group(*entries: dict[str, Any]) -> dict[str, Any]:
    """A security group that lets in every address by these entries."""
    ingress = [{"CidrIp": "0.0.0.0/0", **entry} for entry in entries]
    return {"G": resource("EC2::SecurityGroup", GroupDescription="g", SecurityGroupIngress=ingress)}


def test_a_key_of_awss_is_no_key_of_ones_own() -> None:
    """alias/aws/sqs has a policy that nobody can change."""
    own, awss = queue(KmsMasterKeyId="alias/chat"), queue(KmsMasterKeyId="alias/aws/sqs")
    assert len(told(own, awss, "LR042")) == 1
    assert told(awss, own, "LR042") == []
    assert told(awss, queue(), "LR042") == []


def test_a_queue_may_switch_its_encryption_off() -> None:
    """It is on where nobody says otherwise."""
    assert told(queue(), queue(SqsManagedSseEnabled=False), "LR042") == ["taken away: the encryption of q"]
    assert told(queue(), queue(SqsManagedSseEnabled=True), "LR042") == []
    assert told(queue(SqsManagedSseEnabled=False), queue(SqsManagedSseEnabled=False), "LR042") == []


def test_a_tls_rule_turned_round_is_none() -> None:
    """It would refuse exactly those that are encrypted."""
    turned = {**TLS, "Condition": {"Bool": {"aws:SecureTransport": "true"}}}
    expected = ["taken away: the rule that b is reached over TLS only"]
    assert told(bucket(TLS), bucket(turned), "LR042") == expected


def test_a_tls_rule_for_less_is_less() -> None:
    """Fewer actions, or the bucket without its objects."""
    for less in ({**TLS, "Action": "s3:ListBucket"}, {**TLS, "Resource": "arn:aws:s3:::b"}):
        assert len(told(bucket(TLS), bucket(less), "LR042")) == 1
        assert told(bucket(less), bucket(TLS), "LR042") == []


def test_a_tls_rule_in_other_words_is_the_same() -> None:
    """Two statements, the principal as a map, the bucket by reference."""
    places: list[Any] = [{"Fn::GetAtt": ["B", "Arn"]}, {"Fn::Join": ["", [{"Fn::GetAtt": ["B", "Arn"]}, "/*"]]}]
    rewritten = [{**TLS, "Principal": {"AWS": "*"}, "Resource": place} for place in places]
    assert told(bucket(TLS), bucket(*rewritten), "LR042") == []


def test_a_vpc_of_empty_lists_is_none() -> None:
    """It is how Lambda is told to leave its VPC."""

    def function(*subnets: str) -> dict[str, Any]:
        config = {"SubnetIds": list(subnets), "SecurityGroupIds": ["sg-1"] if subnets else []}
        return {"F": resource("Lambda::Function", FunctionName="f", Code={}, Role="r", VpcConfig=config)}

    assert told(function("subnet-1"), function(), "LR041") == ["taken away: the VPC of f"]
    assert told(function("subnet-1"), function("subnet-2"), "LR041") == []


def test_a_group_that_was_open_may_open_further() -> None:
    """443 for everybody was there; every protocol was not."""
    https, everything = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443}, {"IpProtocol": "-1"}
    message = ["security group G lets in every address (every protocol and port)"]
    assert told(group(https), group(https, everything), "LR043") == message
    assert told(group(everything), group(https), "LR043") == []
    assert told(group(https), group({**https, "FromPort": 80}), "LR043") == [
        "security group G lets in every address (tcp, 80-443)"
    ]


def test_a_key_in_another_stack_is_another_queues() -> None:
    """Two stacks may give the same logical id: the one's key does not stand for the other's."""
    keyed = {"Resources": queue(KmsMasterKeyId="alias/chat")}

    def stacks(**properties: Any) -> Side:
        return replace(side({}), templates={"a": keyed, "b": {"Resources": queue(**properties)}})

    told = [one.code for one in reviewed(stacks(KmsMasterKeyId="alias/chat"), stacks())]
    assert told.count("LR042") == 1
