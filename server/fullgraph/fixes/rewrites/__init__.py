"""The rewrites of source code that may fix a finding: each module is about one kind of code."""
