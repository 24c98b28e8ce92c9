"""From evidence to suspects: cores and links that ran slower than they should."""
