"""What runs where: the chip, the operator graph, the mapping, the program. Imports nothing of ours."""
