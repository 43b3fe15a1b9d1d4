"""`loadproof queue` in front of a deployed profile: its own stack, its own consumer, a model that answers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "constructs"))  # stacks_cloud, bedrock_profiles

from bedrock_profiles import bedrock_profile
from stacks_cloud import local_cloud

from loadproof.cli.main import run


def test_from_the_first_prompt_to_the_last_dead_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Twelve prompts are answered, and asked again cost nothing; a poisonous one is told with the consumer's reason,
    redriven, and dead again by the consumer's own judgement."""
    folder = tmp_path / "test"
    folder.mkdir()
    (folder / "environment.yaml").write_text('account: "123456789012"\nregion: us-east-1\n', "utf-8")
    profile = bedrock_profile(folder, {"buffer": {"max_concurrency": 2, "batch_size": 4}})
    prompts = "".join(json.dumps({"prompt": f"question {number}"}) + "\n" for number in range(12))
    Path(tmp_path, "in.jsonl").write_text(prompts, "utf-8")
    monkeypatch.chdir(tmp_path)
    command = ["queue", "send", str(folder / "chat.yaml")]
    with local_cloud(tmp_path, "queue") as cloud:
        assert cloud.deploy(profile) == "CREATE_COMPLETE"
        for variable, value in cloud.local.environment().items():
            monkeypatch.setenv(variable, value)

        waits = ["--max-tokens", "3", "--wait", "--wait-s", "60", "--format", "json"]
        assert run([*command, "--input", "in.jsonl", "--output", "out.jsonl", *waits]) == 0
        rows = [json.loads(line) for line in Path("out.jsonl").read_bytes().splitlines()]
        assert len({row["key"] for row in rows}) == 12
        assert {row["result"]["answer"]["usage"]["completion_tokens"] for row in rows} == {3}
        assert run([*command, "--input", "in.jsonl", "--output", "again.jsonl", *waits]) == 0
        again = {row["key"]: row for row in map(json.loads, Path("again.jsonl").read_bytes().splitlines())}
        assert again == {row["key"]: row for row in rows}

        Path("bad.jsonl").write_text('{"request": {"messages": "CANARY"}, "key": "bad"}\n', "utf-8")
        assert run([*command, "--input", "bad.jsonl", "--output", "bad-out.jsonl", *waits]) == 1
        (bad,) = map(json.loads, Path("bad-out.jsonl").read_bytes().splitlines())
        assert bad["error"].startswith("dead-lettered: ") and "CANARY" not in bad["error"]
        capfd.readouterr()
        assert run(["queue", "redrive", str(folder / "chat.yaml"), "--format", "json"]) == 0
        redriven = json.loads(capfd.readouterr().out)
        assert (redriven["sent"], redriven["done"]) == (1, 0)
        assert run([*command, "--input", "bad.jsonl", "--output", "bad-again.jsonl", *waits]) == 1
        capfd.readouterr()
        assert run(["queue", "status", str(folder / "chat.yaml"), "--keys", "--format", "json"]) == 0
        status = json.loads(capfd.readouterr().out)
        assert status["keys"] == {"done": 12, "released": 1} and status["waiting"] == 0
        assert sum(status["dead_letters_by_reason"].values()) == status["dead_letters"] >= 1
