"""One file per family of hosts: where its files are, and how they name servers, each with where that is documented."""
