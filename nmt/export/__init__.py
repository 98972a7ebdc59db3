"""Exports models to the formats of other programs, and checks the exported models."""
