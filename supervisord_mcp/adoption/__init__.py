"""Takes over the servers that hosts have and gives them back; `hosts` knows the files, this what they mean for us."""
