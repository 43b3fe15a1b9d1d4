"""What ECR refuses beyond its service model."""

from __future__ import annotations

from typing import Any

from moto.backends import get_backend

from loadproof.localcloud.refusals.rules import Rule, check_tags
from loadproof.localcloud.wire import Caller, Params

_INVALID, _MOST = "InvalidTagParameterException", "TooManyTagsException"


def _create(caller: Caller, params: Params) -> None:
    check_tags([tag["Key"] for tag in params.get("tags") or []], _INVALID, most=_MOST)


def _tag(caller: Caller, params: Params) -> None:
    tagger: Any = get_backend("ecr")[caller.account][caller.region].tagger
    kept = tagger.get_tag_dict_for_resource(params["resourceArn"])
    check_tags([tag["Key"] for tag in params["tags"]], _INVALID, most=_MOST, kept=kept)


RULES: dict[str, Rule] = {"CreateRepository": _create, "TagResource": _tag}
