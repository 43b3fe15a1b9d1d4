"""AWS::KMS::Key and Alias, AWS::SSM::Parameter, AWS::ECR::Repository, AWS::SecretsManager::Secret."""

from __future__ import annotations

import json

from loadproof.localcloud.controlplane.cloudformation.resources.base import Made, Properties, Work, picked, tag_list
from loadproof.localcloud.documents import Document


class Key:
    type_name = "AWS::KMS::Key"
    supported = frozenset(
        {
            "Description",
            "Enabled",
            "EnableKeyRotation",
            "KeyPolicy",
            "KeySpec",
            "KeyUsage",
            "PendingWindowInDays",
            "Tags",
        }
    )
    name_property = None

    def create(self, work: Work, properties: Properties) -> Made:
        kms = work.client("kms")
        tags = [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in tag_list(work, properties)]
        policy = {"Policy": json.dumps(properties["KeyPolicy"])} if "KeyPolicy" in properties else {}
        request = picked(properties, "Description", "KeySpec", "KeyUsage")
        metadata = kms.create_key(**policy, **request, Tags=tags)["KeyMetadata"]
        if properties.get("EnableKeyRotation"):
            kms.enable_key_rotation(KeyId=metadata["KeyId"])
        return Made(metadata["KeyId"], {"Arn": metadata["Arn"], "KeyId": metadata["KeyId"]})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        kms = work.client("kms")
        if "KeyPolicy" in new:
            kms.put_key_policy(KeyId=physical_id, PolicyName="default", Policy=json.dumps(new["KeyPolicy"]))
        kms.update_key_description(KeyId=physical_id, Description=new.get("Description", ""))
        return {"Arn": work.caller.arn("kms", f"key/{physical_id}"), "KeyId": physical_id}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        days = int(properties.get("PendingWindowInDays", 30))
        work.client("kms").schedule_key_deletion(KeyId=physical_id, PendingWindowInDays=days)


class KeyAlias:
    type_name = "AWS::KMS::Alias"
    supported = frozenset({"AliasName", "TargetKeyId"})
    name_property = "AliasName"

    def create(self, work: Work, properties: Properties) -> Made:
        work.client("kms").create_alias(AliasName=properties["AliasName"], TargetKeyId=properties["TargetKeyId"])
        return Made(properties["AliasName"])

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        work.client("kms").update_alias(AliasName=physical_id, TargetKeyId=new["TargetKeyId"])
        return {}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("kms").delete_alias(AliasName=physical_id)


class Parameter:
    type_name = "AWS::SSM::Parameter"
    supported = frozenset({"AllowedPattern", "DataType", "Description", "Name", "Tags", "Tier", "Type", "Value"})
    name_property = "Name"

    def create(self, work: Work, properties: Properties) -> Made:
        name = properties.get("Name") or work.generated_name(200)
        self._put(work, name, properties, overwrite=False)
        return Made(name, {"Type": properties["Type"], "Value": properties["Value"]})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        self._put(work, physical_id, new, overwrite=True)
        return {"Type": new["Type"], "Value": new["Value"]}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("ssm").delete_parameter(Name=physical_id)

    def _put(self, work: Work, name: str, properties: Properties, *, overwrite: bool) -> None:
        request = picked(properties, "AllowedPattern", "DataType", "Description", "Tier", "Type")
        work.client("ssm").put_parameter(Name=name, Value=str(properties["Value"]), Overwrite=overwrite, **request)


class Repository:
    type_name = "AWS::ECR::Repository"
    supported = frozenset(
        {
            "EmptyOnDelete", "EncryptionConfiguration", "ImageScanningConfiguration", "ImageTagMutability",
            "LifecyclePolicy", "RepositoryName", "RepositoryPolicyText", "Tags",
        }
    )  # fmt: skip
    name_property = "RepositoryName"

    def create(self, work: Work, properties: Properties) -> Made:
        name = properties.get("RepositoryName") or work.generated_name(200, lower=True)
        repository = work.client("ecr").create_repository(
            repositoryName=name, imageTagMutability=properties.get("ImageTagMutability", "MUTABLE")
        )["repository"]
        self._configure(work, name, properties)
        return Made(name, {"Arn": repository["repositoryArn"], "RepositoryUri": repository["repositoryUri"]})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        self._configure(work, physical_id, new)
        found = work.client("ecr").describe_repositories(repositoryNames=[physical_id])["repositories"][0]
        return {"Arn": found["repositoryArn"], "RepositoryUri": found["repositoryUri"]}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        force = bool(properties.get("EmptyOnDelete"))
        work.client("ecr").delete_repository(repositoryName=physical_id, force=force)

    def _configure(self, work: Work, name: str, properties: Properties) -> None:
        ecr = work.client("ecr")
        if "RepositoryPolicyText" in properties:
            ecr.set_repository_policy(repositoryName=name, policyText=json.dumps(properties["RepositoryPolicyText"]))
        if "LifecyclePolicy" in properties:
            text = properties["LifecyclePolicy"]["LifecyclePolicyText"]
            ecr.put_lifecycle_policy(repositoryName=name, lifecyclePolicyText=text)
        if "ImageScanningConfiguration" in properties:
            scan = {"scanOnPush": bool(properties["ImageScanningConfiguration"].get("ScanOnPush"))}
            ecr.put_image_scanning_configuration(repositoryName=name, imageScanningConfiguration=scan)


class Secret:
    """A secret with the value given, or a generated one."""

    type_name = "AWS::SecretsManager::Secret"
    supported = frozenset({"Description", "GenerateSecretString", "KmsKeyId", "Name", "SecretString", "Tags"})
    name_property = "Name"

    def create(self, work: Work, properties: Properties) -> Made:
        secrets = work.client("secretsmanager")
        arn = secrets.create_secret(
            Name=properties.get("Name") or work.generated_name(512),
            SecretString=self._value(work, properties),
            Tags=tag_list(work, properties),
            **picked(properties, "Description", "KmsKeyId"),
        )["ARN"]
        return Made(arn, {"Id": arn})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        told = ("SecretString", "GenerateSecretString")
        changed = any(old.get(name) != new.get(name) for name in told)
        value = {"SecretString": self._value(work, new)} if changed else {}
        secrets = work.client("secretsmanager")
        secrets.update_secret(SecretId=physical_id, **picked(new, "Description", "KmsKeyId"), **value)
        if tag_list(work, new):
            secrets.tag_resource(SecretId=physical_id, Tags=tag_list(work, new))
        return {"Id": physical_id}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("secretsmanager").delete_secret(SecretId=physical_id, ForceDeleteWithoutRecovery=True)

    def _value(self, work: Work, properties: Properties) -> str:
        if "SecretString" in properties:
            return str(properties["SecretString"])
        wanted = dict(properties.get("GenerateSecretString", {}))
        template, name = wanted.pop("SecretStringTemplate", None), wanted.pop("GenerateStringKey", None)
        generated: str = work.client("secretsmanager").get_random_password(**wanted)["RandomPassword"]
        return json.dumps({**json.loads(template), name: generated}) if template and name else generated
