"""What the tests need around the product: a fake server, a fake host, a process probe, and a daemon of their own."""
