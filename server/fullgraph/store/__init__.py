"""Stored results of traces: of recent texts in memory, and of the latest text on disk.

Results are valid while everything that they depend on is unchanged.
"""
