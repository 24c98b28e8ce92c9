"""What runs where: chip, operator graph, mapping, program. Imports nothing of ours."""
