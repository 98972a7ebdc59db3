"""Faster ways to compute what the layers define; tests compare each with plain torch."""
