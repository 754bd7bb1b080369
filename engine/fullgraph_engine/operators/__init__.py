"""Build the operator index (a file that lists torch's names and operators) and check the operators
that a user's file defines."""
