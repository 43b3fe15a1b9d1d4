"""One run from several hosts: they read one plan from S3, each sends its share, one of them leads and judges.

`job` starts and follows a run, `host` is the program on each machine, `fleet` leads, `agent` obeys, `mailbox` is how
they talk, `merge` puts together what the hosts left when their leader was lost.
"""
