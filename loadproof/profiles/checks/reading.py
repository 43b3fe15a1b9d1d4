"""The codes of reading (LP0xx) and of shape (LP1xx): reported while a file becomes a profile."""

from __future__ import annotations

from loadproof.profiles.checks.rule import reading

reading(
    "LP001",
    "File too large",
    reason="A profile is a page of text. The limit of 256 KiB bounds what a check can cost.",
    mend="Split or shorten the file.",
)
reading(
    "LP002",
    "Not UTF-8 text",
    reason="Other encodings look different to every reader; control and bidirectional characters, also those that "
    "an escape writes, steer the terminals and pages that a text is shown on.",
    mend="Save the file as UTF-8, and delete such characters; newlines and tabs are allowed.",
)
reading(
    "LP003",
    "Not readable as YAML",
    reason="Past a syntax error nothing can be trusted, so reading stops at the first.",
    mend="Look at the place named and the line above: quotes, colons, indentation.",
)
reading(
    "LP004",
    "Not exactly one document",
    reason="An empty file describes nothing, and a second document would be ignored by most readers.",
    mend="Write one profile in a file.",
)
reading(
    "LP005",
    "Anchors, aliases and merge keys",
    reason="A file of 1 KB can expand without bound, and a reader has to chase what a line means.",
    mend="Write the value out, or share a parent file with `extends:`.",
)
reading(
    "LP006",
    "Tags and directives",
    reason="They ask a YAML library to build something else than text, numbers, lists and maps.",
    mend="Delete the tag; quote the value if it is text.",
)
reading(
    "LP007",
    "Duplicate key",
    reason="YAML libraries keep the later value without a word.",
    mend="Delete one of the two.",
)
reading(
    "LP008",
    "Key is not a word",
    reason="A key such as `on` or `12` is not text to YAML, and lists or maps cannot name anything.",
    mend="Quote the key, or use a word.",
)
reading(
    "LP009",
    "Unquoted value that surprises",
    reason="`no` reads as false, `12:30` as 750, `010` as 8, and YAML libraries disagree about it.",
    mend="Write true, false, null or a plain decimal number, and quote everything else that looks like one.",
)
reading(
    "LP010",
    "Nested too deeply",
    reason="No profile needs more than a few levels; 32 bound what a check can cost.",
    mend="Write it flatter.",
)
reading(
    "LP011",
    "Parent cannot be used",
    reason="`extends:` reads one file inside the profiles' own folder, so that a diff of that folder shows all; a "
    "workload's or objectives' may also lie in benchmarks/ beside it.",
    mend="Name an existing .yaml file in such a folder, relative to the child, without a circle.",
)
reading(
    "LP012",
    "File cannot be read",
    reason="It does not exist, is no file, or may not be read.",
    mend="Look at its name and permissions.",
)
reading(
    "LP013",
    "File and profile named differently",
    reason="`-c profile=NAME` chooses by file name, and everything deployed carries the profile's name.",
    mend="Name the file after the profile (where an environment.yaml is), an environment environment.yaml.",
)
reading(
    "LP014",
    "Calibration cannot be used",
    reason="`calibration:` reads one file inside the profiles' own folder: a diff of that folder shows all.",
    mend="Name an existing *.calibration.yaml (`loadproof calibrate` writes it), relative to the profile.",
)
reading(
    "LP015",
    "A model's shape cannot be read",
    reason="Every prediction follows from the model's shape, so a file that is missing or of a family whose shape "
    "is not read here, and a base that the catalog does not list, are refused, never guessed at.",
    mend="Name a config.json below deploy_profiles/, relative to the profile, a `model.base` of the catalog, or write "
    "`model.architecture`.",
)
reading(
    "LP101",
    "Unknown key",
    reason="A misspelt key would be ignored, and its default used instead.",
    mend="Use the key proposed, or look it up in deploy_profiles/schema.json.",
)
reading(
    "LP102",
    "Required key missing",
    reason="There is no default that would be right for everybody.",
    mend="Add the key.",
)
reading(
    "LP103",
    "Value of the wrong kind",
    reason="Nothing is converted silently: text stays text, numbers stay numbers.",
    mend="Write the kind of value named, with or without quotes.",
)
reading(
    "LP104",
    "Text of the wrong form",
    reason="The service would refuse it, minutes into a deployment.",
    mend="Follow the example in the message.",
)
reading(
    "LP105",
    "Out of bounds",
    reason="Bounds are the service's own, or what makes sense at all.",
    mend="Use a value within them.",
)
reading(
    "LP106",
    "Unknown word",
    reason="Only the words listed mean something here.",
    mend="Use one of them.",
)
reading(
    "LP289",
    "File that is not there",
    reason="The benchmark would end where it begins, on the file that it cannot read.",
    mend="Write the path of a file, relative to the profile.",
    severity="warning",
)
reading(
    "LP392",
    "Stack that something else makes",
    reason="A stack is called `loadproof-<environment>-<profile>`, so two profiles, or a profile and another "
    "environment's stack of benchmarks or VPC endpoints, may meet: either deployment would become the other.",
    mend="Rename one of the profiles.",
)
