"""Results of traces: of the last texts in memory, and of the latest on disk. They are valid while
everything that they depend on is unchanged.
"""
