"""Copies and what they were started from."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from loadproof.localcloud.directory import ContainerView
from loadproof.localcloud.model_server.contract import Place
from loadproof.localcloud.runtime.fleet import Fleet, Wanted

WITH = ContainerView("vllm", {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "true"}, None, {})
WITHOUT = replace(WITH, environment={})


class Started:
    """A container that remembers whether it was closed."""

    def __init__(self, container: ContainerView) -> None:
        self.container, self.closed = container, False

    async def close(self) -> None:
        self.closed = True


def test_what_is_made_again_under_its_old_name_runs_what_it_says_now() -> None:
    """Before anybody swept the old one away: its key is the same, its container is not."""
    started: list[Started] = []

    def start(container: ContainerView, place: Place) -> Started:
        started.append(Started(container))
        return started[-1]

    async def made_again() -> None:
        fleet = Fleet(start)  # type: ignore[arg-type]
        wanted = Wanted("component/chat/ml.g5.2xlarge/1", WITH, Place("ml.g5.2xlarge", 1), 2)
        fleet.reconcile(wanted)
        copies = fleet.reconcile(replace(wanted, container=WITHOUT))
        assert [copy.runs for copy in copies] == [WITHOUT, WITHOUT]
        await asyncio.sleep(0.1)

    asyncio.run(made_again())
    assert [one.closed for one in started] == [True, True, False, False]
