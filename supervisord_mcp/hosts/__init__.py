"""Files of other programs that name servers: found, read, changed and given back; every other byte is its owner's."""
