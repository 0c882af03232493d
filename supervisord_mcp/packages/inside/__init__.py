"""Programs that install a package inside a container: each is run as text, by what the image has."""
