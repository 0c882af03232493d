"""The meaning of messages, pure: no clock, no randomness, no I/O, no logging; bytes and events in, commands out."""
