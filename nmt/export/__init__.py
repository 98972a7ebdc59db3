"""Writing a model in the formats of other programs, checked against our own translations."""
