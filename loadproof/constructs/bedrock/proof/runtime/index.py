"""Custom resource: does the model answer? An inference profile is made without any right to its model.

Lambda runs this text inline.
"""

import time
from functools import partial
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from loadproof.wire.custom_resource import RefusedError, respond, rolling_back, with_retries

PATIENCE_S = 120.0
POLL_S = 5.0
NOT_YET = ("InternalServerException", "ModelNotReadyException", "ServiceUnavailableException", "ThrottlingException")


def handler(event: dict[str, Any], context: object) -> None:
    given = event["ResourceProperties"]

    def work() -> dict[str, Any]:
        if event["RequestType"] != "Delete" and not rolling_back(boto3.client("cloudformation"), event["StackId"]):
            prove(boto3.client("bedrock-runtime"), given["ModelArn"], given["Prompt"], int(given["Tokens"]))
        return {}

    respond(event, context, event["LogicalResourceId"], work, "the model could not be asked")


def prove(bedrock: Any, model: str, prompt: str, tokens: int) -> None:
    """Raises RefusedError without an answer that has text, or thoughts, in it."""
    messages = [{"role": "user", "content": [{"text": prompt}]}]
    ask = partial(bedrock.converse, modelId=model, messages=messages, inferenceConfig={"maxTokens": tokens})
    until_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            answer = with_retries(ask)
        except (ClientError, BotoCoreError) as error:
            code = getattr(error, "response", {}).get("Error", {}).get("Code")
            if code not in NOT_YET or time.monotonic() > until_s:
                raise RefusedError(f"It is there and does not answer: {str(error)[:200]}") from error
            time.sleep(POLL_S)
            continue
        parts = answer["output"]["message"]["content"]
        if not any(part.get("text", "").strip() or "reasoningContent" in part for part in parts):
            raise RefusedError("It answers without any text")
        return
