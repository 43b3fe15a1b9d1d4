"""Custom resource: empties a bucket when it is deleted, if the bucket itself says so. Lambda runs this text inline."""

from typing import Any

import boto3
from botocore.exceptions import ClientError

from loadproof.wire.custom_resource import respond


def handler(event: dict[str, Any], context: object) -> None:
    deleted = event["RequestType"] == "Delete"
    bucket = event["PhysicalResourceId"] if deleted else event["ResourceProperties"]["BucketName"]

    def work() -> dict[str, Any]:
        if deleted:
            empty(bucket)
        return {}

    respond(event, context, bucket, work, f"{bucket} could not be emptied")


def empty(bucket: str) -> None:
    """Every version and marker, 1,000 a call. Without the tag, the bucket is kept: its environment changed its mind."""
    s3 = boto3.client("s3")
    try:
        tags = s3.get_bucket_tagging(Bucket=bucket)["TagSet"]
    except ClientError as error:
        if error.response["Error"]["Code"] in ("NoSuchBucket", "NoSuchTagSet"):
            return
        raise
    if {"Key": "loadproof:on-destroy", "Value": "delete"} not in tags:
        return
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        found = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        if not found:
            continue
        objects = [{"Key": one["Key"], "VersionId": one["VersionId"]} for one in found]
        left = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True}).get("Errors")
        if left:
            raise RuntimeError(f"{len(left)} objects stay, the first: {left[0]['Key']}: {left[0].get('Message')}")
