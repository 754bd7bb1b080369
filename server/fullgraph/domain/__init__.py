"""What all parts of the server speak of: codes, findings of a file, positions and their words."""
