"""A review's document that somebody else left behind, read as a stranger's: checked, bounded, and without his links.

What is kept is data: names, figures, findings by their codes. The verdict, severities, titles, mends and links are made
here again from the rules that this program has; what stays a sentence of the document's is quoted (`claims`). So
whatever a document says, nobody takes it for our word, and it leads nowhere of its own.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from loadproof.errors import InputError
from loadproof.review.bounds import MOST_BYTES, check_bounds
from loadproof.review.claims import claimed, named, side
from loadproof.review.document import DOCS_PAGE, SCHEMA_VERSION, counts_of, nothing_left_out, rank
from loadproof.review.model import SEVERITIES, Severity
from loadproof.review.rules import RULES
from loadproof.review.shapes import CostDocument, Document, FindingDocument, ProfileDocument
from loadproof.review.verdict import in_a_sentence, verdict_of
from loadproof.untrusted import with_escapes

MOST_PROBLEMS: Final = 5
LONGEST_PLACE: Final = 200  # characters
_CODE: Final = re.compile(r"L[PRS][0-9]{3}")
_LINE: Final = range(1, 1_000_000)
_OF_ENVIRONMENT: Final = "environment.yaml: "  # before a field of it
_OUTCOMES: Final = ("PASS", "FAIL", "INCONCLUSIVE", "INVALID")
_MORE: Final = re.compile(r"and [0-9,]+ more")
LONGEST_NAME: Final = 80  # characters of a profile's or environment's
LONGEST_PART: Final = 38  # of an objective's or a class's, without quotation marks
MOST_REASONS, LONGEST_REASON = 5, 150  # of why a run is stale or proves nothing; characters of each


def read_document(data: bytes, *, docs: str = DOCS_PAGE) -> Document:
    """The document, with `docs` as the page of findings. Raises InputError for whatever no review writes."""
    if len(data) > MOST_BYTES:
        raise InputError(f"review: {len(data):,} bytes, at most {MOST_BYTES:,} are read")
    try:
        loaded = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InputError(f"review: no JSON: {error}") from None
    check_bounds(loaded)
    try:
        document = _SHAPE.validate_python(loaded, strict=True)
    except ValidationError as error:
        told = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors(include_url=False)]
        # Keys are the stranger's, and may be long or hold line ends.
        words = [f"review: {with_escapes(place[:LONGEST_PLACE])}: {message}" for place, message in told[:MOST_PROBLEMS]]
        raise InputError("\n".join(words)) from None
    if document["schema_version"] != SCHEMA_VERSION:
        raise InputError(f"review: schema_version {document['schema_version']}, expected {SCHEMA_VERSION}")
    return _in_our_words(document, docs)


_SHAPE: Final = TypeAdapter(with_config(ConfigDict(extra="forbid", allow_inf_nan=False))(Document))


def _in_our_words(document: Document, docs: str) -> Document:
    left_out = document.get("left_out", nothing_left_out())
    if min(left_out["profiles"], left_out["rows"], *(left_out["findings"][one] for one in SEVERITIES)) < 0:
        raise InputError("review: left_out counts fewer than none")
    for profile in document["profiles"]:
        _check_places(profile)
        _retell(profile)
        known = [finding for finding in profile["findings"] if finding["code"] in RULES.by_code]
        for finding in profile["findings"]:
            if finding["code"] not in RULES.by_code:
                left_out["findings"][finding["severity"]] += 1
        profile["findings"] = [_by_its_rule(finding, profile["file"], docs) for finding in known]
        profile["findings"].sort(key=lambda one: -rank(one["severity"]))
        profile["severity"] = _worst([finding["severity"] for finding in known])
    document["profiles"].sort(key=lambda one: -rank(one["severity"]))
    found = counts_of([finding["severity"] for profile in document["profiles"] for finding in profile["findings"]])
    document["base"], document["head"] = side(document["base"]), side(document["head"])
    document["not_run"] = [path if _MORE.fullmatch(path) else named(path) for path in document["not_run"]]
    document["verdict"] = verdict_of(document["profiles"], left_out=left_out["findings"], by_title=True)
    for severity in SEVERITIES:
        found[severity] += left_out["findings"][severity]
    document["findings"] = found
    if left_out["profiles"] or left_out["rows"] or any(left_out["findings"].values()):
        document["left_out"] = left_out
    return document


def _check_places(profile: ProfileDocument) -> None:
    """Raises InputError for what is of no review: another code, line or path than one has."""
    _inside(profile["file"])
    file, told = PurePosixPath(profile["file"]), (profile["environment"], profile["profile"])
    if (file.parent.name, file.stem) != told or file.suffix not in (".yaml", ".yml"):
        raise InputError(f"review: {profile['file'][:80]!r} is no file of profile {'/'.join(told)[:80]!r}")
    for finding in profile["findings"]:
        if not _CODE.fullmatch(finding["code"]) or finding["line"] not in _LINE:
            raise InputError(f"review: finding {finding['code'][:40]!r} at line {finding['line']} is of no review")
        _inside(finding["file"])


def _by_its_rule(finding: FindingDocument, profile_file: str, docs: str) -> FindingDocument:
    """What the rule of its code says of it, beside the document's own words in quotation marks."""
    rule = RULES.by_code[finding["code"]]
    if finding["severity"] != rule.severity and finding["severity"] not in rule.also:
        finding["severity"] = rule.severity
    if finding["file"] != profile_file and not _is_made_of(profile_file, finding["file"]):
        finding["file"], finding["line"] = profile_file, 1
    prefix, is_environment, subject = finding["subject"].rpartition(_OF_ENVIRONMENT)
    said = "; ".join(text for text in (finding["message"], finding["mend"]) if text)
    return finding | {
        "title": rule.title,
        "subject": f"{_OF_ENVIRONMENT}{named(subject)}" if is_environment and not prefix else named(finding["subject"]),
        "message": claimed(said),
        "mend": in_a_sentence(rule.mend.rstrip(".")),
        "evidence": named(finding["evidence"]),
        "doc": f"{docs}#{finding['code'].lower()}",
    }


