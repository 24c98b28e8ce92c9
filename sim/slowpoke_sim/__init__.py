"""The accelerator: a program, faults and noise in, a trace out."""
