"""Preflight before an update: what the stack has made itself is in nobody's way."""

from __future__ import annotations

from pathlib import Path

from stacks_cloud import local_cloud
from stacks_support import ENVIRONMENT, profile

from loadproof.preflight.collect import Deployments
from loadproof.preflight.inspection import preflight


def test_names_of_a_deployed_stack_are_its_own(tmp_path: Path) -> None:
    """Endpoint, component, queues, dashboard and log groups stand there; and again without the stack's knowing them."""
    chosen = profile(tmp_path, {"buffer": {}})
    with local_cloud(tmp_path, "preflight-deployed") as cloud:

        def taken() -> dict[str, str]:
            seen = preflight(Deployments("test", ENVIRONMENT, (chosen,), "hnb659fds"), cloud.client, timeout_s=300)
            return {one.place: one.code for one in seen.findings if one.code.startswith("LA14")}

        assert taken() == {}
        assert cloud.deploy(chosen) == "CREATE_COMPLETE"
        assert taken() == {}
        assert cloud.destroy("loadproof-test-chat") == "DELETE_COMPLETE"
        cloud.client("sqs").create_queue(QueueName="loadproof-test-chat-dead-letters")
        cloud.client("logs").create_log_group(
            logGroupName="/aws/sagemaker/InferenceComponents/loadproof-test-chat-main"
        )
        assert taken() == {
            "loadproof-test-chat-dead-letters": "LA143",
            "/aws/sagemaker/InferenceComponents/loadproof-test-chat-main": "LA144",
        }
