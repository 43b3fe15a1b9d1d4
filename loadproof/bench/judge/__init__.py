"""Whether it is good enough: summary, verdict, change against an earlier run."""
