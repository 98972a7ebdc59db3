"""How fast training and translating are, beside what the machine can do."""
