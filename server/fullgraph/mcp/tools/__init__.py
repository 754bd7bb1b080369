"""The tools of the server, one module each: from the arguments of a call to an answer."""
