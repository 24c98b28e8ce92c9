"""What failures cost a machine: checkpoint cadence, losses, computational efficiency."""
