"""Actions that are dangerous on their own, or together with iam:PassRole: one table for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# What follows from having one of these -> the actions.
ESCALATING: Final[Mapping[str, tuple[str, ...]]] = {
    "can have any right": (
        *("cognito-identity:SetIdentityPoolRoles", "iam:AddClientIDToOpenIDConnectProvider", "iam:AddUserToGroup"),
        *("iam:AttachGroupPolicy", "iam:AttachRolePolicy", "iam:AttachUserPolicy", "iam:CreateAccessKey"),
        *("iam:CreateLoginProfile", "iam:CreateOpenIDConnectProvider", "iam:CreatePolicyVersion"),
        *("iam:CreateSAMLProvider", "iam:CreateServiceSpecificCredential", "iam:DeleteGroupPolicy"),
        *("iam:DeleteRolePermissionsBoundary", "iam:DeleteRolePolicy", "iam:DeleteUserPermissionsBoundary"),
        *("iam:DeleteUserPolicy", "iam:DetachGroupPolicy", "iam:DetachRolePolicy", "iam:DetachUserPolicy"),
        *("iam:PutGroupPolicy", "iam:PutRolePermissionsBoundary", "iam:PutRolePolicy"),
        *("iam:PutUserPermissionsBoundary", "iam:PutUserPolicy", "iam:ResetServiceSpecificCredential"),
        *("iam:SetDefaultPolicyVersion", "iam:UpdateAccessKey", "iam:UpdateAssumeRolePolicy"),
        *("iam:UpdateLoginProfile", "iam:UpdateOpenIDConnectProviderThumbprint", "iam:UpdateSAMLProvider"),
        "iam:DeactivateMFADevice",
        *(
            "sso:AttachManagedPolicyToPermissionSet",
            "sso:CreateAccountAssignment",
            "sso:PutInlinePolicyToPermissionSet",
        ),
    ),
    "can run his own code with the rights of others": (
        *("cloudformation:ExecuteChangeSet", "cloudformation:UpdateStack", "cloudformation:UpdateStackSet"),
        *("codebuild:StartBuild", "codebuild:StartBuildBatch", "codebuild:UpdateProject", "codecommit:GitPush"),
        *("datapipeline:PutPipelineDefinition", "ec2-instance-connect:SendSSHPublicKey"),
        *("ec2-instance-connect:SendSerialConsoleSSHPublicKey", "ec2:ModifyInstanceAttribute", "ecr:PutImage"),
        *("ecs:ExecuteCommand", "glue:UpdateDevEndpoint", "lambda:PublishLayerVersion", "lambda:UpdateAlias"),
        *("lambda:UpdateFunctionCode", "lambda:UpdateFunctionConfiguration"),
        *("sagemaker:CreatePresignedDomainUrl", "sagemaker:CreatePresignedNotebookInstanceUrl"),
        *("sagemaker:UpdateNotebookInstanceLifecycleConfig", "ssm:ResumeSession", "ssm:SendCommand"),
        *("ssm:StartSession", "ssm:UpdateDocument", "states:UpdateStateMachine"),
    ),
    "can open it to others": (
        *(
            "s3:PutBucketPolicy",
            "dynamodb:PutResourcePolicy",
            "ecr:PutRegistryPolicy",
            "ecr:SetRepositoryPolicy",
            "events:PutPermission",
        ),
        *("kinesis:PutResourcePolicy", "kms:CreateGrant", "kms:PutKeyPolicy", "lambda:AddLayerVersionPermission"),
        *("lambda:AddPermission", "lambda:CreateFunctionUrlConfig", "lambda:PutResourcePolicy"),
        *("lambda:UpdateFunctionUrlConfig", "s3:DeleteAccessPointPolicy", "s3:DeleteBucketPolicy"),
        *("s3:PutAccessPointPolicy", "s3:PutAccountPublicAccessBlock", "s3:PutBucketAcl"),
        *("s3:PutBucketPublicAccessBlock", "s3:PutObjectAcl", "s3:PutObjectVersionAcl"),
        *("secretsmanager:PutResourcePolicy", "sns:AddPermission", "sns:SetTopicAttributes", "sqs:AddPermission"),
        *("sqs:SetQueueAttributes", "ssm:ModifyDocumentPermission", "ssm:PutResourcePolicy"),
    ),
    "can act without being seen": (
        *("cloudtrail:DeleteTrail", "cloudtrail:PutEventSelectors", "cloudtrail:StopLogging", "cloudtrail:UpdateTrail"),
        *("config:DeleteConfigurationRecorder", "config:StopConfigurationRecorder", "guardduty:DeleteDetector"),
        *("organizations:LeaveOrganization",),
    ),
}
# Conditions under which an action is none of these: a grant that only AWS's services use for their own resources.
BOUND_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "kms:CreateGrant": ("kms:GrantIsForAWSResource", "kms:GranteePrincipal", "kms:ViaService"),
}
# What runs a role that is passed to it: with this and iam:PassRole somebody runs his own code as that role.
RUNS_A_ROLE: Final = (
    *("apprunner:CreateService", "apprunner:UpdateService", "appstream:CreateFleet", "appstream:CreateImageBuilder"),
    *("autoscaling:CreateAutoScalingGroup", "autoscaling:CreateLaunchConfiguration", "batch:RegisterJobDefinition"),
    *("bedrock:CreateAgent", "bedrock:CreateFlow", "bedrock:CreateModelCustomizationJob", "bedrock:UpdateAgent"),
    *("bedrock:UpdateFlow", "bedrock-agentcore:CreateAgentRuntime", "bedrock-agentcore:CreateCodeInterpreter"),
    *("cloudformation:CreateChangeSet", "cloudformation:CreateStack", "cloudformation:CreateStackInstances"),
    *("cloudformation:CreateStackSet", "codebuild:CreateProject"),
    *("codepipeline:CreatePipeline", "codepipeline:UpdatePipeline"),
    *("codestar:CreateProject", "datapipeline:CreatePipeline", "dms:CreateReplicationTask"),
    *("ec2:AssociateIamInstanceProfile", "ec2:CreateLaunchTemplate", "ec2:CreateLaunchTemplateVersion"),
    *("ec2:ReplaceIamInstanceProfileAssociation", "ec2:RequestSpotFleet", "ec2:RequestSpotInstances"),
    *("ec2:RunInstances", "ecs:CreateService", "ecs:RegisterTaskDefinition", "ecs:RunTask", "ecs:StartTask"),
    *("ecs:UpdateService", "elasticbeanstalk:CreateEnvironment", "elasticmapreduce:RunJobFlow"),
    *("emr-containers:StartJobRun", "emr-serverless:StartJobRun", "events:PutTargets", "fis:CreateExperimentTemplate"),
    *("gamelift:CreateBuild", "glue:CreateDevEndpoint", "glue:CreateJob", "glue:CreateSession", "glue:UpdateJob"),
    *("greengrass:CreateDeployment", "imagebuilder:CreateImage", "imagebuilder:CreateImagePipeline"),
    *("imagebuilder:CreateInfrastructureConfiguration", "iot:CreateTopicRule", "iot:ReplaceTopicRule"),
    *("lambda:CreateFunction", "pipes:CreatePipe", "pipes:UpdatePipe"),
    *("sagemaker:CreateAutoMLJobV2", "sagemaker:CreateDomain", "sagemaker:CreateHyperParameterTuningJob"),
    *("sagemaker:CreateModel", "sagemaker:CreateNotebookInstance", "sagemaker:CreatePipeline"),
    *("sagemaker:CreateProcessingJob", "sagemaker:CreateTrainingJob", "sagemaker:CreateUserProfile"),
    *("sagemaker:UpdateNotebookInstance", "sagemaker:UpdatePipeline", "scheduler:CreateSchedule"),
    *("scheduler:UpdateSchedule", "ssm:CreateAssociation", "ssm:StartAutomationExecution"),
    *("states:CreateStateMachine", "transfer:CreateServer"),
)
# Policies of AWS's with all of a service, or with what it keeps for everybody.
BROAD_POLICIES: Final = (
    r"(?:.*(?:FullAccess|AdministratorAccess)(?:V\d|-\w+)?|PowerUserAccess|ReadOnlyAccess|SecretsManagerReadWrite"
    r"|AmazonS3ReadOnlyAccess|DataScientist|SystemAdministrator|NetworkAdministrator|DatabaseAdministrator)"
)
