"""AWS::S3::Bucket and BucketPolicy, AWS::DynamoDB::Table."""

from __future__ import annotations

import re

from botocore.client import BaseClient

from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    PutType,
    ResourceFailedError,
    ResourceType,
    Work,
    as_text,
    names,
    picked,
    tag_rows,
)
from loadproof.wire.documents import Document


class Bucket(ResourceType):
    type_name = "AWS::S3::Bucket"
    supported = names(
        "AccessControl BucketEncryption BucketName LifecycleConfiguration OwnershipControls "
        "PublicAccessBlockConfiguration Tags VersioningConfiguration"
    )
    name_property = "BucketName"
    deletion = ("s3", "delete_bucket", "Bucket")  # refused while it holds objects, as on AWS

    def create(self, work: Work, properties: Properties) -> Made:
        s3 = work.client("s3")
        name = properties.get("BucketName") or work.generated_name(63).lower()
        if any(bucket["Name"] == name for bucket in s3.list_buckets()["Buckets"]):
            raise ResourceFailedError(f"{name} already exists")
        elsewhere = {"CreateBucketConfiguration": {"LocationConstraint": work.caller.region}}
        s3.create_bucket(Bucket=name, **({} if work.caller.region == "us-east-1" else elsewhere))
        return Made(name, self.update(work, name, {}, properties))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        self._configure(work, physical_id, new)
        if "LifecycleConfiguration" in old and "LifecycleConfiguration" not in new:
            work.client("s3").delete_bucket_lifecycle(Bucket=physical_id)
        return self._attributes(work, physical_id)

    def _configure(self, work: Work, name: str, properties: Properties) -> None:
        s3 = work.client("s3")
        if "BucketEncryption" in properties:
            rules = [
                {
                    "ApplyServerSideEncryptionByDefault": rule["ServerSideEncryptionByDefault"],
                    **picked(rule, "BucketKeyEnabled"),
                }
                for rule in properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
            ]
            s3.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration={"Rules": rules})
        if "VersioningConfiguration" in properties:
            s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=properties["VersioningConfiguration"])
        if "PublicAccessBlockConfiguration" in properties:
            block = properties["PublicAccessBlockConfiguration"]
            s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=block)
        if "OwnershipControls" in properties:
            s3.put_bucket_ownership_controls(Bucket=name, OwnershipControls=properties["OwnershipControls"])
        if "AccessControl" in properties:
            canned = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", properties["AccessControl"]).lower()
            s3.put_bucket_acl(Bucket=name, ACL=canned)
        if "LifecycleConfiguration" in properties:
            rules = [_lifecycle_rule(rule) for rule in properties["LifecycleConfiguration"]["Rules"]]
            s3.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": rules})
        if tag_rows(work, properties):
            s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": tag_rows(work, properties)})
        else:
            s3.delete_bucket_tagging(Bucket=name)

    def _attributes(self, work: Work, name: str) -> Document:
        region = work.caller.region
        return {
            "Arn": f"arn:aws:s3:::{name}",
            "DomainName": f"{name}.s3.amazonaws.com",
            "DualStackDomainName": f"{name}.s3.dualstack.{region}.amazonaws.com",
            "RegionalDomainName": f"{name}.s3.{region}.amazonaws.com",
            "WebsiteURL": f"http://{name}.s3-website-{region}.amazonaws.com",
        }


def _lifecycle_rule(rule: Properties) -> Document:
    """CloudFormation's flat lifecycle rule as the API's nested one."""
    shaped: Document = {"Status": rule["Status"], "Filter": {"Prefix": rule.get("Prefix", "")}}
    if "Id" in rule:
        shaped["ID"] = rule["Id"]
    if "ExpirationInDays" in rule:
        shaped["Expiration"] = {"Days": rule["ExpirationInDays"]}
    days = rule.get("NoncurrentVersionExpirationInDays") or rule.get("NoncurrentVersionExpiration", {}).get(
        "NoncurrentDays"
    )
    if days:
        shaped["NoncurrentVersionExpiration"] = {"NoncurrentDays": days}
    if "AbortIncompleteMultipartUpload" in rule:
        shaped["AbortIncompleteMultipartUpload"] = rule["AbortIncompleteMultipartUpload"]
    known = {
        "Id", "Status", "Prefix", "ExpirationInDays", "NoncurrentVersionExpirationInDays",
        "NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload",
    }  # fmt: skip
    if rule.keys() - known:
        raise ResourceFailedError(
            f"The local cloud does not provide {', '.join(sorted(rule.keys() - known))} of a lifecycle rule."
        )
    return shaped


class BucketPolicy(PutType):
    type_name = "AWS::S3::BucketPolicy"
    supported = names("Bucket PolicyDocument")
    deletion = ("s3", "delete_bucket_policy", "Bucket")

    def name(self, work: Work, properties: Properties) -> str:
        return str(properties["Bucket"])

    def put(self, work: Work, name: str, old: Properties, new: Properties) -> Document:
        work.client("s3").put_bucket_policy(Bucket=new["Bucket"], Policy=as_text(new["PolicyDocument"]))
        return {}


class Table(ResourceType):
    type_name = "AWS::DynamoDB::Table"
    supported = names(
        "AttributeDefinitions BillingMode KeySchema PointInTimeRecoverySpecification ProvisionedThroughput "
        "SSESpecification TableName Tags TimeToLiveSpecification"
    )
    name_property = "TableName"
    longest_name = 255
    deletion = ("dynamodb", "delete_table", "TableName")

    def create(self, work: Work, properties: Properties) -> Made:
        dynamodb, name = work.client("dynamodb"), self.name(work, properties)
        request = picked(properties, "AttributeDefinitions", "KeySchema", "BillingMode", "ProvisionedThroughput")
        if "SSESpecification" in properties:
            encryption = properties["SSESpecification"]
            request["SSESpecification"] = {
                "Enabled": encryption["SSEEnabled"], **picked(encryption, "SSEType", "KMSMasterKeyId")
            }  # fmt: skip
        table = dynamodb.create_table(TableName=name, **request)["TableDescription"]
        if tag_rows(work, properties):
            dynamodb.tag_resource(ResourceArn=table["TableArn"], Tags=tag_rows(work, properties))
        self._configure(dynamodb, name, properties)
        return Made(name, {"Arn": table["TableArn"]})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        fixed = changed - {"TimeToLiveSpecification", "PointInTimeRecoverySpecification", "Tags"}
        if fixed:
            raise ResourceFailedError(
                f"The local cloud does not change {', '.join(sorted(fixed))} of a table in place."
            )
        self._configure(work.client("dynamodb"), physical_id, {name: new[name] for name in changed & new.keys()})
        return {"Arn": work.caller.arn("dynamodb", f"table/{physical_id}")}

    def _configure(self, dynamodb: BaseClient, name: str, properties: Properties) -> None:
        if "TimeToLiveSpecification" in properties:
            wanted = properties["TimeToLiveSpecification"]
            dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=wanted)
        if "PointInTimeRecoverySpecification" in properties:
            recovery = properties["PointInTimeRecoverySpecification"]
            dynamodb.update_continuous_backups(TableName=name, PointInTimeRecoverySpecification=recovery)
