"""Measures the speed of training and translation, and the limits of the machine."""
