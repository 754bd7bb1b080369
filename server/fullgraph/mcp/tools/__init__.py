"""The tools of the server. Each module has one tool, which converts the arguments of a call to an
answer."""
