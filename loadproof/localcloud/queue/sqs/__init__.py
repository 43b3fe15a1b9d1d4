"""SQS as AWS documents it: a pure engine on a clock that is passed in, and its door on loopback."""
