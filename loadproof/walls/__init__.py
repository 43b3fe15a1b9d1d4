"""Code that is not ours, behind walls: functions deployed to a local cloud, and what a pull request synthesizes by."""
