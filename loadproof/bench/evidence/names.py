"""Files of a run, as the modules that write them call them; those load numpy, and a review reads no request."""

PLAN, SUMMARY, EVIDENCE, REQUESTS = "plan.json", "summary.json", "evidence.json", "requests.jsonl"
SIGNATURE = "evidence.dsse.json"
PACKED = ".gz"
MARKS = frozenset({PLAN, SUMMARY, EVIDENCE, SIGNATURE})  # any of them makes a folder a run
