"""Loss, schedule, processes and the loop."""
