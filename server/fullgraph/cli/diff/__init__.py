"""``fullgraph diff``: compare two checks, of two versions of torch or of the code."""
