"""Reads, cleans and tokenizes parallel text, and turns it into training batches."""
