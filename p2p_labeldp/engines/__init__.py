"""How labels become reports: actors with real messages, or arrays; the same reports bit for bit."""
