"""Atomic writes, manifests, locks, and opening files."""
