"""Whether it is good enough: an objective's judgement, the verdict of them all."""
