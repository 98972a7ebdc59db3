"""Writes files atomically, locks directories, opens files, and writes and checks manifests."""
