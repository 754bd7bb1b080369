"""Minimal scripts that show one finding and depend only on torch."""
