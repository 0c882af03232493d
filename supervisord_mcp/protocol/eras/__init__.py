"""The two bridges between the eras of the protocol: pure, and each rule names its section of protocol.md (6)."""
