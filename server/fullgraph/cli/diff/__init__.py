"""``fullgraph diff``: compare the findings of two checks, with two versions of torch or of the
code."""