def _is_made_of(profile_file: str, file: str) -> bool:
    """A profile's parents and its environment are YAML files of the folder that all profiles lie in."""
    own, other = PurePosixPath(profile_file), PurePosixPath(file)
    profiles = own.parent.parent
    return own.is_relative_to(profiles) and len(own.parts) > 2 and other.suffix == ".yaml" and profiles in other.parents


def _retell(profile: ProfileDocument) -> None:
    """Names as names, sentences as quotations, differences reckoned again; who signed was looked up by the stranger."""
    for key in ("environment", "profile"):
        profile[key] = named(profile[key], LONGEST_NAME)
    profile["refusal"], profile["price_source"] = claimed(profile["refusal"]), claimed(profile["price_source"])
    profile["problems"] = [claimed(text) for text in profile["problems"]]
    profile["notes"] = [claimed(text) for text in profile["notes"]]
    for field in profile["fields"]:
        field["path"] = named(field["path"])
    for resource in profile["resources"]:
        for name in ("stack", "logical_id", "type", "cause"):
            resource[name] = _in_code(resource[name])
        for one in resource["properties"]:
            one["path"] = _in_code(one["path"])
    for row in profile["objectives"]:
        row["name"] = named(row["name"], LONGEST_PART)
        if "part" in row:
            row["part"] = named(row["part"], LONGEST_PART)
    for cost in profile["costs"]:
        cost["delta_usd_per_month"] = _more(cost)
    evidence, run = profile["evidence"], profile["evidence"]["run"]
    evidence["changed_since"] = [named(text, LONGEST_REASON) for text in evidence["changed_since"][:MOST_REASONS]]
    if run is not None:
        run["run_id"], run["created_utc"] = (
            named(run["run_id"], LONGEST_REASON),
            named(run["created_utc"], LONGEST_REASON),
        )
        run["verdict"] = run["verdict"] if run["verdict"] in _OUTCOMES else claimed(run["verdict"], LONGEST_REASON)
        run |= {"link": "", "signed_by": "claimed", "signer": ""}


def _in_code(text: str) -> str:
    """A name that a page puts between backticks: with none in it that would end the code."""
    return named(text.replace("`", "'"))


def _more(cost: CostDocument) -> float | None:
    before, after = (0.0 if one is None else one["usd_per_month"] for one in (cost["before"], cost["after"]))
    return None if before is None or after is None else after - before


def _worst(severities: list[Severity]) -> Severity | None:
    return max(severities, key=SEVERITIES.index, default=None)


def _inside(file: str) -> str:
    """A path within the repository; a review names no other."""
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts or "\\" in file or "\0" in file:
        raise InputError(f"review: {file[:80]!r} is no path within a repository")
    return file
