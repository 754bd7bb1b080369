"""``fullgraph diff``: what another torch, or a change of the code, changes."""
