"""The companion job: what to send, sending it, what came back, and whether that is good enough.

`job.run_benchmark` is the one way in; `loadproof bench` is its door for people.
"""
