"""A small engine for the rules of the architecture: what a project is (`source`), and the rules by subject."""
