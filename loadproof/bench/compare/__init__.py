"""Better or worse than an earlier run, by what runs differ among themselves."""
