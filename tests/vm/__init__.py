"""What only a machine with systemd and control groups of version 2 can show; `contrib.vm` runs it in a virtual one."""
