"""A trace in, a diagnosis out: sketch, suspects, ranking. No torch, no simulator."""
