"""How long a deployment waits for a benchmark. CloudFormation waits at most an hour for a custom resource."""

from __future__ import annotations

from typing import Final

GATE_TIMEOUT_S: Final = 3600  # CloudFormation's longest ServiceTimeout
_ANSWER_S: Final = 120  # from the job's end to CloudFormation's having its answer
JOB_WAIT_S: Final = GATE_TIMEOUT_S - _ANSWER_S
_JOB_START_S: Final = 600  # allowed for instances and image; not measured
LONGEST_GATED_RUN_S: Final = JOB_WAIT_S - _JOB_START_S  # the job's own MaxRuntimeInSeconds
WAKING_S: Final = 900  # the job waits so long for the first copy: 9.4 minutes where it was measured
LONGEST_RUN_S: Final = 24 * 3600  # of a benchmark that no deployment waits for
