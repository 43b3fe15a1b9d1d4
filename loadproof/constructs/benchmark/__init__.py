"""An environment's benchmarks in the cloud: a job, what starts and judges it, and what tells its verdict."""
