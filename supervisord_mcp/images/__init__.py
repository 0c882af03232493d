"""Images of containers before a start: fetched in a phase of their own, and held to what they were when first used."""
