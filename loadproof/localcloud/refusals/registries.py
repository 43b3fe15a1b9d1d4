"""What ECR refuses beyond its service model."""

from __future__ import annotations

from loadproof.localcloud.refusals.rules import Rule, check_tags, moto_of
from loadproof.localcloud.wire import Caller, Params

_INVALID, _MOST = "InvalidTagParameterException", "TooManyTagsException"


def _create(caller: Caller, params: Params) -> None:
    check_tags([tag["Key"] for tag in params.get("tags") or []], _INVALID, most=_MOST)


def _tag(caller: Caller, params: Params) -> None:
    kept = moto_of("ecr", caller).tagger.get_tag_dict_for_resource(params["resourceArn"])
    check_tags([tag["Key"] for tag in params["tags"]], _INVALID, most=_MOST, kept=kept)


RULES: dict[str, Rule] = {"CreateRepository": _create, "TagResource": _tag}
