"""Commands that fetch what they run: recognised, installed once, then run without network from a read-only folder."""
