"""What a server may reach, as rules: which texts mean which, and the verdict for one host and port. Pure decisions."""
