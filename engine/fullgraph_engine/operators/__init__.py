"""Build the index of torch's operators and check the operators that a file defines."""
