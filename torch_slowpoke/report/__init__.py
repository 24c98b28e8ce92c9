"""How results look: text, pictures, traces for other tools."""
