"""CDK constructs; one with code of its own to run in the cloud has `infrastructure.py` beside `runtime/`."""
