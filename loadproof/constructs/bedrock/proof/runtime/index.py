"""Custom resource: does the model answer? An inference profile is made without any right to its model.

Lambda runs this text inline.
"""

from functools import partial
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from loadproof.wire.custom_resource import RefusedError, once_ready, respond, rolling_back


def handler(event: dict[str, Any], context: object) -> None:
    given = event["ResourceProperties"]

    def work() -> dict[str, object]:
        if event["RequestType"] != "Delete" and not rolling_back(boto3.client("cloudformation"), event["StackId"]):
            prove(boto3.client("bedrock-runtime"), given["ModelArn"], given["Prompt"], int(given["Tokens"]))
        return {}

    respond(event, context, event["LogicalResourceId"], work, "the model could not be asked")


def prove(bedrock: Any, model: str, prompt: str, tokens: int) -> None:
    """Raises RefusedError without an answer that has text, or thoughts, in it."""
    messages = [{"role": "user", "content": [{"text": prompt}]}]
    ask = partial(bedrock.converse, modelId=model, messages=messages, inferenceConfig={"maxTokens": tokens})
    try:
        answer = once_ready(ask)
    except (ClientError, BotoCoreError) as error:
        raise RefusedError(f"It is there and does not answer: {str(error)[:200]}") from error
    parts = answer["output"]["message"]["content"]
    if not any(part.get("text", "").strip() or "reasoningContent" in part for part in parts):
        raise RefusedError("It answers without any text")
