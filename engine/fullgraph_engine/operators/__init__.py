"""Build the operator index (a file that lists torch's names and operators).

Also check the operators that a user's file defines.
"""
