"""The base images of containers: their recipes, and how they are built without a registry."""
