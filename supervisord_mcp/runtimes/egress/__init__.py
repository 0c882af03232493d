"""Egress with an allow-list: a sandbox reaches what its rules name, through listeners that the daemon serves, only.

There is no process and no route out of the sandbox in its network namespace: what no listener takes is refused by the
kernel. `plan`, `dns`, `heads` and `clienthello` decide and parse, without any I/O; `agent` is the
program that enters a namespace; `listeners` is its counterpart in the daemon; `outside` is the machine's own network;
`meter`, `relay`, `proxy` and `resolver` serve what a sandbox asks for; `furnishing` puts all of it into a launch.
Whatever cannot be told apart is refused.
"""
